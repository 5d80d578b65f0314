"""What was recorded last, in memory: a window on the log that is never without something it should have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.broker.uplink.fresh import RUN_WEIGHT, Fresh
from iot_mqtt.ports.log import LogRun
from tests.unit.uplink.sinkkit import logged


def positions(runs: list[LogRun]) -> list[int]:
    return [position for one in runs for position in range(one.position, one.end)]


def test_it_begins_where_it_was_told_to() -> None:
    """With nothing in it."""
    fresh = Fresh(10)
    assert (fresh.take(10, 20, 100, 100), fresh.begin) == (([], 20), 20)


def test_what_it_has_no_room_for_is_left_to_the_log() -> None:
    """The oldest goes first."""
    fresh = Fresh(0, limit=2 * (RUN_WEIGHT + 100))
    for number in range(5):
        fresh.add(logged(number * 10, 5))
    assert fresh.begin == 25
    assert positions(fresh.take(fresh.begin, 100, 100, 10_000)[0]) == [*range(30, 35), *range(40, 45)]


def test_it_is_taken_in_pieces() -> None:
    """Up to about so many messages or bytes, and only what is committed."""
    fresh = Fresh(0)
    for number in range(5):
        fresh.add(logged(number * 10, 10))
    assert fresh.take(0, 40, 15, 10_000)[1] == 20
    assert fresh.take(20, 40, 100, 1)[1] == 30
    runs, position = fresh.take(30, 40, 100, 10_000)
    assert (positions(runs), position) == (list(range(30, 40)), 40)
    assert fresh.take(40, 40, 100, 10_000) == ([], 40)


def test_a_reader_may_come_from_behind_its_beginning() -> None:
    """In the middle of a run as well."""
    fresh = Fresh(0)
    fresh.add(logged(0, 10))
    fresh.add(logged(10, 10))
    fresh.add(logged(20, 10))
    assert positions(fresh.take(14, 30, 100, 10_000)[0]) == list(range(14, 30))


@given(
    lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=20),
    limit=st.integers(0, 8),
    piece=st.integers(1, 12),
    takes=st.lists(st.booleans(), max_size=20),
)
def test_from_its_beginning_on_nothing_is_missing(
    lengths: list[tuple[int, int]], limit: int, piece: int, takes: list[bool]
) -> None:
    """Whatever was taken and dropped when: what a reader gets is what the log has from where it was."""
    fresh, end, position = Fresh(0, limit * (RUN_WEIGHT + 40)), 0, 0
    listed: list[int] = []
    for (gap, length), taken in zip(lengths, takes + [True] * len(lengths), strict=False):
        fresh.add(logged(end + gap, length))
        listed += range(end + gap, end + gap + length)
        end += gap + length
        if taken:
            # As the reader of the log would.
            position = max(position, fresh.begin)
            before = position
            runs, position = fresh.take(position, end, piece, 10_000)
            assert positions(runs) == [number for number in listed if before <= number < position]
            assert position > before or before == end
