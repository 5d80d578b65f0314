"""The times and bounds of a node among others."""

from __future__ import annotations

from dataclasses import dataclass, field

from iot_mqtt.cluster.links import LinkSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Times in seconds."""

    #: The home of a client is asked for it, and has so long to commit and to answer.
    release_timeout: float = 5.0
    #: A claim that was answered "busy", or whose record changed under it, is tried again after ``claim_pause``
    #: (doubled each time), so many times.
    claim_attempts: int = 8
    claim_pause: float = 0.05
    #: Whether a client that was let go of is in somebody's memory is looked at after this: longer than who asked for it
    #: needs, much shorter than what it wants is recorded for.
    stray_after: float = 5.0
    #: How often such clients are looked through.
    stray_look: float = 1.0
    #: A life that the list of members has never shown may be about to appear; after this it is taken for dead.
    unseen_grace: float = 2.0
    #: A node whose connection to the grid ended, and of which nothing is heard for so long, has ended.
    departed_grace: float = 1.0
    #: A node that starts waits no longer for what others want.
    told_within: float = 2.0
    #: ``when_known`` waits no longer for a peer that does not acknowledge: that one records everything by then, for it
    #: has heard nothing for ``links.silence``, or has known for ``behind`` that something is missing.
    known_within: float = 4.0
    behind: float = 1.0
    #: A fence that failed is tried again after this, as long as it is needed.
    fence_again: float = 1.0
    #: Dead nodes that nobody has adopted are looked for this often, give or take a third.
    sweep: float = 30.0
    #: Until then when there is one that may be about to appear; after ``absent_grace`` it counts as dead.
    first_sweep: float = 5.0
    absent_grace: float = 15.0
    #: What a dead node kept is still recorded for so long after its sessions were adopted.
    linger: float = 30.0
    #: Sessions that the broker is given to load at once.
    adopt_chunk: int = 5_000
    #: Channel records that are read at once, and changed at once.
    scan_page: int = 1_000
    swaps_at_once: int = 256
    #: The entry in the list of members is refreshed this often, if it has changed.
    refresh: float = 5.0
    links: LinkSettings = field(default_factory=LinkSettings)
