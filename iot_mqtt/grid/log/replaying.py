"""What the summaries of a turn say, taken over into memory: by the writer after a start, by others as the log grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.records import DROPPING, TurnRecord, WrittenPage
from iot_mqtt.ports.log import TURN_BITS


def pages_of(records: Iterable[TurnRecord]) -> Iterator[WrittenPage]:
    """The pages of a turn, of all its shards."""
    for record in records:
        yield from record.pages


def replay(turn: int, records: list[TurnRecord], catalogue: Catalogue, recent: Recent) -> None:
    """The turns come in their order, and the streams of their generations are loaded. What is unknown is gone."""
    touched: dict[Stream, None] = {}
    grown: dict[Generation, None] = {}
    wall = max(record.wall for record in records)
    end = (turn << TURN_BITS) + sum(page.messages for page in pages_of(records))
    for page in pages_of(records):
        generation = catalogue.generations.get(page.generation)
        stream = None if generation is None else generation.streams.get(page.stream)
        if generation is None or stream is None or generation.state == DROPPING:
            continue
        if turn < generation.first_turn:
            continue  # of a generation that had the same number, and that is gone
        touched[stream] = None
        grown[generation] = None
        if turn > stream.counted:
            stream.count(page.messages, page.bytes)
            stream.last_turn = max(stream.last_turn, turn)
            stream.counted = turn
        if turn > generation.counted:
            generation.messages += page.messages
            generation.bytes += page.bytes
    for generation in grown:
        generation.counted = max(generation.counted, turn)
        generation.end = max(generation.end, end)
        generation.ended_at = max(generation.ended_at, wall)
    recent.staged(turn, wall, touched)
