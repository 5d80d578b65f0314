"""What was promised to whom, and what came: the account that a simulated world is held to.

lost        a durable subscriber had its SUBACK, a publish at QoS 1 or 2 was sent after that and acknowledged, and
            in the end it has not come
twice       a publish at QoS 2 came twice to a subscription of QoS 2, or one at QoS 0 twice on one connection
old         a durable subscriber got what was acknowledged before it had sent a SUBSCRIBE that asks for it
order       two messages of one connection, topic and QoS (not 0) came first in another order than they were sent
moved       one came behind what its publisher had sent later to another node, after the acknowledgement, although links
            and clocks were right, and the session's node had neither stood still nor waited in vain for an answer
session     CONNACK says that there is no session, and there must be one
owners      two lives own a client
will        a will was published more than once, or not at all although the connection broke
late        a message came long after it had expired
group       a message is owed to a shared group and no member got it
retained    in the end a topic has no retained message, or an acknowledged one that another one has replaced
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from iot_mqtt.topics import matches, parse_shared

#: Seconds that a message may come after its expiry, when all clocks are right: it was on its way already.
LATE = 2.0
#: Seconds by which the clocks of two nodes differ at most, and what a message takes.
CLOCKS = 7.0


class Broken(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Sent:
    """One message that a client has sent."""

    name: bytes
    topic: str
    qos: int
    #: Which connection of which client.
    life: str
    #: Among everything that happens in the world.
    at: int
    time: float
    node: str
    #: Among everything that happens; None: it is not acknowledged.
    acknowledged_at: int | None = None
    #: On a later connection: it may then be behind what came after it.
    again: bool = False
    #: Seconds after which nobody wants it any more.
    expiry: int | None = None
    #: The node stood still when it was sent, or in the same instant: it may have read it then, and not sent it on yet.
    held: bool = False
    #: No subscriber gets it.
    only_up: bool = False

    @property
    def acknowledged(self) -> bool:
        """Somebody has been told that it is safe."""
        return self.acknowledged_at is not None


@dataclass(slots=True)
class Wish:
    """A subscription of a durable client; counts from its SUBACK on."""

    filter: str
    qos: int
    since: int


@dataclass(slots=True)
class Account:
    """One durable subscriber."""

    wishes: list[Wish] = field(default_factory=list)
    #: Filter → when it was asked for first.
    asked: dict[str, int] = field(default_factory=dict)
    came: Counter[bytes] = field(default_factory=Counter)
    order: list[bytes] = field(default_factory=list)
    #: The same of QoS 0, by connection.
    live: Counter[tuple[bytes, str]] = field(default_factory=Counter)
    #: Name → until when order was not promised, as of its coming.
    rough: dict[bytes, float] = field(default_factory=dict)


class Ledger:
    """Of one world."""

    def __init__(self, late: float = LATE) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        #: Name of a will → whether its connection is sure to have broken.
        self.wills: dict[bytes, bool] = {}
        #: Filter → when anybody asked for it first: what a shared group is owed, any member may get.
        self.groups: dict[str, int] = {}
        #: Shared filter → when the first member had its SUBACK, and who the members are.
        self._shared: dict[str, tuple[int, set[str]]] = {}
        #: Topic → numbers of its retained messages, and when: those acknowledged; and those that never were.
        self._kept: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        self._unsure: defaultdict[str, set[int]] = defaultdict(set)
        #: Seconds that a message may come after its expiry: at least, and more when clocks are wrong.
        self.least_late = self.late = late
        #: Until when links or clocks were not right.
        self.rough_until = 0.0
        #: Node → until when it may not have heard of what others have acknowledged, and has said so or stood still.
        self.unsure_until: dict[str, float] = {}
        self._tick = 0

    def tick(self) -> int:
        """The order of what happens."""
        self._tick += 1
        return self._tick

    def stands_still(self, node: str, time: float) -> None:
        """A node does from now on, in the middle of what it was sent in this instant."""
        for sent in self.sent.values():
            if sent.time == time and sent.node == node:
                sent.held = True

    def came(self, subscriber: str, name: bytes, time: float, life: str, node: str, *, again: bool = False) -> None:
        """``life``: on which of its connections; ``node``: with which node."""
        account = self.accounts[subscriber]
        account.came[name] += 1
        if account.came[name] == 1:
            account.order.append(name)
            account.rough[name] = max(self.rough_until, self.unsure_until.get(node, 0.0))
        sent = self.sent.get(name)
        if sent is None and name not in self.wills:
            raise Broken(f"{subscriber} got {name!r}, which nobody has sent")
        if sent is not None:
            self._check_age(subscriber, sent)
            timely = (
                sent.expiry is None or again or sent.held or sent.again or time <= sent.time + sent.expiry + self.late
            )
            if not timely:
                raise Broken(f"late: {subscriber} got {sent} at {time:.3f}")
        if sent is not None and sent.qos == 0:
            # A session that goes to another node may meet it again there, when it is late: nobody has a record of it.
            account.live[name, life] += 1
            if account.live[name, life] > 1:
                raise Broken(f"twice: {subscriber} got {name!r} at QoS 0 again at {time:.3f} ({sent})")
        exactly_once = sent is None or sent.qos == 2
        if exactly_once and account.came[name] > 1:
            what = "twice" if sent is not None else "will"
            raise Broken(f"{what}: {subscriber} got {name!r} at QoS 2 again at {time:.3f} ({sent})")

    def _check_age(self, subscriber: str, sent: Sent) -> None:
        asked = []
        for filter, at in self.accounts[subscriber].asked.items():
            shared = parse_shared(filter)
            if matches(filter if shared is None else shared[1], sent.topic):
                asked.append(at if shared is None else self.groups[filter])
        if sent.acknowledged_at is not None and all(at > sent.acknowledged_at for at in asked):
            raise Broken(f"old: {subscriber} got {sent}, and asked for it at {asked}")

    def asks(self, subscriber: str, filter: str) -> None:
        """A SUBSCRIBE is about to be sent."""
        at = self.tick()
        self.accounts[subscriber].asked.setdefault(filter, at)
        self.groups.setdefault(filter, at)

    def subscribed(self, subscriber: str, wish: Wish) -> None:
        """SUBACK came."""
        if parse_shared(wish.filter) is None:
            self.accounts[subscriber].wishes.append(wish)
        else:
            _, members = self._shared.setdefault(wish.filter, (wish.since, set()))
            members.add(subscriber)

    def keeps(self, topic: str, number: int) -> None:
        """A retained message is about to be sent."""
        self._unsure[topic].add(number)

    def kept(self, topic: str, number: int, time: float) -> None:
        """It is acknowledged."""
        self._unsure[topic].discard(number)
        self._kept[topic].append((number, time))

    def check_retained(self, found: dict[str, int]) -> None:
        """What is there in the end."""
        for topic, kept in self._kept.items():
            there = found.get(topic)
            # Of two nodes that do not hear each other the clocks decide.
            latest = kept[-1][1]
            if there not in {number for number, time in kept if time > latest - CLOCKS} | self._unsure[topic]:
                raise Broken(f"retained: {topic} has {there}, and {kept[-1][0]} was acknowledged last")

    def owed_to_groups(self) -> list[tuple[str, Sent]]:
        """What has come to no member."""
        found = []
        for filter, (since, members) in self._shared.items():
            shared = parse_shared(filter)
            assert shared is not None
            found += [
                (filter, sent)
                for sent in self.sent.values()
                if sent.acknowledged
                and sent.expiry is None
                and sent.at > since
                and matches(shared[1], sent.topic)
                and not any(self.accounts[member].came[sent.name] for member in members)
            ]
        return found

    def acknowledges(self, sent: Sent) -> None:
        """PUBACK or PUBREC came."""
        if sent.acknowledged_at is None:
            sent.acknowledged_at = self.tick()

    def owed(self, subscriber: str) -> list[Sent]:
        """What has not come and must."""
        account = self.accounts[subscriber]
        return [
            sent
            for sent in self.sent.values()
            if sent.acknowledged
            and sent.expiry is None
            and not sent.only_up
            and not account.came[sent.name]
            and any(sent.at > wish.since and matches(wish.filter, sent.topic) for wish in account.wishes)
        ]

    def settled(self) -> bool:
        """Everybody has everything."""
        return not (any(map(self.owed, self.accounts)) or self.missing_wills() or self.owed_to_groups())

    def missing_wills(self) -> list[bytes]:
        watcher = self.accounts["watcher"]
        return [name for name, broke in self.wills.items() if broke and not watcher.came[name]]

    def close(self) -> None:
        """At the end."""
        for name in self.accounts:
            owed = self.owed(name)
            if owed:
                raise Broken(f"lost: {name} never got {len(owed)} messages, the first: {owed[0]}")
            self._check_order(name)
        missed = self.owed_to_groups()
        if missed:
            raise Broken(f"group: {len(missed)} messages came to no member, the first: {missed[0]}")
        missing = self.missing_wills()
        if missing:
            raise Broken(f"will: {missing[0]!r} was never published ({len(missing)} of them)")

    def _check_order(self, name: str) -> None:
        if any(parse_shared(filter) is not None for filter in self.accounts[name].asked):
            # What another member gives back comes behind what is newer.
            return
        latest: dict[tuple[str, str, int], Sent] = {}
        for one in self.accounts[name].order:
            sent = self.sent.get(one)
            # Whether a message has expired the nodes judge by their own clocks: another one may bring it later. One at
            # QoS 0 a session may meet late, on another node.
            if sent is None or sent.again or sent.expiry is not None or not sent.qos:
                continue
            key = (sent.life, sent.topic, sent.qos)
            before = latest.get(key)
            if before is not None and before.at > sent.at:
                raise Broken(f"order: {name} got {before} before {sent}")
            latest[key] = sent
        for late, before in self._overtaken(name, moved=False):
            raise Broken(f"order: {name} got {before} before {late}")
        for late, before in self._overtaken(name, moved=True):
            if self.accounts[name].rough[before.name] < late.time:
                raise Broken(f"moved: {name} got {before} before {late}")

    def overtaken(self) -> int:
        """How many came behind what the same client had sent to another node after their acknowledgement."""
        return sum(1 for name in self.accounts for _ in self._overtaken(name, moved=True))

    def _overtaken(self, name: str, *, moved: bool) -> Iterator[tuple[Sent, Sent]]:
        """What came too late, with the latest of what came before it. ``moved``: of whatever nodes."""
        if any(parse_shared(filter) is not None for filter in self.accounts[name].asked):
            return
        latest: dict[tuple[str, str, int, str], Sent] = {}
        for one in self.accounts[name].order:
            sent = self.sent.get(one)
            if sent is None or sent.expiry is not None or not sent.qos:
                continue
            if sent.again and not moved:
                # Maybe to another node: into whichever log it came first. Both are behind what was acknowledged before.
                continue
            key = (sent.life.partition("/")[0], sent.topic, sent.qos, "" if moved else sent.node)
            before = latest.setdefault(key, sent)
            if sent.acknowledged_at is not None and sent.acknowledged_at < before.at:
                yield sent, before
            if before.at < sent.at:
                latest[key] = sent
