"""How the last life of a node ended, as the grid has it: so a node that was stopped is told from one that is gone.

    left/<n>      boot (8) │ milliseconds since 1970 (8) │ how (1)       in META; the version in front

A node that stops in order notes that before it leaves the list. Of a life that has no note when it is fenced, whoever
fenced it notes that it is gone. So a note is there once for each life, and the first one stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from iot_mqtt.cluster.roster import Life
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.cluster_status import Ending
from iot_mqtt.ports.grid import CacheName, Grid

VERSION: Final = 0x10
_PREFIX: Final = b"left/"
_NOTE: Final = Struct(">BQQB")
_HOW: Final = {1: Ending.STOPPED, 2: Ending.GONE}
_CODES: Final = {how: code for code, how in _HOW.items()}
#: Numbers are one byte.
_MOST: Final = 256
_ATTEMPTS: Final = 100


class Note(NamedTuple):
    """How a life ended."""

    boot: int
    #: Wall-clock seconds.
    at: float
    how: Ending


async def note(grid: Grid, life: Life, how: Ending, at: float) -> None:
    """Unless there is one of that life, or of a later one."""
    key = _key(life.number)
    record = _NOTE.pack(VERSION, life.boot, int(at * 1000), _CODES[how])
    for _ in range(_ATTEMPTS):
        present = await grid.get(CacheName.META, key)
        before = None if present is None else _read(present)
        if before is not None and before.boot >= life.boot:
            return
        if await grid.compare_and_set(CacheName.META, key, present, record):
            return
    raise Unavailable("the grid does not take the note of how a node ended")


async def notes(grid: Grid) -> Mapping[int, Note]:
    """By number."""
    pairs = await grid.page(CacheName.META, _PREFIX, None, _MOST)
    read = {int(key[len(_PREFIX) :]): _read(value) for key, value in pairs}
    return {number: one for number, one in read.items() if one is not None}


def _key(number: int) -> bytes:
    return _PREFIX + b"%03d" % number


def _read(record: bytes) -> Note | None:
    """None: a later version has written it, and says something that this one does not know."""
    if len(record) < _NOTE.size or record[0] >> 4 != VERSION >> 4:
        return None
    _, boot, at, code = _NOTE.unpack_from(record)
    how = _HOW.get(code)
    return None if how is None else Note(boot, at / 1000, how)
