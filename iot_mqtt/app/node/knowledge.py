"""What this node knows of a client, gathered from all who know something: the facts that ``admin.why`` explains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iot_mqtt.admin.configuration import ListenerInfo
from iot_mqtt.admin.why.facts import Facts, Home, Rights
from iot_mqtt.admin.why.near import other_forms
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.look_ups import LookUps
from iot_mqtt.app.node.topic_knowledge import denied, publishers, rules_of, subscribed_at
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.auth.explaining import Answer, Question
from iot_mqtt.auth.service import Access
from iot_mqtt.broker.facade import AttemptInfo, SessionInfo
from iot_mqtt.broker.recorder import Recorder
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import Accompanied
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.addresses import parsed
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.uplink.desk import UplinkDesk

if TYPE_CHECKING:
    from iot_mqtt.cluster.roster import Life

#: Subscriptions that are held against topics, topics that are held against subscriptions, and the rest.
_SUBSCRIPTIONS, _TOPICS, _COMMANDS, _UNNAMED = 1_000, 500, 100, 10
#: Seconds for which a command that failed is worth a word.
_RECENT = 24 * 3600.0


#: In which life a session is; None: it is in none. Raises ``Unavailable``.
HomeOf = Callable[[str], Awaitable["Life | None"]]
#: How the connections of a client ended in the life of the node before this one, the newest first.
EndsBefore = Callable[[str], Coroutine[Any, Any, list[AttemptInfo]]]


class Knowledge:
    """Of one node."""

    def __init__(
        self,
        view: View,
        bans: BanBook,
        access: Access,
        gateways: Gateways,
        devices: Accompanied,
        clock: Clock,
        home_of: HomeOf | None,
        ends_before: EndsBefore,
        listeners: Callable[[], Sequence[ListenerInfo]],
        recorder: Recorder,
        desk: UplinkDesk | None,
        held_for: Callable[[str], int],
    ) -> None:
        """``desk``: None without an uplink. ``held_for``: messages of a client whose acknowledgements wait for it."""
        self._view = view
        self._bans = bans
        self._access = access
        self._gateways = gateways
        self._devices = devices
        self._clock = clock
        self._home_of = home_of
        self._ends_before = ends_before
        self._listeners = listeners
        self._recorder = recorder
        self._desk = desk
        self._held_for = held_for

    async def facts(self, asked: str, topic: str | None) -> Facts:
        """Of a client, or of who comes from an address."""
        view = self._view
        info = view.info()
        subscriptions = await view.subscriptions(asked, None, _SUBSCRIPTIONS)
        session = view.session(asked)
        looks = LookUps(self._clock)
        commands = looks.begin("its commands", self._commands(asked), ())
        codec = looks.begin("its codec", self._codec(asked), None)
        home = looks.begin("where its session is", self._home(asked if session is None else None), None)
        counted = looks.begin("what waits for it in the log", self._counted(view, session), session)
        found = Facts(
            node=info.node_id,
            now=self._clock.wall(),
            asked=asked,
            client=view.client(asked),
            subscriptions=tuple(one.subscription for one in subscriptions),
            shares=tuple(view.subscribing.shares(asked)),
            attempts=tuple(view.attempts(asked)),
            troubles=tuple(view.counters.recent.of(asked)),
            plugins=tuple(self._gateways.plugins.info()),
            broker=info,
            alarms=view.alarms,
            log=view.log.info(),
            uplink=view.uplink(),
            cluster=view.cluster.info(),
            topic=topic,
            rules=() if topic is None else tuple(rules_of(self._desk, topic)),
            held=self._held_for(asked),
            denied=() if topic is None else tuple(denied(view, topic)),
            retained=topic is not None and bool(view.retained(topic, None, 1)),
            unwanted=tuple(view.unwanted(_TOPICS)) if subscriptions else (),
            kept=self._access.kept,
            session=session,
        )
        if not found.known:
            ends = looks.begin("how its connections ended before this node began anew", self._ends_before(asked), [])
            alike = next((one for one in other_forms(asked) if view.session(one) or view.attempts(one)), None)
            found = replace(found, attempts=tuple(await ends), alike=alike)
        host = parsed(asked)
        hosts = found.hosts if host is None else (*found.hosts, str(host))
        found = replace(
            found,
            unnamed=tuple(self._unnamed(view, found, hosts)),
            bans=tuple(self._bans.all_of(asked, found.users, hosts)),
            rights=self._rights(found),
        )
        came_to = {one.listener for one in (*found.attempts, *found.unnamed)}
        listeners = tuple(self._listeners())
        return replace(
            found,
            listeners=listeners,
            publishers=() if topic is None else tuple(publishers(view, self._recorder, topic)),
            subscribed_at=None if topic is None else self._subscribed_at(found, topic),
            codecs=frozenset(one.codec for one in listeners if one.codec is not None and one.name in came_to),
            session=await counted,
            commands=await commands,
            codec=await codec,
            home=await home,
            unanswered=tuple(looks.unanswered),
        )

    def _subscribed_at(self, found: Facts, topic: str) -> float | None:
        if found.session is None:
            return None
        filters = [one.filter for one in found.matching(topic)]
        return subscribed_at(self._recorder, found.asked, filters, found.session.created_at)

    def _unnamed(self, view: View, found: Facts, hosts: tuple[str, ...]) -> list[AttemptInfo]:
        """From its addresses; of a client that nobody knows from everywhere, for it may have been one of them."""
        if hosts:
            return [one for host in hosts for one in view.unnamed(host, _UNNAMED)]
        return [] if found.known else view.unnamed(None, _UNNAMED)

    @staticmethod
    async def _counted(view: View, session: SessionInfo | None) -> SessionInfo | None:
        return None if session is None else (await view.counted([session]))[0]

    async def _commands(self, client_id: str) -> tuple[StoredCommand, ...]:
        """Those that are not over, and those that came to nothing of late; the last first."""
        since = self._clock.wall() - _RECENT
        found = await self._devices.commands.page(client_id, None, None, _COMMANDS)
        wanted = [one for one in found if one.state is not State.ACKED and one.changed_at > since]
        return tuple(sorted(wanted, key=lambda one: one.changed_at, reverse=True))

    async def _codec(self, client_id: str) -> str | None:
        device = await self._devices.devices.find(client_id, "")
        return None if device is None else device.codec or None

    async def _home(self, client_id: str | None) -> Home | None:
        """Where the session is, if it is at home on another node; None: of a client whose session is here."""
        if self._home_of is None or client_id is None:
            return None
        life = await self._home_of(client_id)
        if life is None:
            return None
        for member in self._view.cluster.info().members:
            if member.number == life.number:
                gone = member.boot != life.boot or member.away
                return Home(node_words(life.number, member.node_id), "dead" if gone else member.state)
        return Home(node_words(life.number), "dead")

    def _rights(self, found: Facts) -> Rights:
        """What the rules say of whoever it is, or was."""
        user = found.users[0] if found.users else None
        address = found.hosts[0] if found.hosts else ""
        who = Principal(found.asked, user, user is None, address=address)

        def ask(action: str, asked: str, qos: int, retain: bool) -> Answer | None:
            try:
                return self._access.may(who, Question(action, asked, qos, retain))
            except ValueError:
                return None

        return ask
