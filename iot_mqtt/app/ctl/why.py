"""``iot-mqtt ctl why``: everything that decides whether a client gets its messages, or who gets those of a topic, on
one screen.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import click

from iot_mqtt.app.ctl.command import on_node
from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.ctl.node import Node
from iot_mqtt.app.ctl.packets import packet_line
from iot_mqtt.app.terminal import Json, moment, plain, print_form, print_json, size, span

#: The last packets that went over its connections.
_PACKETS_SHOWN = 10
#: Seconds for them: what was found is shown already, and a node that is cut off may not answer twice.
_PACKETS_WITHIN = 5.0

STATES = {
    "caught_up": "nothing waits to be sent",
    "offline": "not connected; QoS 1 and 2 wait for it",
    "reading": "reading what it missed from the log",
    "inflight_full": "the client has to acknowledge what it was sent before it gets more",
    "outbox_full": "the client does not read from its connection fast enough",
    "committing": "waiting for the store",
}


@click.command()
@click.argument("client", required=False)
@click.option("--topic", help="A topic that CLIENT should get; without CLIENT: who gets what is published to it.")
@on_node
def why(node: Node, as_json: bool, client: str | None, topic: str | None) -> None:
    """Say why a client does or does not get its messages, as all nodes know it. CLIENT: a client id, or an address."""
    if "" in (client, topic):
        raise click.UsageError(f"{'CLIENT' if client == '' else '--topic'} is empty")
    if client is None:
        if topic is None:
            raise click.UsageError("give a CLIENT, or --topic, or both")
        _show_topic(node, as_json, topic)
        return
    found = node.get("clients", client, "why", query=None if topic is None else {"topic": topic})
    node.note_missing(found)
    now = time.time()
    findings = list(_findings(found["findings"], now))
    unknown = any(one["code"] == "never_seen" for one in found["findings"])
    if as_json:
        print_json(found)
    else:
        for line in findings:
            click.echo(line)
        if not unknown:
            click.echo("")
            print_form(screen(found, now))
            for line in _packets(node, client):
                click.echo(line)
    # As where something is asked for that is not there; what was found is an answer all the same.
    sys.exit(int(unknown))


def screen(found: Json, now: float) -> Rows:
    """The facts as names and texts."""
    client, session = found["client"], found["session"]
    subscriptions = found["subscriptions"]
    yield "client", plain(found["client_id"])
    yield "connected", _connected(client, session, now)
    yield from _attempts([*found["attempts"], *found["unnamed"]], now)
    for one in found["troubles"]:
        detail = f" ({plain(one['detail'])})" if one["detail"] else ""
        times = f"{one['count']} times, {span(now - one['last'])} ago"
        yield plain(one["code"]), f"{times}, {plain(one['topic']) or 'no topic'}{detail}"
    for one in found["held_off"]:
        yield "held off", f"by plugin {plain(one['plugin'])} for {span(one['seconds'])} more: {plain(one['reason'])}"
    if session is None:
        yield "session", "none"
        return
    yield "last disconnect", plain(session["last_disconnect_text"])
    yield "state", f"{session['state']}: {STATES.get(session['state'], 'unknown to this version of ctl')}"
    if found["slowest_hop"] is not None:
        yield "waits at", plain(found["slowest_hop"])
    yield "session", kept(session)
    yield "queue", f"{session['queued']} messages, {size(session['queued_bytes'])}"
    if session["position"] is not None:
        backlog = "messages are being counted" if session["backlog"] is None else f"{session['backlog']} messages"
        yield "in the log", f"{backlog}, {session['lag']} batches behind"
    yield from flight_rows(session)
    if client is not None:
        writable = "writable" if client["writable"] else "NOT writable"
        yield "outbox", f"{size(client['outbox_bytes'])}, {writable}"
        if client["paused"] is not None:
            yield "not read from", plain(client["paused"])
    yield from delivery_rows(session)
    yield "subscriptions", _subscriptions(subscriptions, session["subscriptions"])


def flight_rows(session: Json) -> Rows:
    """What is under way, in both directions."""
    yield "in flight", f"{session['inflight']} to the client, of them {session['awaiting_release']} after PUBREC"
    yield "received", f"{session['received']} QoS 2 messages from the client wait for its PUBREL"


def delivery_rows(session: Json) -> Rows:
    """What became of messages, and what is left to be published."""
    for name in ("delivered", "dropped", "denied"):
        yield name, plain(session[name])
    yield "will", plain(session["has_will"])


def _attempts(attempts: list[Json], now: float) -> Rows:
    """Refused CONNECTs and ends of sessions, the newest first."""
    for one in attempts:
        yield one["kind"], f"{moment(one['at'])} ({span(now - one['at'])} ago): {plain(one['text'])} ({_whence(one)})"


def _whence(one: Json) -> str:
    """Who it was and where he came from; what was recorded before the node's last start has no user and no listener."""
    if one["peer"] and not one["listener"]:
        return f"from {one['peer']}"
    return _user(one) + (f", from {one['peer']} on {one['listener']}" if one["peer"] else "")


def _user(one: Json) -> str:
    """The verified user, and what the client calls itself where that is another name."""
    user, claimed = one["username"], one["claimed_user"]
    if user is None:
        return "no user name" if claimed is None else f"unverified user {plain(claimed)}"
    return f"user {plain(user)}" + ("" if claimed is None else f", calls itself {plain(claimed)}")


Rows = Iterator[tuple[str, str]]


def _packets(node: Node, client: str) -> list[str]:
    """The last ones that were recorded; none where there is no flight recorder, or who asks may not see them."""
    node.patience = min(node.patience, _PACKETS_WITHIN)
    try:
        found = node.listed("clients", client, "packets")[-_PACKETS_SHOWN:]
    except CtlError:
        return []
    return ["", "last packets", *map(packet_line, found)] if found else []


def _spoken(protocol: str) -> str:
    """A version of MQTT, or the codec of a gateway."""
    return f"MQTT {protocol}" if protocol[:1].isdigit() else f"gateway, codec {plain(protocol)}"


def _connected(client: Json | None, session: Json | None, now: float) -> str:
    if client is not None:
        return (
            f"yes, for {span(now - client['connected_at'])}, from {client['peer']} on {client['listener']} "
            f"({_spoken(client['protocol'])}, {_user(client)}, keep-alive {client['keep_alive']} s)"
        )
    left = session["disconnected_at"] if session is not None else None
    return "no" if left is None else f"no, since {moment(left)} ({span(now - left)} ago)"


def kept(session: Json) -> str:
    expiry = session["expiry_interval"]
    kept = "never ends" if expiry == 0xFFFF_FFFF else f"ends {span(expiry)} after the connection"
    durable = "durable" if session["durable"] else "not durable"
    return f"{durable}, {kept if expiry else 'ends with the connection'}, created {moment(session['created_at'])}"


def _subscriptions(shown: list[Json], count: int) -> str:
    texts = [f"{plain(one['filter'])} (QoS {one['qos']})" for one in shown]
    if count > len(texts):
        texts.append(f"and {count - len(texts)} more")
    return ", ".join(texts) or "none"


def _findings(findings: list[Json], now: float) -> Iterator[str]:
    """What is the matter, the likeliest first, and below each what would help."""
    for number, one in enumerate(findings, 1):
        since = "" if one["since"] is None else f", {span(now - one['since'])} ago"
        yield f"{number}. {plain(one['text'])} [{one['code']}, {plain(one['node'])}{since}]"
        if one["helps"]:
            yield f"   what would help: {plain(one['helps'])}"


def _show_topic(node: Node, as_json: bool, topic: str) -> None:
    """Ask, and print."""
    found = node.get("topics", topic, "why")
    node.note_missing(found)
    if as_json:
        print_json(found)
        return
    now = time.time()
    for line in _findings(found["findings"], now):
        click.echo(line)
    click.echo("")
    print_form(_topic_screen(found, now))


def _topic_screen(found: Json, now: float) -> Rows:
    yield "topic", plain(found["topic"])
    yield "subscriptions", plain(found["subscriptions"])
    for one in found["subscribers"]:
        yield "subscriber", f"{plain(one['client_id'])}: {_subscription(one)}"
    if found["subscriptions"] > len(found["subscribers"]):
        yield "", f"and {found['subscriptions'] - len(found['subscribers'])} more"
    for one in found["publishers"]:
        there = "" if one["connected"] else ", not connected now"
        ago = f"{span(now - one['at'])} ago{there}"
        yield "published by", f"{plain(one['client_id'])} from {plain(one['peer'])}, {ago}"
    if not found["publishers"]:
        yield "published by", "nobody, as far as the flight recorders remember"
    kept = found["retained"]
    yield (
        "retained",
        "none" if kept is None else f"{size(kept['size'])}, QoS {kept['qos']}, of {plain(kept['publisher'])}",
    )
    qos = [str(one) for one in found["recorded"]]
    yield "recorded", f"whoever wants it: QoS {', '.join(qos)}" if qos else "for durable sessions that want it only"
    for one in found["rules"]:
        yield "uplink rule", f"{one['number']}: {plain(one['filter'])} to {plain(one['to'])} ({plain(one['mode'])})"
    if not found["rules"]:
        yield "uplink rule", "none"


def _subscription(one: Json) -> str:
    words = [f"{plain(one['filter'])} (QoS {one['qos']})", "connected" if one["connected"] else "not connected"]
    if not one["allowed"]:
        words.append("may NOT receive it")
    if one["no_local"]:
        words.append("not what it publishes itself")
    return ", ".join([*words, plain(one["node"])])
