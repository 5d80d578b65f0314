"""User properties of a packet that was read: a packet may have any number, and hardly anybody asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from iot_mqtt import native
from iot_mqtt.codec.wire import Reader


class Pairs(Sequence[tuple[str, str]]):
    """Names and values in their order, made of the bytes whenever somebody asks; equal to a tuple of them."""

    __slots__ = ("_count", "raw")

    def __init__(self, raw: bytes, count: int) -> None:
        #: As they came, each behind its identifier; ``native.pairs`` took them.
        self.raw = raw
        self._count = count

    def named(self, name: str) -> list[str]:
        """The values under a name."""
        return native.values(self.raw, name.encode())

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, str]]:
        reader = Reader(self.raw)
        while reader.left:
            reader.byte()
            yield reader.text(), reader.text()

    @overload
    def __getitem__(self, index: int) -> tuple[str, str]: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[str, str], ...]: ...
    def __getitem__(self, index: int | slice) -> tuple[str, str] | tuple[tuple[str, str], ...]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        if type(other) is Pairs:
            return self.raw == other.raw
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{self._count} user properties>"


def joined(runs: Sequence[Pairs]) -> Pairs:
    """What stands in several places of a packet, as one."""
    return runs[0] if len(runs) == 1 else Pairs(b"".join([run.raw for run in runs]), sum(map(len, runs)))
