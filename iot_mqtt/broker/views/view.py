"""The facade for the admin side: listings and commands over one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import nsmallest
from typing import TypeVar

from iot_mqtt.broker.broker import Broker
from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.facade import (
    AttemptInfo,
    BacklogInfo,
    ClientInfo,
    SessionInfo,
    SubscriptionInfo,
)
from iot_mqtt.broker.publication import publication_of
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.views.backlog import (
    LIST_BYTES,
    LIST_COMPARISONS,
    Look,
    backlog_of,
    here_of,
    lag_of,
    position_of,
    tally,
    waiting_elsewhere,
)
from iot_mqtt.broker.views.cluster_view import ClusterView
from iot_mqtt.broker.views.log_view import LogView
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.endings import by_node
from iot_mqtt.ports.status import BrokerInfo, UplinkInfo
from iot_mqtt.topics import RESERVED, is_reserved, validate_topic
from iot_mqtt.values import Message

T = TypeVar("T")
K = TypeVar("K", str, tuple[str, str])
PROTOCOLS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class View:
    """``facade.BrokerView`` over a running broker."""

    def __init__(self, broker: Broker, *, node_id: str, version: str, started_at: float) -> None:
        self._broker = broker
        self.counters = broker.counters
        self.log = LogView(broker)
        self.cluster = ClusterView(broker, node_id=node_id, version=version)
        self._node_id = node_id
        self._version = version
        self._started_at = started_at
        self.ready = False
        #: What else has something to say to an operator.
        self.further_alarms: list[Callable[[], tuple[str, ...]]] = []

    @property
    def serving(self) -> bool:
        """Whether clients should come here."""
        return self.ready and self._broker.refusing is None

    def _state(self) -> str:
        state = self.cluster.progress().state
        if state == "serving" and self._broker.refusing is not None:
            return "apart"
        return state if self.ready else "not_ready"

    @property
    def alarms(self) -> tuple[str, ...]:
        """What an operator should know."""
        uplink = self._broker.uplink
        found = list(self._broker.budget.alarms)
        if uplink is not None:
            found += uplink.alarms
        for further in self.further_alarms:
            found += further()
        return tuple(found)

    def uplink(self) -> UplinkInfo | None:
        """What leaves towards the data platform; None: nothing does."""
        return None if self._broker.uplink is None else self._broker.uplink.info()

    def info(self) -> BrokerInfo:
        """Figures for the node as a whole."""
        broker = self._broker
        broker.count_bytes()
        found, retained = tally(broker), broker.retention.index
        return BrokerInfo(
            node_id=self._node_id,
            version=self._version,
            started_at=self._started_at,
            ready=self.serving,
            state=self._state(),
            clients=broker.clients,
            sessions=len(broker.sessions),
            subscriptions=broker.routes.subscription_count,
            retained=retained.count - retained.system_count,
            retained_bytes=retained.bytes - retained.system_bytes,
            retained_system=retained.system_count,
            queued=found.queued + found.backlog,
            inflight=found.inflight,
            waiting=found.queued + found.backlog + found.inflight - found.released,
            backlog=found.backlog,
            uncounted=found.uncounted,
            largest_backlog=found.largest,
            furthest_lag=found.furthest,
            paused=broker.budget.paused_count,
            alarms=self.alarms,
        )

    def clients(self, after: str | None = None, limit: int = 100) -> list[ClientInfo]:
        """Connected clients in order of their ids."""
        connected = (session for session in self._broker.sessions if session.connection is not None)
        return [
            _client(session.connection, session)
            for session in _page(connected, _client_id, after, limit)
            if isinstance(session.connection, Connection)
        ]

    def client(self, client_id: str) -> ClientInfo | None:
        """One connected client."""
        session = self._broker.sessions.get(client_id)
        if session is None or not isinstance(session.connection, Connection):
            return None
        return _client(session.connection, session)

    def attempts(self, client_id: str) -> list[AttemptInfo]:
        """What is remembered of a client that is not there."""
        return self._broker.attempts.of(client_id)

    def sessions(self, after: str | None = None, limit: int = 100) -> list[SessionInfo]:
        """Sessions in order of their client ids."""
        return [self._session(one) for one in _page(iter(self._broker.sessions), _client_id, after, limit)]

    def session(self, client_id: str) -> SessionInfo | None:
        """One session."""
        session = self._broker.sessions.get(client_id)
        return None if session is None else self._session(session)

    async def counted(self, sessions: list[SessionInfo]) -> list[SessionInfo]:
        """See ``facade.BrokerView``."""
        look = Look(self._broker, LIST_COMPARISONS, LIST_BYTES)
        found = []
        for info in sessions:
            session = self._broker.sessions.get(info.client_id)
            waiting = None if session is None else await waiting_elsewhere(session, look)
            if session is not None and waiting is not None and session.backlog is not None:
                backlog = max(session.backlog, here_of(session) + waiting)
                info = replace(info, backlog=backlog, backlog_complete=look.complete)
            found.append(info)
        return found

    async def backlog(self, client_id: str) -> BacklogInfo | None:
        """What waits for one session, in messages and bytes."""
        session = self._broker.sessions.get(client_id)
        return None if session is None else await backlog_of(self._broker, session)

    def subscriptions(
        self, client_id: str | None = None, after: tuple[str, str] | None = None, limit: int = 100
    ) -> list[SubscriptionInfo]:
        """Subscriptions in order of client id and filter."""
        if client_id is None:
            sessions = list(self._broker.sessions)
        else:
            one = self._broker.sessions.get(client_id)
            sessions = [] if one is None else [one]
        every = (
            SubscriptionInfo(session.client_id, subscription)
            for session in sessions
            if after is None or session.client_id >= after[0]
            for subscription in session.subscriptions.values()
        )
        return _page(every, lambda info: (info.client_id, info.subscription.filter), after, limit)

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]:
        """Retained messages whose topics match."""
        return self._broker.retention.index.page(filter, after, limit)

    async def publish(self, message: Message) -> int:
        """Publish as the node and wait until it is as safe as an acknowledged one."""
        broker = self._broker
        validate_topic(message.topic.decode(), max_levels=broker.settings.max_topic_levels)
        if is_reserved(message.topic):
            raise Refused(RESERVED, ReasonCode.TOPIC_NAME_INVALID)
        publication = publication_of(message, broker.clock.wall())
        if broker.publishing.refuses(publication):
            broker.counters.messages_refused[Pause.DISK_FULL] += 1
            raise Refused("the disk is full", ReasonCode.QUOTA_EXCEEDED)
        outcome = broker.publishing.publish(publication)
        await self._broker.store.settled()
        return outcome.receivers

    async def kick(self, client_id: str) -> bool:
        """Close a client's connection."""
        session = self._broker.sessions.get(client_id)
        if session is None or session.connection is None:
            return False
        session.connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, "closed by the operator")
        await self._broker.store.settled()
        return True

    async def purge(self, client_id: str) -> bool:
        """End a session and forget what was kept for it."""
        session = self._broker.sessions.get(client_id)
        if session is None:
            return False
        self._broker.attempts.ended(
            client_id, session.username, by_node(ReasonCode.ADMINISTRATIVE_ACTION), session.connection
        )
        self._broker.ending.end(session, ReasonCode.ADMINISTRATIVE_ACTION)
        self._broker.turn.plan()
        await self._broker.store.settled()
        return True

    async def remove_retained(self, topic: bytes) -> bool:
        """Remove one retained message."""
        removed = self._broker.retention.remove(topic)
        self._broker.turn.plan()
        await self._broker.store.settled()
        return removed

    def _session(self, session: Session) -> SessionInfo:
        return SessionInfo(
            client_id=session.client_id,
            owner=session.owner,
            connected=session.connection is not None,
            durable=session.durable,
            expiry_interval=session.expiry_interval,
            created_at=session.created_at,
            disconnected_at=session.disconnected_at,
            last_disconnect=session.last_disconnect,
            subscriptions=len(session.subscriptions),
            inflight=len(session.outbound),
            awaiting_release=session.outbound.released,
            received=len(session.inbound.received),
            queued=len(session.queue),
            queued_bytes=session.queue.bytes,
            backlog=session.backlog,
            position=position_of(self._broker, session),
            lag=lag_of(session),
            delivered=session.delivered,
            dropped=dict(session.dropped or {}),
            denied=dict(session.denied or {}),
            has_will=session.will is not None,
            state=self._broker.outflow.state(session),
        )


def _client_id(session: Session) -> str:
    return session.client_id


def _page(items: Iterable[T], key: Callable[[T], K], after: K | None, limit: int) -> list[T]:
    """The next ``limit`` in key order, without sorting the rest."""
    wanted = (item for item in items if after is None or key(item) > after)
    return nsmallest(limit, wanted, key=key)


def _client(connection: Connection, session: Session) -> ClientInfo:
    channel = connection.ctx.channel if connection.ctx is not None else None
    connect = connection.connect
    return ClientInfo(
        client_id=session.client_id,
        username=session.username,
        peer=channel.peer if channel else "",
        listener=channel.listener if channel else "",
        protocol=connection.codec or PROTOCOLS[session.version],
        clean_start=bool(connect and connect.clean_start),
        keep_alive=connection.keep_alive,
        connected_at=connection.connected_at,
        bytes_received=channel.bytes_received if channel else 0,
        bytes_sent=channel.bytes_sent if channel else 0,
        outbox_bytes=channel.outbox.pending if channel else 0,
        writable=connection.writable,
        subscriptions=len(session.subscriptions),
        inflight=len(session.outbound),
        queued=len(session.queue),
        paused=connection.broker.budget.paused(connection),
    )
