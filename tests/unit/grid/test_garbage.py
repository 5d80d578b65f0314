"""Which tables are merged next, so that removed entries give back their room in steps."""

from __future__ import annotations

import pytest

from iot_mqtt.grid.garbage import END, STEP, Table, next_range

MIB = 1 << 20
#: The cache of the log, and the first key of the one behind it.
LOG, BEHIND = b"\x0c", b"\x0d"


def all_ranges(found: list[Table]) -> list[tuple[bytes, bytes]]:
    """Of one pass, if merging changed nothing; ten at most."""
    ranges: list[tuple[bytes, bytes]] = []
    after = b""
    while (keys := next_range(found, after)) is not None and len(ranges) < 10:
        ranges.append(keys)
        after = keys[1]
    return ranges


def deepest(*keys: bytes, size: int = STEP) -> list[Table]:
    """Tables of the deepest level that begin with these keys, and end in front of the next one."""
    return [Table(6, size, key, key + b"\xfe") for key in keys]


@pytest.mark.parametrize(
    ("found", "ranges"),
    [
        ([], []),
        (deepest(b"\x02", b"\x06"), []),
        ([Table(0, MIB, b"\x00", b"\x17")], []),
        ([Table(0, MIB, b"\x00", b"\x06a"), Table(0, MIB, b"\x00", b"\x06b")], [(b"\x00", LOG), (BEHIND, END)]),
    ],
    ids=["empty", "all at one level", "one table", "tables that lie above each other"],
)
def test_what_lies_above_nothing_stays_as_it_is(found: list[Table], ranges: list[tuple[bytes, bytes]]) -> None:
    """There is nothing to win; tables of level 0 may hold several values of a key."""
    assert all_ranges(found)[:1] == ranges[:1]


def test_a_step_ends_with_a_table_of_the_deepest_level() -> None:
    """Commits wait for a step: none merges much more than it must."""
    newer = Table(5, MIB, b"\x02", b"\x06\xff")
    assert all_ranges([newer, *deepest(b"\x02", b"\x04", b"\x06")]) == [
        (b"\x02", b"\x02\xfe"),
        (b"\x02\xfe", b"\x04\xfe"),
        (b"\x04\xfe", b"\x06\xfe"),
        (b"\x06\xfe", LOG),
    ]


def test_what_nothing_newer_stands_for_is_passed_over() -> None:
    """A pass begins where there may be something to win, and ends behind it."""
    newer = Table(5, MIB, b"\x06", b"\x06\x10")
    assert all_ranges([newer, *deepest(b"\x02", b"\x04", b"\x06", b"\x10")]) == [(b"\x06", b"\x06\xfe")]


def test_messages_of_the_log_are_left_out() -> None:
    """They are most of a large disk, and their room comes back when a generation goes."""
    newer = Table(5, MIB, b"\x06", b"\x10\xff")
    found = all_ranges([newer, *deepest(b"\x06", b"\x0c1", b"\x0c5", b"\x10")])
    assert found == [(b"\x06", b"\x06\xfe"), (b"\x06\xfe", LOG), (BEHIND, b"\x10\xfe"), (b"\x10\xfe", END)]
