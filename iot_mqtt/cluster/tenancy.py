"""One process at a time as a node: whoever comes with its name from another place asks whether it is there still.

::

    newcomer   asks/<n> = its place ──▶ waits ──▶ nobody has answered: it is the node now
    node       looks every few seconds ──▶ asks/<n> = its own place, as the answer ──▶ the newcomer is refused

Two entries of META for each number: ``runs/<n>`` with the place of its last start, and ``asks/<n>``. A place is a data
directory, known by a text in it that no other has. From the same one nobody asks, because one process at a time is in
it: a node that was killed is back at once. A node that stopped in order has taken its entry away.

Without this each of two such processes would fence the other, in turns and for ever: a directory that was copied, a
``node.id`` that was given twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from iot_mqtt.cluster.joining import NoNumber
from iot_mqtt.ports.grid import CacheName, Grid

VERSION: Final = 0x10
_WANTED, _ANSWERED = 1, 2
#: Seconds between two looks of who has asked.
LOOK_SECONDS: Final = 1.0


class Premises(NamedTuple):
    """Where a node runs."""

    #: Of its data directory, and of no other.
    id: str
    #: For people: machine and directory.
    words: str


class Tenancy:
    """Of one process."""

    def __init__(self, grid: Grid, here: Premises, patience: float, wait: Callable[[float], Awaitable[object]]) -> None:
        """``patience``: seconds within which a node that is there answers."""
        self._grid = grid
        self._here = here
        self._patience = patience
        self._wait = wait

    async def ask(self, number: int) -> None:
        """``NoNumber`` if another process is this node, and still there."""
        last = _read(await self._grid.get(CacheName.META, _runs(number)))
        if last is None or last.place.id == self._here.id:
            return
        await self._put(_asks(number), _write(_WANTED, self._here))
        try:
            waited = 0.0
            while waited < self._patience:
                await self._wait(LOOK_SECONDS)
                waited += LOOK_SECONDS
                said = _read(await self._grid.get(CacheName.META, _asks(number)))
                if said is not None and said.kind == _ANSWERED:
                    raise NoNumber(
                        f"this node.id is of a node that runs in {said.place.words}, and has answered just now: every "
                        "node needs a node.id of its own"
                    )
        finally:
            await self._put(_asks(number), None)

    async def answer(self, number: int) -> str | None:
        """Say that this process is the node; returns who has asked, if somebody has."""
        asked = await self._grid.get(CacheName.META, _asks(number))
        said = _read(asked)
        if said is None or said.kind != _WANTED or said.place.id == self._here.id:
            return None
        answered = await self._grid.compare_and_set(CacheName.META, _asks(number), asked, _write(_ANSWERED, self._here))
        return said.place.words if answered else None

    async def begin(self, number: int) -> None:
        """This process is the node from now on."""
        await self._put(_runs(number), _write(_WANTED, self._here))

    async def leave(self, number: int) -> None:
        """Nobody is, unless somebody has begun meanwhile."""
        mine = _write(_WANTED, self._here)
        await self._grid.compare_and_set(CacheName.META, _runs(number), mine, None)

    async def _put(self, key: bytes, value: bytes | None) -> None:
        present = await self._grid.get(CacheName.META, key)
        while present != value and not await self._grid.compare_and_set(CacheName.META, key, present, value):
            present = await self._grid.get(CacheName.META, key)


class _Entry(NamedTuple):
    kind: int
    place: Premises


def _runs(number: int) -> bytes:
    return b"runs/%03d" % number


def _asks(number: int) -> bytes:
    return b"asks/%03d" % number


def _write(kind: int, place: Premises) -> bytes:
    return bytes((VERSION, kind)) + f"{place.id}\n{place.words}".encode(errors="replace")


def _read(record: bytes | None) -> _Entry | None:
    """None: there is none, or a later version has written it, which knows what it does."""
    if record is None or len(record) < 2 or record[0] >> 4 != VERSION >> 4:
        return None
    id, _, words = record[2:].decode(errors="replace").partition("\n")
    return _Entry(record[1], Premises(id, words))
