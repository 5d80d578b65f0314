"""The times and bounds of links."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Times in seconds; sizes in bytes and, unless another thing is said, for each peer."""

    #: How often time is looked at; the other times are kept to this precision.
    tick: float = 0.025
    #: And how often while nothing is due, which is most of the time of a node that has nothing to do.
    rest: float = 0.25
    #: A heartbeat at least this often, and so soon after items were sent or came: it says what is missing and lets
    #: go of what has come.
    heartbeat: float = 0.5
    active_heartbeat: float = 0.1
    #: And at once when so much has come: who sends it may be near the bound of what may be unconfirmed.
    confirm_bytes: int = MIB
    #: Nothing heard for so long: the peer is down.
    silence: float = 3.0
    #: A hole is asked for after this (it may be a matter of order only), and again after ``repair_again``, doubled
    #: up to ``repair_again_most``.
    repair_wait: float = 0.02
    repair_again: float = 0.1
    repair_again_most: float = 1.0
    #: A hole is given up when nothing has been filled for so long.
    gap_after: float = 2.0
    #: About the size of a datagram, if items gather; and the most that Messaging carries.
    datagram_bytes: int = 256 << 10
    datagram_most: int = 15 * MIB
    #: What was sent is kept for repair, up to so much.
    ring_bytes: int = 64 * MIB
    ring_count: int = 16_384
    #: What came behind a hole is kept, up to so much.
    early_bytes: int = 64 * MIB
    early_count: int = 16_384
    #: One REPAIR is answered with about so much; the rest is asked for again.
    repair_burst: int = 2 * MIB
    #: A peer is crowded when so much has been sent that it has not confirmed: some three seconds of 100,000 small
    #: messages each, which the longest collection of garbage on the way does not take.
    crowded_bytes: int = 32 * MIB
    #: Everybody is crowded when Messaging holds back so much; and at ``waiting_most`` DATA stays in the ring
    #: until it is asked for. Of all peers together.
    waiting_bytes: int = 32 * MIB
    waiting_most: int = 64 * MIB
