"""Which streams may hold what filters match, and which topics do: worked out once, kept for all readers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain

from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.records import DROPPING
from iot_mqtt.grid.log.structures import BUCKET_BITS, Needed, needed
from iot_mqtt.topics import FilterSet, is_wildcard

#: Bounds, not tuning knobs.
MAX_SELECTIONS = 256
MAX_GENERATIONS = 16
MAX_TOPICS = 10_000
#: So many topics are looked for in a page before it is decoded.
FEW_TOPICS = 4
_EVERY_BIT = (1 << BUCKET_BITS) - 1


class Selection:
    """What a reader wants, by its filters; ``all_up``: what is not for subscribers, too."""

    def __init__(self, filters: Sequence[str], *, all_up: bool = False) -> None:
        self.filters = tuple(filters)
        self.all_up = all_up
        exact = not any(map(is_wildcard, filters))
        #: The topics that it wants, if no filter has a wildcard; and if they are few, else none.
        self._exact = frozenset(map(str.encode, filters)) if exact else None
        self.wanted = tuple(self._exact) if self._exact is not None and len(self._exact) <= FEW_TOPICS else ()
        self._filters = FilterSet(() if exact else filters)
        self._needed: dict[str, tuple[frozenset[int], tuple[Needed, ...]]] = {}
        self._topics: dict[bytes, bool] = {}
        # Per generation: its list of streams, how many of them were looked at, and those that may match.
        self._streams: OrderedDict[int, tuple[list[Stream], int, dict[Stream, None]]] = OrderedDict()

    def streams(self, generation: Generation) -> dict[Stream, None]:
        """Those of a loaded generation that may hold something; treat as frozen."""
        if generation.state == DROPPING:
            return {}
        streams = generation.in_order
        known, seen, found = self._streams.get(generation.id) or (streams, 0, {})
        if known is not streams:
            seen, found = 0, {}
        if seen != len(streams):
            candidates = streams[seen:] if seen else self._candidates(generation)
            for stream in candidates:
                if self.admits(stream):
                    found[stream] = None
            self._streams[generation.id] = streams, len(streams), found
            while len(self._streams) > MAX_GENERATIONS:
                self._streams.popitem(last=False)
        return found

    def _candidates(self, generation: Generation) -> Iterator[Stream]:
        """Streams of the generation that may be admitted: those of one bucket where it is known which that is, as for
        a filter without wildcards. Structures that no filter can match are not looked at.
        """
        for structure in dict.fromkeys(chain.from_iterable(map(generation.structures.of, self.filters))):
            buckets = generation.by_bucket[structure]
            whole, others = self._wanted(structure)
            if others:
                yield from chain.from_iterable(buckets.values())
            else:
                for bucket in whole:
                    yield from buckets.get(bucket, ())

    def _wanted(self, structure: str) -> tuple[frozenset[int], tuple[Needed, ...]]:
        """Which buckets of a structure the filters need: those that are known, and those of which a part is."""
        wanted = self._needed.get(structure)
        if wanted is None:
            asked = {one for filter in self.filters if (one := needed(filter, structure)) is not None}
            whole = frozenset(one.value for one in asked if one.mask == _EVERY_BIT)
            wanted = self._needed[structure] = whole, tuple(one for one in asked if one.mask != _EVERY_BIT)
        return wanted

    def admits(self, stream: Stream) -> bool:
        """Whether the stream may hold a topic that matches."""
        whole, others = self._wanted(stream.structure)
        return stream.bucket in whole or any(stream.bucket & one.mask == one.value for one in others)

    def matches(self, topic: bytes) -> bool:
        """Whether one of the filters matches the topic."""
        if self._exact is not None:
            return topic in self._exact
        known = self._topics.get(topic)
        if known is None:
            if len(self._topics) >= MAX_TOPICS:
                self._topics.clear()
            known = self._topics[topic] = bool(self._filters.match(topic.decode()))
        return known


class Everything(Selection):
    """All topics, of one generation or of all."""

    def __init__(self, generation: int | None = None) -> None:
        super().__init__((), all_up=True)
        self._only = generation

    def streams(self, generation: Generation) -> dict[Stream, None]:
        return super().streams(generation) if self._only in (None, generation.id) else {}

    def _candidates(self, generation: Generation) -> Iterator[Stream]:
        return iter(generation.in_order)

    def admits(self, stream: Stream) -> bool:
        return True

    def matches(self, topic: bytes) -> bool:
        return True


class Selections:
    """The selections used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bool, tuple[str, ...]], Selection] = OrderedDict()

    def of(self, filters: Sequence[str], *, all_up: bool) -> Selection:
        key = all_up, tuple(filters)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Selection(key[1], all_up=all_up)
            if len(self._known) > MAX_SELECTIONS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found
