"""Counters that cost an integer addition; ``metrics`` turns them into Prometheus text and ``$SYS`` topics.

The identity every system test asserts: ``received = delivered + waiting + sum(dropped)``, counted per
receiver. A drop always has a reason from ``Drop``.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum


class Drop(StrEnum):
    """Why a message did not reach a receiver."""

    OUTBOX_FULL = "outbox_full"  # QoS 0 for a reader that does not read
    QUEUE_FULL = "queue_full"
    QUEUE_BYTES = "queue_bytes"
    EXPIRED = "expired"
    TOO_LARGE = "too_large"  # larger than the client's Maximum Packet Size
    SESSION_ENDED = "session_ended"
    OFFLINE_QOS0 = "offline_qos0"
    NO_SHARED_MEMBER = "no_shared_member"
    NOT_AUTHORIZED = "not_authorized"
    RETAINED_QUOTA = "retained_quota"  # delivered, but not retained
    REJECTED = "rejected"  # the client answered with a reason of 0x80 or more


class Counters:
    """Plain integers, one instance per node."""

    def __init__(self) -> None:
        self.connections_opened = 0
        self.connections_closed = 0
        self.connects_accepted = 0
        self.connects_refused: Counter[str] = Counter()
        self.disconnects: Counter[str] = Counter()  # by reason name
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received: Counter[str] = Counter()  # by packet type name, hot types included per batch
        self.packets_sent: Counter[str] = Counter()
        self.messages_received = 0  # PUBLISH accepted from clients, wills and the API
        self.messages_matched = 0  # receivers found, summed
        self.messages_unmatched = 0  # PUBLISH that nobody wanted
        self.messages_delivered = 0  # handed to an outbox (QoS 0) or sent and acknowledged (QoS 1/2)
        self.messages_resent = 0
        self.dropped: Counter[str] = Counter()  # by Drop
        self.denied: Counter[str] = Counter()  # by action
        self.errors: Counter[str] = Counter()  # protocol errors by reason name
        self.commits = 0
        self.commit_operations = 0
        self.commit_seconds = 0.0
        self.commit_failures = 0
