"""What a fuzz target is, and what several of them need.

A target is one small function, bytes → None. It reads the bytes with one part of the product and raises what must not
be: an error that the part does not promise, two twins that differ, something that was read and cannot be written again.
Its first bytes may choose among settings; all of it is decided by its bytes, so each input is a case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

#: Streams up to this are cut in two at every byte; longer ones byte by byte, up to the second, and at a few places.
EVERY_CUT = 24
BYTE_BY_BYTE = 128


@dataclass(frozen=True, slots=True)
class Target:
    """One part of the product under fuzzing."""

    name: str
    run: Callable[[bytes], None]
    #: Where the search begins, beside the corpus: what the tests' own tables have.
    seeds: Callable[[], Iterable[bytes]]
    #: Words that are worth trying.
    words: tuple[bytes, ...] = ()
    #: Bytes of an input, at most.
    longest: int = 1024
    #: Mutated inputs that a run of the tests tries: about two seconds.
    fresh: int = 2000


def ways(stream: bytes, how: int) -> Iterator[list[bytes]]:
    """Ways in which the bytes may arrive; ``how`` chooses some of them. The first one is all at once."""
    size = len(stream)
    yield [stream]
    if size < 2:
        return
    if size <= BYTE_BY_BYTE:
        yield [stream[at : at + 1] for at in range(size)]
    if size <= EVERY_CUT:
        for at in range(1, size):
            yield [stream[:at], stream[at:]]
        return
    first, second = sorted((1 + how % (size - 1), 1 + how * 7919 % (size - 1)))
    yield [stream[:first], stream[first:second], stream[second:]]


def head(data: bytes, size: int) -> tuple[bytes, bytes]:
    """So many bytes that choose, zeros where there are none, and the rest."""
    return data[:size].ljust(size, b"\0"), data[size:]
