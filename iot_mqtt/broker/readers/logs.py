"""The logs of a node: its own, which it appends to, and those of other nodes, which it only reads.

Every node of a cluster has a log of its own in the shared grid, known by the node's number. A sole node has one log,
and none of this costs it anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.log import Followed, Log, LogReader, LogRun, Reference


class Logs:
    """Readers by writer number."""

    __slots__ = ("own", "others", "missed", "added")

    def __init__(self, own: Log, added: Callable[[Followed], None] | None = None) -> None:
        self.own = own
        #: Of other nodes, by number.
        self.others: dict[int, Followed] = {}
        #: Told the number of a node whose log was wanted, and is not read here.
        self.missed: Callable[[int], None] | None = None
        #: Told of a log that is read from now on.
        self.added = added

    def __iter__(self) -> Iterator[LogReader]:
        yield self.own
        yield from self.others.values()

    def of(self, writer: int) -> Followed | None:
        """The log of another node, if it is read here."""
        return self.others.get(writer)

    async def reader(self, writer: int) -> LogReader:
        """The log of a node, up to its end of now; ``Unavailable``: not now."""
        if writer == self.own.writer:
            return self.own
        if writer not in self.others and self.missed is not None:
            self.missed(writer)
        reader = self.others.get(writer)
        if reader is None:
            raise Unavailable(f"nobody here reads the log of {node_words(writer)} yet")
        await reader.refresh()
        return reader

    def add(self, reader: Followed) -> None:
        """Read another node's log from now on; it is open. A second one of the same writer is passed over."""
        if reader.writer != self.own.writer and reader.writer not in self.others:
            self.others[reader.writer] = reader
            if self.added is not None:
                self.added(reader)

    async def note_drops(self) -> None:
        """Others drop what they like, and who cares for dead nodes' logs does: see what is gone for readers here."""
        for reader in list(self.others.values()):
            await reader.note_drops()

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        """Messages again, whichever log they are in, in the order asked for; None where retention has removed them."""
        if not self.others:
            own = self.own.writer
            if all(reference.writer == own for reference in references):
                return await self.own.fetch(references)
        by_writer: dict[int, list[int]] = {}
        for place, reference in enumerate(references):
            by_writer.setdefault(reference.writer, []).append(place)
        found: list[LogRun | None] = [None] * len(references)
        for writer, places in by_writer.items():
            reader = self.own if writer == self.own.writer else self.others.get(writer)
            if reader is None:
                if self.missed is not None:
                    self.missed(writer)
                raise Unavailable(f"nobody here reads the log of {node_words(writer)} yet")
            for place, run in zip(places, await reader.fetch([references[place] for place in places]), strict=True):
                found[place] = run
        return found
