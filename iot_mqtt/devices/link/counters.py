"""What happened on the links to gateways, by codec and by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class LinkCounters:
    """Of one codec; they only grow."""

    #: Connections that said who they are and were let in.
    logins: int = 0
    frames: int = 0
    readings: int = 0
    #: Readings that had come before and were safe.
    duplicates: int = 0
    #: Frames that were asked about and are safe.
    confirmed: int = 0
    commands: int = 0
    answers: int = 0
    #: Connections that ended because of the gateway, by reason.
    refused: Counter[str] = field(default_factory=Counter)
    #: Connections that ended because of the codec, by reason.
    faults: Counter[str] = field(default_factory=Counter)
    #: Readings that could not be published, by reason.
    dropped: Counter[str] = field(default_factory=Counter)
    #: Commands that did not leave, by reason.
    commands_refused: Counter[str] = field(default_factory=Counter)
    #: What codecs count themselves.
    events: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class LinksCounters:
    """Of all codecs of this node."""

    codecs: dict[str, LinkCounters] = field(default_factory=dict)

    def of(self, codec: str) -> LinkCounters:
        """Those of a codec, by its name."""
        found = self.codecs.get(codec)
        if found is None:
            found = self.codecs[codec] = LinkCounters()
        return found
