"""The form of the packet case tables: bytes, the value they mean or the error they are, and why.

Bytes are written as a picture of tokens::

    30 0a        hex
    *            the remaining length of everything behind it
    'abc'        a string with its two bytes of length; "abc" without
    ( 26 … )     a property block: its length, and what stands between the brackets

The tables are shared: codec, broker and wire tests loop over them, and no layer invents bytes of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from iot_mqtt.codec import MAX_PACKET_SIZE, Packet, Role
from iot_mqtt.errors import ReasonCode
from iot_mqtt.values import ProtocolVersion

V31, V311, V5 = ProtocolVersion.V31, ProtocolVersion.V311, ProtocolVersion.V5
THREE = (V31, V311)
FIVE = (V5,)
ALL = (V31, V311, V5)

_TOKEN = re.compile(r"""'[^']*'|"[^"]*"|[()*]|[0-9a-fA-F]+""")


@dataclass(frozen=True, slots=True)
class Case:
    """One row: exactly one of ``value`` and ``error`` is set."""

    description: str
    version: ProtocolVersion
    role: Role
    wire: bytes
    value: Packet | None = None
    error: ReasonCode | None = None
    #: Whether writing the value gives these bytes; not so where there are several forms.
    canonical: bool = True
    #: Whether the connection is still before its first packet.
    first: bool = False
    limit: int = MAX_PACKET_SIZE

    def __str__(self) -> str:
        return f"{self.version.name} {self.description}"


def varint(value: int) -> bytes:
    """A variable byte integer, written here again so that the codec is not checked against itself."""
    out = b""
    while value > 127:
        out += bytes((value % 128 + 128,))
        value //= 128
    return out + bytes((value,))


def picture(text: str) -> bytes:
    """The bytes of a picture."""
    tokens: list[str] = _TOKEN.findall(text)
    return _build(iter(tokens))


def _build(tokens: Iterator[str]) -> bytes:
    out = b""
    for token in tokens:
        if token == ")":
            return out
        if token == "(":
            block = _build(tokens)
            out += varint(len(block)) + block
        elif token == "*":
            rest = _build(tokens)
            return out + varint(len(rest)) + rest
        elif token[0] in "'\"":
            raw = token[1:-1].encode()
            out += len(raw).to_bytes(2, "big") + raw if token[0] == "'" else raw
        else:
            out += bytes.fromhex(token)
    return out


def good(
    description: str,
    versions: Iterable[ProtocolVersion],
    wire: str,
    value: Packet,
    *,
    role: Role = Role.SERVER,
    canonical: bool = True,
    first: bool = False,
) -> list[Case]:
    """Bytes that mean a value, in each of the versions."""
    raw = picture(wire)
    return [Case(description, one, role, raw, value, canonical=canonical, first=first) for one in versions]


def bad(
    description: str,
    versions: Iterable[ProtocolVersion],
    wire: str,
    error: ReasonCode,
    *,
    role: Role = Role.SERVER,
    first: bool = False,
    limit: int = MAX_PACKET_SIZE,
) -> list[Case]:
    """Bytes that are an error, in each of the versions."""
    raw = picture(wire)
    return [Case(description, one, role, raw, error=error, first=first, limit=limit) for one in versions]


def rows(*groups: list[Case]) -> tuple[Case, ...]:
    """A table."""
    return tuple(case for group in groups for case in group)
