"""A broker without a broker, and a browser without a socket: what the tests of the admin side share."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.server import Site

from iot_mqtt.admin.site import make_site
from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.resource import WhyResources
from iot_mqtt.broker.facade import (
    AttemptInfo,
    BacklogInfo,
    ClaimInfo,
    ClientInfo,
    ClientsWanted,
    ClusterInfo,
    DrainInfo,
    GroupInfo,
    GroupShare,
    MemberInfo,
    Published,
    RouteInfo,
    SessionInfo,
    SessionsWanted,
    ShareInfo,
    SubscriptionInfo,
)
from iot_mqtt.broker.log_part import GenerationInfo, LoggedInfo, LoggedWanted, ShardInfo, StreamInfo, VerificationInfo
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.cluster_status import NotGone
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import Damage
from iot_mqtt.ports.status import BrokerInfo, LogInfo, UplinkInfo
from iot_mqtt.ports.uplink import Rejected
from iot_mqtt.topics import matches
from iot_mqtt.values import Message, Subscription

TOKEN = "t0ken"
NOW = 1_000_000.0

UPLINK = UplinkInfo(
    kind="file",
    state="ok",
    alarms=(),
    trouble=None,
    spool="0.0a1b2c3d",
    position=100,
    end=140,
    lag_messages=40,
    lag_bytes=4000,
    lag_seconds=3.0,
    unread_messages=30,
    in_flight_messages=10,
    recorded=140,
    sent=110,
    sent_bytes=11_000,
    safe=100,
    failures=0,
    lost=0,
    dead=1,
    dropped=0,
    rejected=(Rejected("0.0a1b2c3d-7", "iot.readings", "too large", 3_000_000, 900.0, "iot.dead"),),
)

CLIENT = ClientInfo(
    client_id="c",
    username="joe",
    claimed_user=None,
    peer="10.0.0.1:5",
    listener="mqtt",
    protocol="5.0",
    clean_start=True,
    keep_alive=60,
    connected_at=NOW - 90,
    bytes_received=10,
    bytes_sent=20,
    outbox_bytes=0,
    writable=True,
    subscriptions=1,
    inflight=0,
    queued=0,
    paused=None,
)

SESSION = SessionInfo(
    client_id="c",
    owner="ann",
    connected=False,
    durable=True,
    expiry_interval=3600,
    created_at=NOW - 500,
    disconnected_at=NOW - 30,
    last_disconnect="keep_alive_timeout",
    subscriptions=1,
    inflight=2,
    awaiting_release=1,
    received=0,
    queued=3,
    queued_bytes=3000,
    backlog=8,
    position=4096,
    lag=6,
    delivered=7,
    dropped={"queue_full": 4},
    denied={"publish": 5},
    has_will=False,
    state="offline",
)

LOG = LogInfo(
    end=5000,
    messages=100,
    bytes=12_000,
    generations=3,
    streams=4,
    messages_appended=90,
    bytes_appended=11_000,
    pages_written=30,
    pages_read=20,
    bytes_read=9000,
    damaged_pages=0,
    disk_level="alarm",
    disk_used=85_000_000,
    disk_limit=100_000_000,
    disk_free=15_000_000,
    inodes=6400,
    inodes_free=3200,
    uncommitted_bytes=2500,
    uncommitted_operations=7,
    trouble=None,
)


class FakeLog:
    """``LogPart`` with three generations of four streams each; the last one still takes messages."""

    def __init__(self) -> None:
        self.figures = LOG
        self.numbers = [1, 2, 3]
        self.damages: list[Damage] = []
        self.failure: str | None = None
        #: How often a check is asked for before it is over.
        self.patience = 0

    def info(self) -> LogInfo:
        return self.figures

    async def shards(self) -> list[ShardInfo]:
        return [ShardInfo(number, 1, 2, 50, 6000) for number in range(2)]

    def generations(self, after: int | None = None, limit: int = 100) -> list[GenerationInfo]:
        return [
            GenerationInfo(number, 0, NOW - 3600, number * 100, number * 100 + 99, 33, 4000, 4, number != 3)
            for number in self.numbers
            if after is None or number > after
        ][:limit]

    async def streams(
        self, generation: int | None = None, after: tuple[int, int] | None = None, limit: int = 100
    ) -> list[StreamInfo]:
        return [
            StreamInfo(number, stream, stream % 2, "plant/+/temperature", 0, 1, 5, 8, 1000)
            for number in self.numbers
            for stream in range(4)
            if generation in (None, number) and (after is None or (number, stream) > after)
        ][:limit]

    def verify(self) -> VerificationInfo:
        return self.verification()

    def verification(self) -> VerificationInfo:
        running, self.patience = self.patience > 0, self.patience - 1
        ended_at = None if running else NOW + 2
        return VerificationInfo(running, NOW, ended_at, self.failure, len(self.damages), self.damages)

    async def drop(self, generation: int) -> bool:
        if generation == 3:
            raise Refused("generation 3 still takes messages", ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)
        if generation not in self.numbers:
            return False
        self.numbers.remove(generation)
        return True

    async def messages(self, wanted: LoggedWanted) -> list[LoggedInfo]:
        """Ten, one a second, of which the last came at ``NOW``."""
        behind = -1 if wanted.behind is None else wanted.behind.position
        found = [LoggedInfo(NOW - 9 + one, 0, one, "hall/t", "press-7", 1, 2, b"%d" % one) for one in range(10)]
        return [one for one in found if one.position > behind and matches(wanted.filter, one.topic)][: wanted.limit]


DRAIN = DrainInfo(
    state="serving",
    refusing=False,
    moved=False,
    rate=100,
    began_at=None,
    clients=40,
    sent_away=0,
    leaving=0,
    remaining=0,
    refused=0,
    estimate=None,
)

MEMBER = MemberInfo(
    number=1,
    node_id="n1",
    boot=4,
    version="1.2",
    state="self",
    draining=False,
    clients=40,
    load=None,
    routes=0,
    routes_agree=True,
    routes_behind=0,
    unconfirmed=0,
    crowded=False,
    datagrams_sent=0,
    items_sent=0,
    bytes_sent=0,
    datagrams_received=0,
    items_received=0,
    bytes_received=0,
    repairs_asked=0,
    repairs_served=0,
    gaps=0,
    items_missed=0,
)

PEER = replace(
    MEMBER,
    number=2,
    node_id="n2",
    boot=5,
    state="up",
    clients=20,
    load=0.25,
    routes=7,
    routes_behind=3,
    unconfirmed=4096,
    datagrams_sent=31,
    items_sent=32,
    bytes_sent=33_000,
    datagrams_received=34,
    items_received=35,
    bytes_received=36_000,
    repairs_asked=37,
    repairs_served=38,
    gaps=1,
    items_missed=39,
)

CLUSTER = ClusterInfo(
    clustered=True,
    node_id="n1",
    number=1,
    boot=4,
    registry="connected",
    registry_trouble=None,
    grid_trouble=None,
    room_used=164_000_000,
    room_limit=200_000_000,
    room_level="alarm",
    copies_missing=0,
    grid_servers=3,
    members=[MEMBER, PEER],
    routes=11,
    routes_version=12,
    routes_agree=False,
    known_late=0,
    claims_granted={"new": 5, "moved": 6},
    claims_refused={"home_busy": 1},
    released=2,
    releases_refused=0,
    fences=1,
    dead=[],
    adoptions=1,
    adopted_clients=9,
    adoption_failures=0,
    unreadable_channels=0,
    incompatible=[],
    strangers=0,
    messages_forwarded=13,
    messages_from_peers=14,
    forwards_dropped={"peer_down": 15},
    degraded=["n2 (number 2) does not act on 3 changes of what clients here want"],
)


class FakeCluster:
    """``ClusterPart`` of two nodes; what it was told is left in ``orders``, and each look at it lets ten clients go."""

    def __init__(self) -> None:
        self.facts = CLUSTER
        self.drained = DRAIN
        self.orders: list[object] = []

    def info(self) -> ClusterInfo:
        return self.facts

    def progress(self) -> DrainInfo:
        seen = self.drained
        if seen.state == "draining":
            left = max(0, seen.clients - 10)
            self.drained = replace(
                seen,
                state="draining" if left else "drained",
                clients=left,
                remaining=left,
                sent_away=seen.sent_away + seen.clients - left,
                estimate=left / seen.rate if left else None,
            )
        return seen

    def drain(self, rate: int | None, *, moved: bool) -> DrainInfo:
        self.orders.append((rate, moved))
        self.drained = replace(
            self.drained,
            state="draining",
            refusing=True,
            moved=moved,
            rate=rate or self.drained.rate,
            began_at=NOW,
            remaining=self.drained.clients,
            estimate=self.drained.clients / (rate or self.drained.rate),
        )
        return self.drained

    def resume(self) -> None:
        self.orders.append("resume")
        self.drained = DRAIN

    async def remove(self, node_id: str) -> bool:
        if node_id == "alive":
            raise NotGone("alive is there: drain it and stop it first")
        self.orders.append(f"remove {node_id}")
        return node_id == "gone"

    async def rebalance(self, rate: int | None, *, dry_run: bool) -> list[ShareInfo]:
        self.orders.append((rate, dry_run))
        return [
            ShareInfo(1, "n1", 40, 30, 10, None),
            ShareInfo(2, "n2", 20, 30, 0, None),
            ShareInfo(3, "n3", 0, 0, 0, "node 3 gave no answer in time"),
        ]


class FakeSubscriptions:
    """``SubscriptionPart`` over the filters of a view."""

    def __init__(self, view: FakeView) -> None:
        self._view = view

    async def routes(self, topic: str | None = None, after: str | None = None, limit: int = 100) -> list[RouteInfo]:
        filters = sorted({one.subscription.filter for one in self._view.filters})
        wanted = (one for one in filters if topic is None or matches(one, topic))
        return [RouteInfo(one, 1, 1) for one in wanted if after is None or one > after][:limit]

    def shares(self, client_id: str) -> list[GroupShare]:
        return []

    async def groups(self, after: str | None = None, limit: int = 100) -> list[GroupInfo]:
        filters = sorted({one.subscription.filter for one in self._view.filters})
        return [
            GroupInfo(one, one.split("/")[1], one.split("/", 2)[2], 1, 0, ["c"], 0)
            for one in filters
            if one.startswith("$share/") and (after is None or one > after)
        ][:limit]

    async def subscribe(self, client_id: str, wanted: Subscription) -> Subscription | None:
        if client_id not in self._view.by_session:
            return None
        self._view.filters.append(SubscriptionInfo(client_id, wanted))
        return wanted

    async def unsubscribe(self, client_id: str, filter: str) -> bool | None:
        if client_id not in self._view.by_session:
            return None
        left = [one for one in self._view.filters if (one.client_id, one.subscription.filter) != (client_id, filter)]
        found, self._view.filters = self._view.filters, left
        return len(left) < len(found)


class FakeView:
    """``BrokerView`` over dictionaries; what the commands did is left in ``done``."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.log = FakeLog()
        self.cluster = FakeCluster()
        self.alarms: tuple[Alarm, ...] = ()
        self.uplink_info: UplinkInfo | None = UPLINK
        self.complete = True
        self.ready = True
        self.subscribing = FakeSubscriptions(self)
        #: What a list was narrowed to.
        self.wanted: object = None
        self.by_client: dict[str, ClientInfo] = {}
        self.remembered: dict[str, list[AttemptInfo]] = {}
        self.by_session: dict[str, SessionInfo] = {}
        self.filters: list[SubscriptionInfo] = []
        self.kept: dict[bytes, Message] = {}
        self.done: list[object] = []
        #: In whose names was published.
        self.users: list[str | None] = []
        #: Set: commands wait for it before they do anything.
        self.gate: Deferred[None] | None = None
        #: Set: commands fail with it.
        self.failure: Exception | None = None

    def connect(self, client_id: str) -> None:
        self.by_client[client_id] = replace(CLIENT, client_id=client_id)

    def keep_session(self, client_id: str, **changes: Any) -> None:
        self.by_session[client_id] = replace(SESSION, client_id=client_id, **changes)

    def subscribe(self, client_id: str, filter: str, qos: int = 0) -> None:
        self.filters.append(SubscriptionInfo(client_id, Subscription(filter, qos)))

    def retain(self, topic: str, payload: bytes = b"x") -> None:
        self.kept[topic.encode()] = Message(topic.encode(), payload, retain=True)

    def uplink(self) -> UplinkInfo | None:
        return self.uplink_info

    def info(self) -> BrokerInfo:
        return BrokerInfo(
            node_id="n1",
            version="1.2",
            started_at=NOW - 3700,
            ready=self.serving,
            state=self.cluster.progress().state,
            clients=len(self.by_client),
            sessions=len(self.by_session),
            subscriptions=1,
            retained=2,
            retained_bytes=3,
            retained_system=7,
            queued=4,
            inflight=5,
            waiting=9,
            in_memory=1,
            unexplained=0,
            backlog=1,
            uncounted=0,
            largest_backlog=1,
            furthest_lag=6,
            paused=0,
            alarms=tuple(one.text for one in self.alarms),
        )

    async def clients(
        self, after: str | None = None, limit: int = 100, wanted: ClientsWanted | None = None
    ) -> list[ClientInfo]:
        self.wanted = wanted
        return [self.by_client[key] for key in sorted(self.by_client) if after is None or key > after][:limit]

    def client(self, client_id: str) -> ClientInfo | None:
        return self.by_client.get(client_id)

    @property
    def serving(self) -> bool:
        return self.ready and not self.cluster.progress().refusing

    def attempts(self, client_id: str) -> list[AttemptInfo]:
        return self.remembered.get(client_id, [])

    async def sessions(
        self, after: str | None = None, limit: int = 100, wanted: SessionsWanted | None = None
    ) -> list[SessionInfo]:
        self.wanted = wanted
        return [self.by_session[key] for key in sorted(self.by_session) if after is None or key > after][:limit]

    def session(self, client_id: str) -> SessionInfo | None:
        return self.by_session.get(client_id)

    async def counted(self, sessions: Sequence[SessionInfo]) -> list[SessionInfo]:
        return list(sessions)

    def counting(self) -> Callable[[Sequence[SessionInfo]], Awaitable[Sequence[SessionInfo]]]:
        return self.counted

    async def backlog(self, client_id: str) -> BacklogInfo | None:
        session = self.by_session.get(client_id)
        if session is None:
            return None
        messages = None if session.backlog is None else session.backlog + session.queued
        claims = [
            ClaimInfo("a/+", "subscription", 4000, None, 4096, live=False, messages=8),
            ClaimInfo("$share/g/b", "shared", None, None, 5000, live=True, messages=None),
        ]
        return BacklogInfo(client_id, messages, 4500, self.complete, claims)

    async def subscriptions(
        self,
        client_id: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
        topic: str | None = None,
    ) -> list[SubscriptionInfo]:
        ordered = sorted(self.filters, key=lambda info: (info.client_id, info.subscription.filter))
        return [
            info
            for info in ordered
            if client_id in (None, info.client_id)
            and (topic is None or matches(info.subscription.filter, topic))
            and (after is None or (info.client_id, info.subscription.filter) > after)
        ][:limit]

    def retained(self, filter: str = "#", after: bytes | None = None, limit: int = 100) -> list[Message]:
        topics = [topic for topic in sorted(self.kept) if matches(filter, topic.decode())]
        return [self.kept[topic] for topic in topics if after is None or topic > after][:limit]

    async def publish(self, message: Message, user: str | None = None) -> Published:
        await self._pass()
        self.users.append(user)
        self.done.append(message)
        return Published(3, elsewhere=message.topic == b"elsewhere")

    async def publish_all(self, messages: Sequence[Message], user: str | None = None) -> list[Published | MqttError]:
        await self._pass()
        self.users.append(user)
        self.done += messages
        refused = Refused("full", ReasonCode.QUOTA_EXCEEDED)
        return [refused if one.payload == b"full" else Published(3, elsewhere=False) for one in messages]

    async def remove_all_retained(self, filter: str, limit: int) -> int:
        topics = [one.topic for one in self.retained(filter, None, limit)]
        for topic in topics:
            del self.kept[topic]
        return len(topics)

    async def kick(self, client_id: str) -> bool:
        await self._pass()
        return self.by_client.pop(client_id, None) is not None

    async def purge(self, client_id: str) -> bool:
        await self._pass()
        return self.by_session.pop(client_id, None) is not None

    async def remove_retained(self, topic: bytes) -> bool:
        await self._pass()
        return self.kept.pop(topic, None) is not None

    async def _pass(self) -> None:
        if self.gate is not None:
            await self.gate
        if self.failure is not None:
            raise self.failure


class FakeKnowledge:
    """The facts of a fake view."""

    def __init__(self, view: FakeView) -> None:
        self._view = view

    async def facts(self, asked: str, topic: str | None) -> Facts:
        view = self._view
        return Facts(
            node="n1",
            now=NOW,
            asked=asked,
            client=view.client(asked),
            session=view.session(asked),
            subscriptions=tuple(one.subscription for one in await view.subscriptions(asked)),
            attempts=tuple(view.attempts(asked)),
            troubles=tuple(view.counters.recent.of(asked)),
            broker=view.info(),
            topic=topic,
        )


class FakeMetrics:
    """One line of exposition."""

    content_type = "text/plain; version=1"

    def render(self) -> bytes:
        return b"up 1\n"


@dataclass
class Answer:
    """A parsed HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


#: Without annotations in Twisted.
_make_transport: Any = StringTransport


class Connection:
    """One connection to a site, in memory."""

    def __init__(self, site: Any, host: str = "127.0.0.1") -> None:
        peer = IPv4Address("TCP", host, 1)
        self._transport: Any = _make_transport(peerAddress=peer)
        self._protocol: Any = site.buildProtocol(peer)
        self._protocol.makeConnection(self._transport)

    @property
    def written(self) -> bytes:
        """What the site has answered so far."""
        return bytes(self._transport.value())

    def receive(self, data: bytes) -> None:
        self._protocol.dataReceived(data)

    def lose(self) -> None:
        self._protocol.connectionLost(connectionDone)
        # As a real one, it knows nobody any more.
        self._transport.producer = None


@dataclass
class Browser:
    """Speaks HTTP to a site in memory; each request is a connection of its own."""

    site: Site
    token: str | None = TOKEN

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return self.request("GET", path, headers=headers)

    def delete(self, path: str) -> Answer:
        return self.request("DELETE", path)

    def post(self, path: str, body: object) -> Answer:
        return self.request("POST", path, body if isinstance(body, bytes) else json.dumps(body).encode())

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        answers = parse(self.send(method, path, body, headers).written)
        assert answers is not None, "no answer yet"
        return answers

    def open(self) -> Connection:
        """A connection on which nothing was sent yet."""
        return Connection(self.site)

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Connection:
        """Send a request and return the connection that the answer will come on."""
        lines = {"Host": "node", "Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
        if self.token is not None:
            lines.setdefault("Authorization", f"Bearer {self.token}")
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        connection = self.open()
        connection.receive(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return connection


def parse(data: bytes) -> Answer | None:
    """The response in these bytes, or None if there is none."""
    if not data:
        return None
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return Answer(int(first.split()[1]), headers, body)


def make_browser(view: FakeView, token: str | None = TOKEN, **settings: Any) -> Browser:
    """A browser in front of the site over this view."""
    further = (why_of(view), *settings.pop("further", ()))
    site = make_site(view, FakeMetrics(), TOKEN, reactor=Clock(), now=lambda: NOW, further=further, **settings)
    return Browser(site, token)


def why_of(view: FakeView) -> WhyResources:
    """What says why of this view."""
    return WhyResources(FakeKnowledge(view).facts, lambda: _lets_all)


def _lets_all(user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
    return True
