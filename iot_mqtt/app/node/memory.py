"""Freed memory that the process keeps for the next large message, rather than ask the system for it each time."""

from __future__ import annotations

from typing import Final

#: Bytes of a block that malloc asks the system for by itself. It keeps twice as many free ones.
LARGE: Final = 4 * 1024 * 1024


def keep_freed() -> None:
    """Raise what malloc keeps when it is free, for the life of the process.

    As glibc begins, 128 KiB are kept: buffers of a few messages of 100 kB go back to the system after each turn, and
    come again as pages that have to be cleared, which costs more than to receive and send such a message. Its bound
    follows the largest block that was ever freed (mallopt(3), "dynamic mmap threshold"), so one is. Other libraries
    lose nothing.
    """
    bytes(LARGE)
