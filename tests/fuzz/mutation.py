"""Bytes that are nearly right: a seeded mutator, for searches that have to be repeatable and need no library."""

from __future__ import annotations

import random
from collections.abc import Sequence

#: Numbers at which code changes its mind.
_EDGES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class Mutator:
    """Makes inputs of inputs; the same ``dice`` make the same ones."""

    def __init__(
        self, dice: random.Random, pool: Sequence[bytes], words: Sequence[bytes] = (), longest: int = 1024
    ) -> None:
        self._dice = dice
        self._pool = list(pool) or [b""]
        self._words = list(words)
        self._longest = longest
        self._ways = (
            self._flip, self._flip, self._set, self._drop, self._double, self._insert, self._number, self._number,
            self._word, self._splice, self._cut,
        )  # fmt: skip

    def next(self) -> bytes:
        """One of the pool with some changes."""
        dice = self._dice
        data = bytearray(dice.choice(self._pool))
        for _ in range(1 + int(dice.expovariate(0.5))):
            dice.choice(self._ways)(data)
        return bytes(data[: self._longest])

    def _at(self, data: bytearray) -> int:
        return self._dice.randrange(len(data) + 1)

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._dice.randrange(len(data))] ^= 1 << self._dice.randrange(8)

    def _set(self, data: bytearray) -> None:
        if data:
            data[self._dice.randrange(len(data))] = self._dice.choice(
                (0, 1, 0x20, 0x7F, 0x80, 0xFF, self._dice.randrange(256))
            )

    def _drop(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + self._dice.choice((1, 1, 2, 4, 16))]

    def _double(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = data[at : at + self._dice.choice((1, 2, 4, 16, 64))] * self._dice.choice((1, 1, 2, 8))

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._dice.randbytes(self._dice.choice((1, 1, 2, 4)))

    def _number(self, data: bytearray) -> None:
        size = self._dice.choice((1, 2, 4))
        if len(data) >= size:
            at = self._dice.randrange(len(data) - size + 1)
            order = self._dice.choice(("big", "big", "little"))
            before = int.from_bytes(data[at : at + size], order)  # type: ignore[arg-type]
            value = self._dice.choice(
                (before + self._dice.choice((-1, 1)), self._dice.choice(_EDGES), len(data) - at - size)
            )
            data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]

    def _word(self, data: bytearray) -> None:
        if self._words:
            word, at = self._dice.choice(self._words), self._at(data)
            data[at : at + self._dice.choice((0, len(word)))] = word

    def _splice(self, data: bytearray) -> None:
        other = self._dice.choice(self._pool)
        at, start = self._at(data), self._dice.randrange(len(other) + 1)
        data[at:] = other[start:] + (data[at:] if self._dice.random() < 0.3 else b"")

    def _cut(self, data: bytearray) -> None:
        del data[self._at(data) :]
