"""What happened on the links to gateways, by codec and by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iot_mqtt.framing import Framer

#: Reasons of refused connections that are told apart; what else codecs say is ``OTHER``.
MAX_REASONS = 32
OTHER = "other"


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
    #: Bytes that were no frame and were skipped; and the reasons, where frames were.
    skipped_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
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

    def bad_frame(self, reason: str) -> None:
        """A connection ended because of a frame. Codecs choose the reason, and it is a label: there is an end of it."""
        known = reason in self.refused or len(self.refused) < MAX_REASONS
        self.refused[reason if known else OTHER] += 1


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


class Skipped:
    """What one connection's framer has thrown away goes into the counters of its codec, once."""

    __slots__ = ("_counters", "_framer", "_bytes", "_reasons")

    def __init__(self, counters: LinkCounters, framer: Framer) -> None:
        self._counters, self._framer = counters, framer
        self._bytes = 0
        self._reasons: Counter[str] = Counter()

    def count(self) -> None:
        """Some more was."""
        framer, counters = self._framer, self._counters
        counters.skipped_bytes += framer.skipped - self._bytes
        self._bytes = framer.skipped
        reasons = Counter({reason.value: count for reason, count in framer.refused.items()})
        counters.skipped.update(reasons - self._reasons)
        self._reasons = reasons
