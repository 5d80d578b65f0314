"""The resource that says why a client does or does not get its messages, as far as this node knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, replace

from iot_mqtt.admin import shapes
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.device_shapes import ANSWERED, of_command
from iot_mqtt.admin.errors import bad_request_if
from iot_mqtt.admin.routes import Resource, combined
from iot_mqtt.admin.schemas import Json, Schemas, items_of, maybe, object_of, schema_of
from iot_mqtt.admin.why import connection, delivery, places, uplink
from iot_mqtt.admin.why.facts import Facts, Publisher
from iot_mqtt.admin.why.finding import Finding, Weight, ordered
from iot_mqtt.admin.why.together import together
from iot_mqtt.broker.facade import AttemptInfo
from iot_mqtt.devices.asked import Lets
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.bans import Ban
from iot_mqtt.ports.devices import StoredCommand
from iot_mqtt.ports.recent import Trouble
from iot_mqtt.topics import validate_topic

#: Subscriptions and commands that are shown; the rest is counted.
_SHOWN = 8

#: Who knows the facts: of a client id or an address, and a topic that it should get.
Known = Callable[[str, str | None], Awaitable[Facts]]


class WhyResources(Resource):
    """Why; for whoever may see clients. Bans and rules are an operator's matter."""

    def __init__(self, known: Known, lets: Callable[[], Lets]) -> None:
        """``lets``: the rights of users in whose name somebody asks."""
        self._known = known
        self._lets = lets

    @combined(
        "clients/{client_id}/why",
        "Why a client, or who comes from an address, does or does not get its messages (a topic).",
        "Why",
        together,
        query=("topic",),
    )
    async def _why(self, call: Call) -> Json:
        topic = call.query.get("topic")
        if topic is not None:
            with bad_request_if(MqttError, about="topic: "):
                validate_topic(topic)
        facts = await self._known(call.path["client_id"], topic)
        return answer(self._redacted(facts, call), contents=call.sees_contents, whole=facts)

    def _redacted(self, facts: Facts, call: Call) -> Facts:
        """Without what this caller may not see."""
        caller = call.caller
        if caller is not None and caller.role < Role.OPERATOR:
            last = tuple(map(_unnamed, facts.publishers[:1]))
            facts = replace(facts, bans=(), rights=_unsaid, denied=(), publishers=last)
        if not call.sees_contents:
            facts = replace(facts, commands=tuple(map(_without_answer, facts.commands)))
        if call.user is not None and not self._lets()(call.user, "command", facts.asked):
            facts = replace(facts, commands=())
        if call.user is not None and facts.topic is not None and not self._lets()(call.user, "receive", facts.topic):
            facts = replace(facts, denied=(), retained=False, publishers=())
        return facts

    def schemas(self) -> Schemas:
        text: Json = {"type": "string"}
        held_off = {"plugin": text, "kind": text, "name": text, "seconds": {"type": "number"}, "reason": text}
        answered: Json = {
            "client_id": text,
            "findings": items_of(schema_of(Finding)),
            "slowest_hop": maybe("string"),
            "home": {"type": ["object", "null"], "description": "The node that has the session, if it is another one."},
            "client": maybe("object"),
            "session": maybe("object"),
            "subscriptions": items_of({"type": "object"}),
            "attempts": items_of(schema_of(AttemptInfo)),
            "unnamed": items_of(schema_of(AttemptInfo)),
            "troubles": items_of(schema_of(Trouble)),
            "held_off": items_of({"type": "object", "properties": held_off}),
            "bans": items_of(schema_of(Ban)),
            "commands": items_of({"type": "object"}),
        }
        return {"Why": object_of(answered)}


def answer(facts: Facts, *, contents: bool, whole: Facts | None = None) -> Json:
    """What is found, and the facts that it is made of. ``contents``: also those of messages. ``whole``: with what is
    withheld from who asks.
    """
    session = None if facts.session is None else shapes.of_session(facts.session)
    held = (
        {"plugin": plugin.name, "kind": one.kind, "name": one.name, "seconds": one.seconds, "reason": one.reason}
        for plugin in facts.plugins
        for one in plugin.held_off
        if one.name in (facts.asked, *facts.hosts)
    )
    subscriptions = facts.subscriptions[:_SHOWN]
    return {
        "client_id": facts.asked,
        "node": facts.node,
        "findings": list(map(asdict, findings(facts, whole))),
        "slowest_hop": slowest(facts),
        "home": None if facts.home is None else asdict(facts.home),
        "client": None if facts.client is None else asdict(facts.client),
        "session": session,
        "subscriptions": [{"client_id": facts.asked, **asdict(one)} for one in subscriptions],
        "attempts": list(map(asdict, facts.attempts)),
        "unnamed": [asdict(replace(one, client_id="")) for one in facts.unnamed],
        "troubles": list(map(asdict, facts.troubles)),
        "held_off": list(held),
        "bans": list(map(asdict, facts.bans)),
        "commands": [of_command(one, contents=contents) for one in facts.commands[:_SHOWN]],
    }


def _without_answer(command: StoredCommand) -> StoredCommand:
    """For those who may not see what the device said."""
    return replace(command, detail="") if command.state in ANSWERED else command


def findings(facts: Facts, whole: Facts | None = None) -> list[Finding]:
    """All of them, the likeliest cause first. ``whole``: with what is withheld from who asks."""
    found = _causes(facts)
    if whole is not None and whole is not facts:
        found += _withheld(found, _causes(whole))
    if not facts.known and not any(one.weight is Weight.STOPS for one in found):
        text = (
            f"{facts.asked!r} is not connected and has no session on this node, and nobody of that name has been seen "
            "for as long as it remembers"
        )
        helps = "look at the address, the port and the client id that the client is configured with"
        found.append(Finding("never_seen", Weight.STOPS, text, None, facts.node, helps))
        if facts.alike is not None:
            text = f"{facts.alike!a} looks like {facts.asked!a}, and is another client id "
            text += "(normalized as NFC, they are equal)"
            helps = f"iot-mqtt ctl why {facts.alike}"
            found.append(Finding("looks_alike", Weight.DELAYS, text, None, facts.node, helps))
    session, client = facts.session, facts.client
    if session is not None and client is not None and not any(one.weight >= Weight.DELAYS for one in found):
        text = f"connected from {client.peer}, and nothing keeps messages from it: {session.delivered} were delivered"
        text += f", and {session.inflight} were sent and are not acknowledged" if session.inflight else ""
        found.append(Finding("well", Weight.SAYS + 1, text, client.connected_at, facts.node))
    return ordered(found)


def _causes(facts: Facts) -> list[Finding]:
    found = [*connection.findings(facts), *delivery.findings(facts)]
    return [*found, *places.findings(facts, needs_uplink=uplink.is_needed(facts))]


def _withheld(shown: list[Finding], every: list[Finding]) -> Iterator[Finding]:
    """That there is something that is not shown, if it is a cause: else it would be said that all is well."""
    codes = {one.code for one in shown}
    hidden = max((one.weight for one in every if one.code not in codes), default=0)
    if hidden >= Weight.DELAYS:
        text = "something that is not shown to this role keeps messages from it, or may"
        yield Finding("withheld", hidden, text, None, every[0].node, "ask an operator")


_HOPS = {
    "inflight_full": "the client, which does not acknowledge",
    "outbox_full": "the connection to the client, which does not read",
    "reading": "the log, from which it reads what it missed",
    "committing": "the store",
    "offline": "the client, which is not connected",
}


def slowest(facts: Facts) -> str | None:
    """Where its messages wait; None: nowhere."""
    return None if facts.session is None else _HOPS.get(facts.session.state)


def _unnamed(publisher: Publisher) -> Publisher:
    """He may know when, and not who."""
    return replace(publisher, client_id="", peer="", limited=None)


def _unsaid(action: str, asked: str, qos: int, retain: bool) -> None:
    """He may not know the rules."""
