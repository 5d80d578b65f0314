"""The question that is asked in Ignite's thin-client protocol, as bytes: values of keys; no sockets here.

pyignite connects and carries these bytes, but does not make them: it turns every entry into Ignite's objects and
back, at some 100 µs each with the interpreter lock held, which would stop the broker whenever many are read.
All integers are little-endian. The format: https://ignite.apache.org/docs/latest/binary-client-protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from iot_mqtt.ports.grid import Pair

_REQUEST = struct.Struct("<ihq")
_RESPONSE = struct.Struct("<iqh")
_CACHE = struct.Struct("<ib")
_INT = struct.Struct("<i")
_OBJECT = struct.Struct("<bi")

_GET_ALL: Final = 1003

_STRING_TYPE: Final = 9
_BYTES_TYPE: Final = 12

#: Bits of an answer's flags.
_FAILED: Final = 1
_TOPOLOGY_CHANGED: Final = 2


class ServerError(Exception):
    """The server answered that it could not: never to be read as "nothing there"."""


class BadAnswer(Exception):
    """An answer that is not what was asked for: the connection is of no more use."""


def cache_id(name: str) -> int:
    """Java's hash of the name."""
    found = 0
    for character in name:
        found = (found * 31 + ord(character)) & 0xFFFF_FFFF
    return found - (1 << 32) if found >> 31 else found


def _request(id: int, op: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return _REQUEST.pack(len(body) + _REQUEST.size - 4, op, id) + body


def _bytes(value: bytes) -> bytes:
    return _OBJECT.pack(_BYTES_TYPE, len(value)) + value


def encode_get_all(id: int, cache: int, keys: Sequence[bytes]) -> bytes:
    return _request(id, _GET_ALL, _CACHE.pack(cache, 0), _INT.pack(len(keys)), *map(_bytes, keys))


class _Answer:
    """An answer, read from the front."""

    __slots__ = ("data", "at")

    def __init__(self, data: bytes | bytearray, id: int) -> None:
        self.data = data
        self.at = _RESPONSE.size
        try:
            _, answered, flags = _RESPONSE.unpack_from(data)
        except struct.error:
            raise BadAnswer("an answer ends early") from None
        if answered != id:
            raise BadAnswer(f"answer {answered} to request {id}")
        if flags & _TOPOLOGY_CHANGED:
            self.at += 12
        if flags & _FAILED:
            status = self.take(_INT)
            raise ServerError(f"{self._text()} (status {status})")

    def take(self, shape: struct.Struct) -> int:
        try:
            (found,) = shape.unpack_from(self.data, self.at)
        except struct.error:
            raise BadAnswer("an answer ends early") from None
        self.at += shape.size
        return int(found)

    def _text(self) -> str:
        code, length = _OBJECT.unpack_from(self.data, self.at)
        if code != _STRING_TYPE:
            return "no reason given"
        start = self.at + _OBJECT.size
        return self.data[start : start + length].decode(errors="replace").partition("\n")[0]

    def pairs(self) -> list[Pair]:
        """So many keys and values, each an array of bytes."""
        count = self.take(_INT)
        data, at, unpack, size = self.data, self.at, _OBJECT.unpack_from, _OBJECT.size
        found: list[Pair] = []
        try:
            for _ in range(count):
                code, length = unpack(data, at)
                middle = at + size + length
                other, rest = unpack(data, middle)
                if code != _BYTES_TYPE or other != _BYTES_TYPE:
                    raise BadAnswer(f"keys and values of types {code} and {other}, not bytes")
                end = middle + size + rest
                found.append((bytes(data[at + size : middle]), bytes(data[middle + size : end])))
                at = end
        except struct.error:
            raise BadAnswer("an answer ends early") from None
        if at > len(data):
            raise BadAnswer("an answer ends early")
        self.at = at
        return found


def decode_get_all(id: int, data: bytes | bytearray) -> dict[bytes, bytes]:
    """What was found; a key that is not in it is absent."""
    return dict(_Answer(data, id).pairs())
