"""SUBSCRIBE: one verdict per filter, kept before SUBACK, retained messages after it.

Retained messages are for those who want to know how things are; a replay says how they came to be so, and gets none.
One of which nothing is, or was, recorded is refused: it would be silent for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.filter_turns import FilterTurns
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.publishing.retained_news import Since
from iot_mqtt.broker.publishing.retained_reading import RetainedReading
from iot_mqtt.broker.readers.cursors import is_plain
from iot_mqtt.broker.readers.recorded import Recorded
from iot_mqtt.broker.readers.replay import PROPERTY, beginning, by_property
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import NO_PROPERTIES, Properties, Request, Suback, Subscribe
from iot_mqtt.errors import Malformed, ProtocolViolation, ReasonCode, Refused
from iot_mqtt.ports.access import Action
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.limits import NoRoom
from iot_mqtt.ports.log import Log
from iot_mqtt.topics import parse_replay, parse_shared, validate_filter
from iot_mqtt.values import Subscription

#: Filters that are to read retained messages, with when they were subscribed to.
Wanted: TypeAlias = list[tuple[str, Since]]


class _Asked(NamedTuple):
    """A request, understood."""

    #: What the subscription is kept under.
    filter: str
    #: What topics, and rights, are held against.
    inner: str
    #: Where a replay begins.
    begin: int | float | None


class Requests:
    """What a SUBSCRIBE asks for: checked against syntax, against what is offered, and against its client's rights."""

    __slots__ = ("_settings", "_clock", "_counters", "_log")

    def __init__(self, settings: MqttSettings, clock: Clock, counters: Counters, log: Log) -> None:
        self._settings = settings
        self._clock = clock
        self._counters = counters
        self._log = log

    def identifier(self, packet: Subscribe) -> int | None:
        """The one of all its subscriptions."""
        identifiers = packet.properties.subscription_identifiers
        if not identifiers:
            return None
        if not self._settings.subscription_identifiers_available:
            raise ProtocolViolation(
                "subscription identifiers are not offered here", ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
            )
        return identifiers[0]

    def replay(self, packet: Subscribe) -> str | None:
        """Where all its filters are to be replayed from, if a user property says so."""
        said = packet.properties.named(PROPERTY)
        return said[-1] if said else None

    def understood(self, request: Request, begins: str | None = None) -> _Asked:
        """One request, or an error; ``begins``: what ``replay`` said of its packet."""
        settings = self._settings
        filter = inner = request.filter
        try:
            validate_filter(filter, max_levels=settings.max_topic_levels)
        except Malformed as error:
            raise error.naming("filter", filter) from None
        shared, replay = parse_shared(filter), parse_replay(filter)
        begin: int | float | None = None
        if shared is not None:
            if not settings.shared_available:
                raise Refused(
                    "shared subscriptions are not offered here", ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
                )
            inner = shared[1]
        if replay is not None:
            begin, inner = self._beginning(replay[0]), replay[1]
        elif begins is not None:
            filter, begin = by_property(filter), self._beginning(begins)
        if not settings.wildcard_available and ("+" in inner or "#" in inner):
            raise Refused("wildcards are not offered here", ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED)
        return _Asked(filter, inner, begin)

    def _beginning(self, text: str) -> int | float:
        return beginning(text, self._clock.wall(), self._log.writer)

    def require(self, connection: Connection, session: Session, asked: _Asked) -> None:
        """Raise ``Refused`` unless the client may have that."""
        permissions = connection.permissions
        assert permissions is not None
        if permissions.unrestricted:
            return
        for action in (Action.SUBSCRIBE,) if asked.begin is None else (Action.SUBSCRIBE, Action.REPLAY):
            if not permissions.allows(action, asked.inner):
                session.deny(self._counters, action.value, asked.inner)
                raise Refused(f"not allowed to {action.value} that", ReasonCode.NOT_AUTHORIZED)


class Subacks:
    """SUBACK says that it is in force wherever something is published. What was kept is read then: a message that
    another node keeps before it knows of the subscription is not forwarded.
    """

    __slots__ = ("_subscriptions", "_retained", "_sessions")

    def __init__(self, subscriptions: Subscriptions, retained: RetainedReading, sessions: Sessions) -> None:
        self._subscriptions = subscriptions
        self._retained = retained
        self._sessions = sessions

    def subscribed(self, session: Session) -> Since:
        """It has just subscribed to some of what it asks for."""
        return self._retained.subscribed(session)

    def answer(self, connection: Connection, session: Session, answer: Suback, wanted: Wanted) -> None:
        """Answer once it is true, and let new subscriptions read what was kept."""
        self._sessions.others.when_in_force(session, partial(self._answer, connection, answer, wanted))

    def _answer(self, connection: Connection, answer: Suback, wanted: Wanted) -> None:
        session = connection.session
        if session is not None and not connection.closed:
            # Meanwhile it may have been given up, or replaced, which takes nothing of what it asked for back
            # [MQTT-3.8.4-5]: then what was kept comes by the subscription that there is.
            known = ((self._subscriptions.known(session, filter), since) for filter, since in wanted)
            found = {one.filter: (one, since) for one, since in known if one is not None and is_plain(one.filter)}
            self._retained.begin(session, found.values())
            connection.reply(answer, once_committed=session.durable)
            if found:
                self._retained.go_on(session)


class _Verdicts:
    """What is answered to each filter of a SUBSCRIBE, and which of them the log has yet to be asked about."""

    __slots__ = ("reasons", "why", "wanted", "doubtful")

    def __init__(self) -> None:
        self.reasons: list[int] = []
        self.why = ""
        self.wanted: Wanted = []
        #: By the place of their reason: what they are kept as, and what they replay.
        self.doubtful: dict[int, tuple[Subscription, str]] = {}

    def refused(self, connection: Connection, place: int, reason: ReasonCode) -> None:
        self.reasons[place] = reason if connection.five else ReasonCode.UNSPECIFIED_ERROR

    def answer(self, connection: Connection, packet_id: int) -> Suback:
        tells = self.why and connection.problem_information and not connection.max_packet_size
        said = Properties(reason_string=self.why) if tells else NO_PROPERTIES
        return Suback(packet_id=packet_id, reasons=tuple(self.reasons), properties=said)


class Subscribing:
    """SUBSCRIBE, as far as it is served: a ``FilterPacket``."""

    __slots__ = ("connection", "count", "identifier", "packet", "replay", "session", "verdicts", "_handler")

    def __init__(
        self,
        handler: SubscribeHandler,
        connection: Connection,
        session: Session,
        packet: Subscribe,
        identifier: int | None,
        replay: str | None,
    ) -> None:
        self.count = len(packet.filters)
        self.connection = connection
        self.session = session
        self.packet = packet
        self.identifier = identifier
        self.replay = replay
        self.verdicts = _Verdicts()
        self._handler = handler

    @property
    def place(self) -> int:
        return len(self.verdicts.reasons)

    def serve(self, until: int) -> None:
        self._handler.serve_some(self, self.packet.filters[self.place : until])

    def answer(self) -> None:
        self._handler.answer(self)


class SubscribeHandler:
    """Serves every filter in its order and answers with as many reasons [MQTT-3.8.4-6]."""

    __slots__ = (
        "_settings",
        "_requests",
        "_subscriptions",
        "_recorded",
        "_subacks",
        "_accompaniment",
        "_turns",
        "_counters",
    )

    def __init__(
        self,
        settings: MqttSettings,
        requests: Requests,
        subscriptions: Subscriptions,
        recorded: Recorded,
        subacks: Subacks,
        accompaniment: Accompaniment,
        turns: FilterTurns,
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._requests = requests
        self._subscriptions = subscriptions
        self._recorded = recorded
        self._subacks = subacks
        self._accompaniment = accompaniment
        self._turns = turns
        self._counters = counters

    def serve(self, connection: Connection, packet: Subscribe) -> None:
        """SUBSCRIBE came."""
        session = connection.session
        assert session is not None
        self._counters.packets_received["SUBSCRIBE"] += 1
        if len(packet.filters) > self._settings.max_filters_per_subscribe:
            raise ProtocolViolation("too many filters in one SUBSCRIBE", ReasonCode.QUOTA_EXCEEDED)
        identifier = self._requests.identifier(packet)
        if connection.max_packet_size:
            # Before anything is done that could not be answered.
            connection.written_to_fit(Suback(packet_id=packet.packet_id, reasons=(0,) * len(packet.filters)))
        replay = self._requests.replay(packet)
        self._turns.serve(connection, Subscribing(self, connection, session, packet, identifier, replay))

    def serve_some(self, work: Subscribing, requests: Sequence[Request]) -> None:
        """The next of its filters."""
        connection, session, verdicts = work.connection, work.session, work.verdicts
        most = connection.allowance.subscriptions
        wanted: list[str] = []
        for place, request in enumerate(requests, work.place):
            verdicts.reasons.append(0)
            try:
                asked = self._requests.understood(request, work.replay)
                self._requests.require(connection, session, asked)
                in_doubt = asked.begin is not None and not self._recorded.now(asked.inner)
                subscription, is_new = self._subscribe(connection, session, request, asked, work.identifier, most)
            except Refused as refusal:
                if refusal.reason is not ReasonCode.NOT_AUTHORIZED:
                    self._note(session, "refused_subscription", request.filter, refusal.detail)
                verdicts.refused(connection, place, refusal.reason)
                continue
            if subscription.qos < request.qos:
                self._note(session, "lowered_qos", request.filter, f"{request.qos} to {subscription.qos}")
            verdicts.reasons[place] = subscription.qos
            if in_doubt:
                verdicts.doubtful[place] = subscription, asked.inner
            if wants_retained(subscription, is_new):
                wanted.append(subscription.filter)
        if wanted:
            # What is published from now on comes by these; what is published before the others are there does not.
            since = self._subacks.subscribed(session)
            verdicts.wanted += [(filter, since) for filter in wanted]

    def answer(self, work: Subscribing) -> None:
        """All of its filters are served."""
        connection, session, verdicts = work.connection, work.session, work.verdicts
        self._accompaniment.by.client_came(connection)

        def answer(_: object = None) -> None:
            suback = verdicts.answer(connection, work.packet.packet_id)
            self._subacks.answer(connection, session, suback, verdicts.wanted)

        if verdicts.doubtful:
            # A log that cannot be asked now may have some.
            drive(self._ask(connection, session, verdicts), answer, answer)
        else:
            answer()

    async def _ask(self, connection: Connection, session: Session, verdicts: _Verdicts) -> None:
        """Take back replays of which there is nothing: neither are such messages recorded, nor were they."""
        for place, (subscription, plain) in verdicts.doubtful.items():
            if not await self._recorded.before(plain):
                if session.subscriptions.get(subscription.filter) is subscription:
                    self._subscriptions.remove(session, subscription.filter)
                verdicts.refused(connection, place, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
                verdicts.why = f"nothing of {plain} is recorded: see log.record"
                self._note(session, "refused_subscription", subscription.filter, verdicts.why)

    def _note(self, session: Session, code: str, filter: str, detail: str) -> None:
        self._counters.recent.note(session.client_id, code, filter, detail=detail)

    def _subscribe(
        self,
        connection: Connection,
        session: Session,
        request: Request,
        asked: _Asked,
        identifier: int | None,
        most: int,
    ) -> tuple[Subscription, bool]:
        """Add one filter; ``Refused`` becomes its reason in SUBACK, any other error ends the connection."""
        # What a bridge would say in MQTT 5: it has no use for what it sent itself, and passes on what is retained.
        bridge = connection.connect is not None and connection.connect.bridge and is_plain(asked.filter)
        subscription = Subscription(
            asked.filter,
            min(request.qos, self._settings.max_qos),
            request.no_local or bridge,
            request.retain_as_published or bridge,
            request.retain_handling,
            identifier,
        )
        known = self._subscriptions.known(session, asked.filter)
        if known is None and len(session.subscriptions) >= most:
            self._counters.limited["subscriptions"] += 1
            by_limits = connection.allowance.limits.subscriptions is not None
            raise Refused(NoRoom.LIMITS if by_limits else NoRoom.CLIENT, ReasonCode.QUOTA_EXCEEDED)
        if known is None:
            self._subscriptions.require_room(self._settings)
        self._subscriptions.add(session, subscription, asked.begin or 0)
        return subscription, known is None


def wants_retained(subscription: Subscription, is_new: bool) -> bool:
    """Retain handling 0: always, 1: for a new subscription, 2: never; only plain ones [MQTT-3.8.4-4]."""
    if not is_plain(subscription.filter):
        return False
    return subscription.retain_handling == 0 or (subscription.retain_handling == 1 and is_new)
