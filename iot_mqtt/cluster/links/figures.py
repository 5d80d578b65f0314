"""What one link has done, counted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LinkFigures:
    """What one link has done since it was made; plain integers for metrics."""

    #: DATA, without what is sent again.
    datagrams_sent: int = 0
    items_sent: int = 0
    #: All kinds, as far as Messaging took them; what is sent again is counted again.
    bytes_sent: int = 0
    #: All kinds, duplicates included.
    datagrams_received: int = 0
    items_received: int = 0
    bytes_received: int = 0
    #: DATA that had come already, or had been given up.
    duplicates: int = 0
    repairs_asked: int = 0
    #: Datagrams that were sent again.
    repairs_served: int = 0
    gaps: int = 0
    #: Items that the gaps took.
    items_missed: int = 0
    #: Datagrams from an earlier life of the peer, or to an earlier life of ours.
    foreign_boots: int = 0
    malformed: int = 0
    #: Items whose kind this version does not know.
    unknown_items: int = 0
    #: DATA behind a hole that there was no room for.
    early_refused: int = 0
    #: DATA that waits in the ring because Messaging holds back too much.
    withheld: int = 0
    #: Items that are too long for any datagram.
    unsendable: int = 0
    #: Datagrams that Messaging did not take.
    unsent: int = 0
