"""A node's number and boot, given out by compare-and-set in cache META of the grid that all nodes share.

    node/<node id>   number (1)                            the first start of a node
    number/<n>       boot (8) │ cleaned (8) │ node id      every start; ``cleaned``: the last boot that left nothing.
                                                           No node id: the node was removed
    boot             the greatest boot number (8)          every start of any node

Each record has its version in front. A number is kept for ever: a node's log and what it keeps are known by it. So the
number of a node that was removed goes to the next new node together with that log, which it continues as if it were a
later life of the removed one; positions in it mean what they meant. A boot is greater than that of every earlier start
of any node, so that of two processes with one node id the later one wins.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from iot_mqtt.cluster.fencing import SharedGrid
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster_status import NotGone
from iot_mqtt.ports.grid import CacheName, Grid

VERSION: Final = 0x10
#: Numbers are one byte in keys and positions; 0 is the sole node of an embedded grid.
MOST_NODES: Final = 255
#: Bytes of a node id.
LONGEST_NAME: Final = 200
#: Others who join at the same moment make a compare-and-set fail; so many in a row are no coincidence.
_ATTEMPTS: Final = 1_000

_BOOT_KEY: Final = b"boot"
_NUMBER: Final = Struct(">BB")
_BOOT: Final = Struct(">BQ")
_KNOWN: Final = Struct(">BQQ")


class NoNumber(Exception):
    """This node cannot be one of the cluster; the text says why and what to do."""


class Place(NamedTuple):
    """Who a process is among the nodes, for as long as it lives."""

    node_id: str
    number: int
    boot: int


class Known(NamedTuple):
    """A node that has been there at some time."""

    number: int
    node_id: str
    #: Of its last start.
    boot: int
    #: Nothing is left of the lives up to this boot: their sessions have other homes, what they wanted is removed.
    cleaned: int


async def _anybody(_number: int) -> None:
    """Whoever has the name is the node."""


async def join(grid: Grid, node_id: str, admit: Callable[[int], Awaitable[None]] = _anybody) -> Place:
    """The number that this node has, or the lowest one that is free, and the next boot. ``admit``, told the number,
    raises ``NoNumber`` if this process is not to be that node.
    """
    place = None
    while place is None:
        place = await _join(grid, node_id, admit)
    return place


async def _join(grid: Grid, node_id: str, admit: Callable[[int], Awaitable[None]]) -> Place | None:
    """None: the node was removed at this moment, and is a new one."""
    size = len(node_id.encode())
    if not 0 < size <= LONGEST_NAME:
        raise NoNumber(f"node.id {node_id!r} has {size} bytes; 1 to {LONGEST_NAME} are allowed")
    number = await _number_of(grid, node_id)
    await admit(number)
    boot = await _next_boot(grid)
    key = _number_key(number)
    for _ in range(_ATTEMPTS):
        record = await grid.get(CacheName.META, key)
        known = _read(number, record) if record is not None else Known(number, node_id, 0, 0)
        if known.node_id != node_id:
            return None
        if known.boot > boot:
            # Another process with this node id was faster with a later boot: it is its turn, not ours.
            raise NoNumber(f"another process has just started as {node_id!r}; every node needs a node.id of its own")
        if await grid.compare_and_set(CacheName.META, key, record, _write(known._replace(boot=boot))):
            return Place(node_id, number, boot)
    raise Unavailable("the grid takes no entry for this node")


async def enter(grid: SharedGrid, node_id: str, admit: Callable[[int], Awaitable[None]] = _anybody) -> Place:
    """Join; from when this returns no earlier life of this node writes any more, and this one does. What such a life
    was writing when it ended is whole.
    """
    place = await join(grid, node_id, admit)
    if place.boot > 1:
        await grid.fence(place.number, place.boot - 1)
    await grid.identify(place.number, place.boot)
    if place.boot > 1:
        await grid.finish(place.number, place.boot - 1)
    return place


async def known_nodes(grid: Grid) -> list[Known]:
    """Every node that ever joined, by number."""
    pairs = await grid.page(CacheName.META, b"number/", None, MOST_NODES + 1)
    return [_read(int(key[len(b"number/") :]), value) for key, value in pairs]


async def note_cleaned(grid: Grid, number: int, boot: int) -> None:
    """Nothing is left of a node's lives up to this boot."""
    key = _number_key(number)
    for _ in range(_ATTEMPTS):
        record = await grid.get(CacheName.META, key)
        if record is None:
            return
        known = _read(number, record)
        if known.cleaned >= boot:
            return
        if await grid.compare_and_set(CacheName.META, key, record, _write(known._replace(cleaned=boot))):
            return
    raise Unavailable("the grid does not take the note that a node is cleaned up after")


async def remove(grid: Grid, known: Known) -> None:
    """Give the number of a node that will not come back to the next new one. Raises ``NotGone``."""
    if known.cleaned < known.boot:
        raise NotGone(f"{known.node_id} has left sessions that no other node has taken over yet: wait for that")
    key = _number_key(known.number)
    record = await grid.get(CacheName.META, key)
    unchanged = record is not None and _read(known.number, record) == known
    # Its own entry last: what an interruption leaves is a node that starts anew, and finds no number.
    if unchanged and await grid.compare_and_set(CacheName.META, key, record, _write(known._replace(node_id=""))):
        await _forget(grid, known)
        return
    raise NotGone(f"{known.node_id} has just started, or was removed by somebody else")


async def _forget(grid: Grid, known: Known) -> None:
    """The node's own entry, unless it is another number's already."""
    key = b"node/" + known.node_id.encode()
    await grid.compare_and_set(CacheName.META, key, _NUMBER.pack(VERSION, known.number), None)


async def _number_of(grid: Grid, node_id: str) -> int:
    key = b"node/" + node_id.encode()
    for _ in range(_ATTEMPTS):
        record = await grid.get(CacheName.META, key)
        known = await known_nodes(grid)
        # A start that was interrupted may have left a number without the node's own entry.
        mine = [one for one in known if one.node_id == node_id]
        if record is not None:
            number = _unpack(_NUMBER, record)[1]
            if all(one.node_id == node_id for one in known if one.number == number):
                return number
            # It was removed, and that was interrupted; somebody else may have the number by now.
            await grid.compare_and_set(CacheName.META, key, record, None)
        elif mine:
            await grid.compare_and_set(CacheName.META, key, None, _NUMBER.pack(VERSION, mine[0].number))
        else:
            await _take_free(grid, known, node_id)
    raise Unavailable("the grid gives out no number for this node")


async def _take_free(grid: Grid, known: Sequence[Known], node_id: str) -> None:
    """The number of a node that was removed, or one that nobody had; unless somebody is faster."""
    free = next((one for one in known if not one.node_id and one.number), None)
    before = None if free is None else _write(free)
    claimed = Known(_lowest_free(known), node_id, 0, 0) if free is None else free._replace(node_id=node_id)
    if await grid.compare_and_set(CacheName.META, _number_key(claimed.number), before, _write(claimed)):
        key = b"node/" + node_id.encode()
        await grid.compare_and_set(CacheName.META, key, None, _NUMBER.pack(VERSION, claimed.number))


def _lowest_free(known: Sequence[Known]) -> int:
    taken = {one.number for one in known}
    for number in range(1, MOST_NODES + 1):
        if number not in taken:
            return number
    raise NoNumber(
        f"all {MOST_NODES} node numbers are taken: remove a node that is gone for ever (iot-mqtt ctl cluster remove), "
        "or give this node its node.id"
    )


async def _next_boot(grid: Grid) -> int:
    for _ in range(_ATTEMPTS):
        record = await grid.get(CacheName.META, _BOOT_KEY)
        boot = 1 if record is None else _unpack(_BOOT, record)[1] + 1
        if await grid.compare_and_set(CacheName.META, _BOOT_KEY, record, _BOOT.pack(VERSION, boot)):
            return boot
    raise Unavailable("the grid gives out no boot number")


def known_record(known: Known) -> tuple[CacheName, bytes, bytes]:
    """The entry of META that says so."""
    return CacheName.META, _number_key(known.number), _write(known)


def boot_record(boot: int) -> tuple[CacheName, bytes, bytes]:
    """The entry of META by which boots go on behind this one."""
    return CacheName.META, _BOOT_KEY, _BOOT.pack(VERSION, boot)


def _number_key(number: int) -> bytes:
    return b"number/%03d" % number


def _write(known: Known) -> bytes:
    return _KNOWN.pack(VERSION, known.boot, known.cleaned) + known.node_id.encode()


def _read(number: int, record: bytes) -> Known:
    _, boot, cleaned = _unpack(_KNOWN, record)
    return Known(number, record[_KNOWN.size :].decode(errors="replace"), boot, cleaned)


def _unpack(layout: Struct, record: bytes) -> tuple[int, ...]:
    try:
        fields = layout.unpack_from(record)
    except error as cut:
        raise NoNumber("a record of META is cut short; it was not written by this program") from cut
    if fields[0] >> 4 != VERSION >> 4:
        raise NoNumber(f"META has a record of format {fields[0] >> 4}; this version reads 1: run a later one")
    return fields
