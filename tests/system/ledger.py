"""Who sent what, who was told it is safe, and who got it: the one judge of every fault test.

Each message carries (publisher, sequence number). The publishers' side records what was sent and what was
acknowledged (PUBACK at QoS 1, PUBREC at QoS 2: from there on the broker owns the message); the subscribers'
side records every delivery in the order it came. ``check`` then accounts for all of it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from itertools import count
from math import inf


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the messages, counted per subscriber that should have got them."""

    #: Distinct messages sent, and those of them that were acknowledged.
    sent: int
    acked: int
    #: First deliveries, and further ones at QoS 1 (allowed).
    delivered: int
    duplicate_qos1: int
    #: Acknowledged, and not delivered to a subscriber that should have got it.
    lost_acked: int
    duplicate_qos2: int
    #: First deliveries that came after a later message of the same publisher and topic.
    reordered: int
    #: Losses that no counter of the broker owns up to, plus deliveries of what nobody sent there.
    unexplained: int

    def assert_clean(self) -> None:
        """Nothing acknowledged is missing, twice at QoS 2, out of order, or from nowhere."""
        faults = [
            name for name in ("lost_acked", "duplicate_qos2", "reordered", "unexplained") if getattr(self, name) != 0
        ]
        assert not faults, f"{', '.join(faults)}: {self}"

    def __str__(self) -> str:
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


class Ledger:
    """The books of one test. Subscribers are told apart by name; ``subscribe`` says what they should get."""

    def __init__(self) -> None:
        self._qos: dict[str, int] = {}
        self._topic: dict[str, str] = {}
        self._sent: Counter[str] = Counter()
        self._acked: defaultdict[str, set[int]] = defaultdict(set)
        self._readers: defaultdict[str, set[str]] = defaultdict(set)  # subscriber -> publishers
        #: Of subscribers that came later, by publisher: up to where everything was acknowledged before, and up to where
        #: a message may have come or not.
        self._floor: dict[tuple[str, str], int] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._deliveries: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._foreign: list[str] = []

    def publisher(self, name: str, topic: str, qos: int) -> None:
        """A publisher that sends all it has to one topic at one QoS."""
        self._topic[name], self._qos[name] = topic, qos

    def subscribe(self, subscriber: str, publishers: list[str]) -> None:
        """From here on this subscriber should get everything of these publishers."""
        self._readers[subscriber].update(publishers)

    def comes(self, subscriber: str, publishers: list[str]) -> None:
        """It is about to subscribe: nothing that is acknowledged by now is for it."""
        self._readers[subscriber].update(publishers)
        for name in publishers:
            acked = self._acked[name]
            self._floor[subscriber, name] = next(number for number in count(1) if number not in acked) - 1
            self._since[subscriber, name] = inf

    def has_come(self, subscriber: str) -> None:
        """It has its answer: what is sent from now on is for it."""
        for name in self._readers[subscriber]:
            self._since[subscriber, name] = self._sent[name]

    def leaves(self, subscriber: str) -> None:
        """For good: nothing is owed to it any more."""
        del self._readers[subscriber]

    def next(self, publisher: str) -> bytes:
        """The payload of the publisher's next message, which counts as sent."""
        self._sent[publisher] += 1
        return f"{publisher} {self._sent[publisher]}".encode()

    def acked(self, payload: bytes) -> None:
        """The broker took responsibility for this message."""
        name, sequence = self._read(payload)
        self._acked[name].add(sequence)

    def delivered(self, subscriber: str, topic: str, payload: bytes) -> None:
        """A message reached its reader (at QoS 2: for the first time under its packet id)."""
        try:
            name, sequence = self._read(payload)
        except ValueError:
            self._foreign.append(f"{subscriber}: {topic} {payload[:60]!r}")
            return
        wanted = name in self._readers[subscriber] and topic == self._topic.get(name)
        if not wanted or not self._floor.get((subscriber, name), 0) < sequence <= self._sent[name]:
            self._foreign.append(f"{subscriber}: {topic} {payload[:60]!r}")
            return
        self._deliveries[subscriber, name].append(sequence)

    def missing(self) -> int:
        """How many acknowledged messages have not reached every reader yet; 0 when drained."""
        return sum(len(self._owed(reader, name)) for reader, names in self._readers.items() for name in names)

    def _owed(self, subscriber: str, publisher: str) -> set[int]:
        """What was acknowledged and has not reached it."""
        owed = self._acked[publisher].difference(self._deliveries[subscriber, publisher])
        since = self._since.get((subscriber, publisher), 0)
        return {sequence for sequence in owed if sequence > since} if since else owed

    def lost(self, subscriber: str) -> list[bytes]:
        """What was acknowledged and has not reached this reader."""
        return [
            f"{name} {sequence}".encode()
            for name in sorted(self._readers[subscriber])
            for sequence in sorted(self._owed(subscriber, name))
        ]

    def check(self, dropped: int = 0) -> Account:
        """Account for everything; ``dropped`` is what the broker's own drop counters admit."""
        delivered = twice_qos1 = twice_qos2 = reordered = lost = 0
        for reader, names in self._readers.items():
            for name in names:
                got = self._deliveries[reader, name]
                first = list(dict.fromkeys(got))
                delivered += len(first)
                if self._qos[name] == 2:
                    twice_qos2 += len(got) - len(first)
                else:
                    twice_qos1 += len(got) - len(first)
                reordered += _out_of_order(first)
                lost += len(self._owed(reader, name))
        return Account(
            sent=sum(self._sent.values()),
            acked=sum(map(len, self._acked.values())),
            delivered=delivered,
            duplicate_qos1=twice_qos1,
            lost_acked=lost,
            duplicate_qos2=twice_qos2,
            reordered=reordered,
            unexplained=max(0, lost - dropped) + len(self._foreign),
        )

    def details(self, limit: int = 10) -> str:
        """The first faults by name, for the message of a failing test."""
        lines = [f"from nowhere: {line}" for line in self._foreign[:limit]]
        for reader, names in self._readers.items():
            for name in sorted(names):
                got = self._deliveries[reader, name]
                if lost := sorted(self._owed(reader, name)):
                    lines.append(f"{reader} <- {name}: lost {lost[:limit]}")
                if self._qos[name] == 2 and (twice := [n for n, times in Counter(got).items() if times > 1]):
                    lines.append(f"{reader} <- {name}: twice at QoS 2 {twice[:limit]}")
                if late := _late(list(dict.fromkeys(got))):
                    lines.append(f"{reader} <- {name}: out of order {late[:limit]}")
        return "\n".join(lines)

    @staticmethod
    def _read(payload: bytes) -> tuple[str, int]:
        name, _, sequence = payload.partition(b" ")
        return name.decode(), int(sequence)


def _late(first: list[int]) -> list[int]:
    """Sequence numbers that came after a greater one."""
    highest, late = 0, []
    for sequence in first:
        if sequence < highest:
            late.append(sequence)
        highest = max(highest, sequence)
    return late


def _out_of_order(first: list[int]) -> int:
    return len(_late(first))
