"""What was promised to whom, and what came: the account that a simulated world is held to.

lost        a durable subscriber had its SUBACK, a publish at QoS 1 or 2 was sent after that and acknowledged, and
            in the end it has not come
twice       a publish at QoS 2 came twice to a subscription of QoS 2
old         a durable subscriber got what was acknowledged before it had sent a SUBSCRIBE that asks for it
order       two messages of one connection, topic and QoS came first in another order than they were sent
session     CONNACK says that there is no session, and there must be one
owners      two lives own a client
will        a will was published more than once, or not at all although the connection broke
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from iot_mqtt.topics import matches, parse_shared


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


class Ledger:
    """Of one world."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.accounts: defaultdict[str, Account] = defaultdict(Account)
        #: Name of a will → whether its connection is sure to have broken.
        self.wills: dict[bytes, bool] = {}
        #: Filter → when anybody asked for it first: what a shared group is owed, any member may get.
        self.groups: dict[str, int] = {}
        self._tick = 0

    def tick(self) -> int:
        """The order of what happens."""
        self._tick += 1
        return self._tick

    def came(self, subscriber: str, name: bytes, time: float) -> None:
        account = self.accounts[subscriber]
        account.came[name] += 1
        if account.came[name] == 1:
            account.order.append(name)
        sent = self.sent.get(name)
        if sent is None and name not in self.wills:
            raise Broken(f"{subscriber} got {name!r}, which nobody has sent")
        if sent is not None:
            self._check_age(subscriber, sent)
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
            and not account.came[sent.name]
            and any(sent.at > wish.since and matches(wish.filter, sent.topic) for wish in account.wishes)
        ]

    def settled(self) -> bool:
        """Everybody has everything."""
        return not any(self.owed(name) for name in self.accounts) and not self.missing_wills()

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
        missing = self.missing_wills()
        if missing:
            raise Broken(f"will: {missing[0]!r} was never published ({len(missing)} of them)")

    def _check_order(self, name: str) -> None:
        latest: dict[tuple[str, str, int], Sent] = {}
        for one in self.accounts[name].order:
            sent = self.sent.get(one)
            if sent is None or sent.again:
                continue
            key = (sent.life, sent.topic, sent.qos)
            before = latest.get(key)
            if before is not None and before.at > sent.at:
                raise Broken(f"order: {name} got {before} before {sent}")
            latest[key] = sent
