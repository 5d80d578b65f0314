"""What one link has done, counted."""

from __future__ import annotations


class LinkFigures:
    """What one link has done since it was made; plain integers for metrics."""

    __slots__ = (
        "datagrams_sent",
        "items_sent",
        "bytes_sent",
        "datagrams_received",
        "items_received",
        "bytes_received",
        "duplicates",
        "repairs_asked",
        "repairs_served",
        "gaps",
        "items_missed",
        "foreign_boots",
        "malformed",
        "unknown_items",
        "early_refused",
        "withheld",
        "unsendable",
        "unsent",
    )

    def __init__(self) -> None:
        #: DATA, without what is sent again.
        self.datagrams_sent = 0
        self.items_sent = 0
        #: All kinds, as far as Messaging took them; what is sent again is counted again.
        self.bytes_sent = 0
        #: All kinds, duplicates included.
        self.datagrams_received = 0
        self.items_received = 0
        self.bytes_received = 0
        #: DATA that had come already, or had been given up.
        self.duplicates = 0
        self.repairs_asked = 0
        #: Datagrams that were sent again.
        self.repairs_served = 0
        self.gaps = 0
        #: Items that the gaps took.
        self.items_missed = 0
        #: Datagrams from an earlier life of the peer, or to an earlier life of ours.
        self.foreign_boots = 0
        self.malformed = 0
        #: Items whose kind this version does not know.
        self.unknown_items = 0
        #: DATA behind a hole that there was no room for.
        self.early_refused = 0
        #: DATA that waits in the ring because Messaging holds back too much.
        self.withheld = 0
        #: Items that are too long for any datagram.
        self.unsendable = 0
        #: Datagrams that Messaging did not take.
        self.unsent = 0
