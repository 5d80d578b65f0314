"""Terms of Erlang as it writes them (External Term Format), those of which data is made, and files of such terms.

::

    term    131 | tag 1 | …        numbers, atoms, tuples, lists, binaries, maps; big-endian
    file    01 02 03 04 | 4 | item…
    item    length of the term 4 | "bWLA" | MD5 of the length 16, where the term has 65,528 bytes or more | term

A file is what ``disk_log`` writes, and the backup of a table of Mnesia is one: a head, the table's schema, its rows.
Atoms are ``Atom``, which is a text; binaries are bytes; a list of small numbers, which Erlang writes as a string, is
one of numbers again. Functions, pids, ports, references and what is compressed are refused: no table of data needs
them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

_VERSION: Final = 131
_HEAD: Final = b"\x01\x02\x03\x04"
_CLOSED: Final = b"cXM\x0b"
_ITEM: Final = b"bWLA"
_SUMMED: Final = 65_528
_DEEPEST: Final = 64
#: Bytes of a number.
_LARGEST: Final = 64
_DOUBLE: Final = struct.Struct(">d")


class Atom(str):
    """A name."""

    __slots__ = ()


class BadTerm(ValueError):
    """The bytes are no term that is read here."""


def read_term(data: bytes) -> Any:
    """The only term of ``data``; raises ``BadTerm``."""
    reader = _Reader(data)
    try:
        if reader.number(1) != _VERSION:
            raise BadTerm("this is no term of Erlang")
        term = reader.term(0)
    except (struct.error, UnicodeDecodeError, TypeError) as error:
        raise BadTerm(f"a term is damaged: {error}") from error
    if reader.pos != len(data):
        raise BadTerm("a term is followed by something else")
    return term


def read_log(data: bytes) -> Iterator[Any]:
    """The terms of a file; raises ``BadTerm`` with the place where it is damaged."""
    if data[:4] != _HEAD:
        raise BadTerm("this is no log of Erlang")
    if data[4:8] != _CLOSED:
        raise BadTerm("it was not closed: it is not whole")
    pos = 8
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        begin = pos + 8 + (16 if size >= _SUMMED else 0)
        if data[pos + 4 : pos + 8] != _ITEM or begin + size > len(data):
            raise BadTerm(f"it is cut off, or damaged, at byte {pos}")
        if (
            size >= _SUMMED
            and hashlib.md5(data[pos : pos + 4], usedforsecurity=False).digest() != data[pos + 8 : begin]
        ):
            raise BadTerm(f"it is damaged at byte {pos}")
        try:
            yield read_term(data[begin : begin + size])
        except BadTerm as error:
            raise BadTerm(f"it is damaged at byte {begin}: {error}") from error
        pos = begin + size


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.pos = 0

    def take(self, size: int) -> bytes:
        begin = self.pos
        if begin + size > len(self._data):
            raise BadTerm("a term is cut off")
        self.pos = begin + size
        return self._data[begin : self.pos]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def term(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise BadTerm(f"a term is deeper than {_DEEPEST}")
        tag = self.number(1)
        read = _READERS.get(tag)
        if read is None:
            raise BadTerm(f"terms with tag {tag} are not read")
        return read(self, depth + 1)

    def terms(self, count: int, depth: int) -> list[Any]:
        # Each has a byte at least.
        if count > len(self._data) - self.pos:
            raise BadTerm("a term is cut off")
        return [self.term(depth) for _ in range(count)]


def _atom(size: int, encoding: str) -> Callable[[_Reader, int], Atom]:
    return lambda reader, _: Atom(reader.take(reader.number(size)).decode(encoding))


def _tuple(size: int) -> Callable[[_Reader, int], tuple[Any, ...]]:
    return lambda reader, depth: tuple(reader.terms(reader.number(size), depth))


def _list(reader: _Reader, depth: int) -> list[Any]:
    found = reader.terms(reader.number(4), depth)
    if reader.term(depth) != []:
        raise BadTerm("a list without an end")
    return found


def _big(reader: _Reader, _: int) -> int:
    size, negative = reader.number(1), reader.number(1)
    if size > _LARGEST:
        raise BadTerm(f"a number of {size} bytes")
    value = int.from_bytes(reader.take(size), "little")
    return -value if negative else value


def _map(reader: _Reader, depth: int) -> dict[Any, Any]:
    count = reader.number(4)
    found = reader.terms(2 * count, depth)
    return dict(zip(found[::2], found[1::2], strict=True))


_READERS: Final[dict[int, Callable[[_Reader, int], Any]]] = {
    70: lambda reader, _: _DOUBLE.unpack(reader.take(8))[0],
    97: lambda reader, _: reader.number(1),
    98: lambda reader, _: int.from_bytes(reader.take(4), "big", signed=True),
    100: _atom(2, "latin-1"),
    104: _tuple(1),
    105: _tuple(4),
    106: lambda _reader, _depth: [],
    107: lambda reader, _: list(reader.take(reader.number(2))),
    108: _list,
    109: lambda reader, _: reader.take(reader.number(4)),
    110: _big,
    115: _atom(1, "latin-1"),
    116: _map,
    118: _atom(2, "utf-8"),
    119: _atom(1, "utf-8"),
}
