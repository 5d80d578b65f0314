"""Counters that cost an integer addition; ``metrics`` turns them into Prometheus text and ``$SYS`` topics.

The loss identity, counted per receiver, which every system and cluster test asserts::

    matched + restored = delivered + waiting + handed over + sum(dropped)

``restored`` is what waited already when the node started, or when a session came from another node; what is left to
be counted of it is counted soon, and is not in ``waiting`` before that. A drop always has a reason from ``Drop``;
``retained_quota`` is no part of the sum, for such a message was delivered all the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from mypy_extensions import mypyc_attr

from iot_mqtt.ports.recent import Recent


class Drop(StrEnum):
    """Why a message did not reach a receiver."""

    OUTBOX_FULL = "outbox_full"  # QoS 0 for a reader that does not read
    QUEUE_FULL = "queue_full"
    QUEUE_BYTES = "queue_bytes"
    QUEUES_FULL = "queues_full"  # too much waits for all sessions, and this one has its part
    EXPIRED = "expired"
    TOO_LARGE = "too_large"  # larger than the client's Maximum Packet Size
    SESSION_ENDED = "session_ended"
    UNSUBSCRIBED = "unsubscribed"  # owed to a replay that its client gave up
    OFFLINE_QOS0 = "offline_qos0"
    NO_SHARED_MEMBER = "no_shared_member"
    NOT_AUTHORIZED = "not_authorized"  # the right to it was taken back while it waited
    RETAINED_QUOTA = "retained_quota"  # delivered, but not retained
    RETENTION = "retention"  # the log's retention was over, or an operator dropped it, before the session came for it
    REJECTED = "rejected"  # the client answered with a reason of 0x80 or more
    DISK_FULL = "disk_full"  # QoS 0 that only the log could have brought
    KILLED = "killed"  # it waited in memory only when the node was killed; counted by the next life, over all lives
    COMMAND_OVER = "command_over"  # a command that must not be sent any more; its state says why


class LinkDrop(StrEnum):
    """Why a message that another node wants did not leave this one; counted once, not per receiver there."""

    PEER_DOWN = "peer_down"  # what was recorded is found in the log when it is back
    PEER_CROWDED = "peer_crowded"  # QoS 0 for a node that does not keep up, or behind too much that waits for a commit


#: Upper bounds in seconds; what takes longer falls into +Inf.
LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class Histogram:
    """How often something took how long: one bisection and two additions each time."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = LATENCIES) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count one, or some that took equally long."""
        self.total += seconds * count
        self.counts[bisect_left(self.bounds, seconds)] += count

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bound and how many were at most that, as Prometheus counts them."""
        running, rows = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            rows.append((bound, float(running)))
        return rows

    def by_bound(self) -> dict[str, int]:
        """How many fell below each upper bound and above the one before."""
        return dict(zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True))


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int]) -> float:
    """What so large a share took at most, as far as the buckets tell: evenly spread in each, as Prometheus has it, and
    what is beyond the last bound took as long as that. 0: there are none.
    """
    wanted = share * sum(counts)
    running, lower = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and running + count >= wanted:
            return lower + (bound - lower) * max(0.0, wanted - running) / count
        running, lower = running + count, bound
    return lower if any(counts) else 0.0


class Tally(dict[str, int]):
    """How often what: 0 of what was never counted. A ``Counter`` that is as fast as a dict to add to."""

    __slots__ = ()

    def __missing__(self, key: str) -> int:
        return 0

    def total(self) -> int:
        """All of them."""
        return sum(self.values())


#: What ``Counters`` has, by name.
FIGURES: Final = (
    "recent",
    "connections_opened",
    "connections_closed",
    "connects_accepted",
    "sheddings",
    "connects_refused",
    "disconnects",
    "bytes_received",
    "bytes_sent",
    "packets_received",
    "packets_sent",
    "messages_received",
    "messages_matched",
    "messages_restored",
    "messages_handed_over",
    "messages_passed_on",
    "messages_taken_over",
    "messages_lent",
    "messages_borrowed",
    "messages_found",
    "readers_uncounted",
    "readers_hurried",
    "messages_unmatched",
    "messages_delivered",
    "messages_resent",
    "dropped",
    "messages_forwarded",
    "messages_from_peers",
    "forwards_dropped",
    "messages_refused",
    "publishers_paused",
    "disk_merges",
    "disk_given_back_bytes",
    "denied",
    "banned",
    "limited",
    "errors",
    "commits",
    "commit_operations",
    "commit_seconds",
    "commit_latency",
    "acknowledgement_wait",
    "commit_failures",
)


class Counters:
    """Plain integers, one instance per node; and the last ones of what they count against clients, with topics."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self.recent = Recent(wall)
        self.connections_opened = 0
        self.connections_closed = 0
        self.connects_accepted = 0
        self.sheddings = 0  # times that newcomers were refused because the loop was late
        self.connects_refused: Tally = Tally()
        self.disconnects: Tally = Tally()  # by reason name
        self.bytes_received = 0
        self.bytes_sent = 0
        #: PUBLISH packets that ``packets_received`` does not have yet: a number is added to faster.
        self.publishes_received = 0
        self._packets_received = Tally()
        #: By packet type name; ``packets_sent`` has PUBLISH as well.
        self.others_sent: Tally = Tally()
        self.messages_received = 0  # PUBLISH accepted from clients, wills and the API
        self.messages_matched = 0  # receivers found, summed
        self.messages_restored = 0  # the same, of messages that waited at the start, or came from another node
        self.messages_handed_over = 0  # went to another node, with a session or for a group
        self.messages_passed_on = 0  # of these: with a session whose record says how many
        self.messages_taken_over = 0  # of restored: so many were passed on, by the session's record
        self.messages_lent = 0  # of handed over: by a link, for a group's member there, or back from one
        self.messages_borrowed = 0  # of matched and restored: they came by a link in this way
        self.messages_found = 0  # of restored: a life that is over had counted them, or nobody; that cannot be told
        self.readers_uncounted = 0  # that ended, or lost messages, before anybody had counted what they were owed
        self.readers_hurried = 0  # times that a reader of a log went on without those that come first
        self.messages_unmatched = 0  # PUBLISH that nobody wanted
        self.messages_delivered = 0  # handed to an outbox (QoS 0) or sent and acknowledged (QoS 1/2)
        self.messages_resent = 0
        self.dropped: Tally = Tally()  # by Drop
        self.messages_forwarded = 0  # to other nodes, once per node
        self.messages_from_peers = 0  # published at other nodes
        self.forwards_dropped: Tally = Tally()  # by LinkDrop
        self.messages_refused: Tally = Tally()  # not stored because there was no room, by why
        self.publishers_paused: Tally = Tally()  # times that a connection was not read from, by why
        self.disk_merges = 0  # times that a full disk was given back what removed entries took
        self.disk_given_back_bytes = 0
        self.denied: Tally = Tally()  # by action
        self.banned: Tally = Tally()  # clients that a ban kept out, or ended, by its cause
        self.limited: Tally = Tally()  # requests beyond what an identity may use up, by limit
        self.errors: Tally = Tally()  # protocol errors by reason name
        self.commits = 0
        self.commit_operations = 0
        self.commit_seconds = 0.0
        self.commit_latency = Histogram()
        #: How long acknowledgements of messages waited for their commit; those that need none are not in it.
        self.acknowledgement_wait = Histogram()
        self.commit_failures = 0

    @property
    def packets_received(self) -> Tally:
        """By packet type name."""
        found = self._packets_received
        if self.publishes_received:
            found["PUBLISH"] += self.publishes_received
            self.publishes_received = 0
        return found

    @property
    def packets_sent(self) -> Tally:
        """By packet type name. A PUBLISH of QoS 1 or 2 counts once it is answered, and when it is repeated."""
        found = Tally(self.others_sent)
        publishes = self.messages_delivered + self.messages_resent + self.dropped[Drop.REJECTED]
        if publishes:
            found["PUBLISH"] = publishes
        return found

    @property
    def unconfirmed(self) -> int:
        """Messages that must be waiting for some receiver: what came to it, less what became of it."""
        lost = self.dropped.total() - self.dropped[Drop.RETAINED_QUOTA]
        came = self.messages_matched + self.messages_restored
        return came - self.messages_delivered - self.messages_handed_over - lost
