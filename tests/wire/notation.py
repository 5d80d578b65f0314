"""The notation of the wire cases: packets as they are written in `cases/*.yaml`.

One packet is a line of tokens, separated by blanks::

    10 [ s"MQTT" 05 02 003c p s"{id}" ]

    ff 0a0b      bytes in hexadecimal, any even number of digits
    "text"       the bytes of the text in UTF-8
    s"text"      a UTF-8 Encoded String: two bytes of length, then the text
    ( ... )      two bytes of length, then the inside; for strings that are not text
    [ ... ]      the length of the inside as a Variable Byte Integer, then the inside
    n v          the protocol's name as a string, and its level
    p            an empty property block in version 5, nothing before
    5{ ... }     the inside in version 5, nothing before;  3{ ... } the other way round
    61^65535     the bytes before ^, that many times
    {id} {t}     inside quotes: a client id and a topic that belong to this run of the case; {a} {b} ... others

In what is expected also::

    *            any one byte
    ...          anything up to the end of the enclosing [ ] or of the packet
    p?           any property block in version 5, nothing before
    ok           the end of an acknowledgement that reports success: nothing, 00, or 00 and properties
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .packets import varint

_TOKEN = re.compile(
    r"""\s*(?:(?P<open>[35]\{|\[|\()|(?:(?P<text>s?"[^"]*")|(?P<close>[\])}])|(?P<word>\.\.\.|\*|p\?|p|ok|v|n)"""
    r"""|(?P<hex>(?:[0-9a-fA-F]{2})+)(?:\^(?P<times>\d+))?)(?=\s|$|[\])}]))"""
)


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are."""

    value: bytes


@dataclass(frozen=True, slots=True)
class Any:
    """`*`, `...`, `p?` or `ok`."""

    word: str


@dataclass(frozen=True, slots=True)
class Sized:
    """A bracket: its length, then its inside."""

    bracket: str
    inside: tuple[Node, ...]


Node = Raw | Any | Sized


def read(line: str, version: int, name: Callable[[str], str]) -> tuple[Node, ...]:
    """Parse one packet; ``name`` gives the values of {names}."""
    nodes, at = _read(line.strip(), 0, version, name, "")
    if at != len(line.strip()):
        raise ValueError(f"unbalanced bracket in {line!r}")
    return nodes


def _read(line: str, at: int, version: int, name: Callable[[str], str], until: str) -> tuple[tuple[Node, ...], int]:
    nodes: list[Node] = []
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None:
            raise ValueError(f"cannot read {line[at : at + 20]!r} in {line!r}")
        at = token.end()
        if token["close"]:
            if token["close"] != until:
                raise ValueError(f"unbalanced bracket in {line!r}")
            return tuple(nodes), at
        if token["open"]:
            inside, at = _read(line, at, version, name, {"[": "]", "(": ")"}.get(token["open"], "}"))
            if token["open"] in "[(":
                nodes.append(Sized(token["open"], inside))
            elif (token["open"] == "5{") == (version == 5):
                nodes.extend(inside)
        else:
            nodes.extend(_plain(token, version, name))
    if until:
        raise ValueError(f"{until} is missing in {line!r}")
    return tuple(nodes), at


def _plain(token: re.Match[str], version: int, name: Callable[[str], str]) -> list[Node]:
    if token["text"]:
        quoted = token["text"].removeprefix("s")[1:-1]
        value = re.sub(r"\{(\w+)\}", lambda found: name(found[1]), quoted).encode()
        return [Raw((len(value).to_bytes(2, "big") if token["text"][0] == "s" else b"") + value)]
    if token["hex"]:
        return [Raw(bytes.fromhex(token["hex"]) * int(token["times"] or 1))]
    if token["word"] == "v":
        return [Raw(bytes([version]))]
    if token["word"] == "n":
        return [Raw(b"\0\x06MQIsdp" if version == 3 else b"\0\x04MQTT")]
    if token["word"] == "p":
        return [Raw(b"\0")] if version == 5 else []
    if token["word"] == "p?":
        return [Any("p?")] if version == 5 else []
    return [Any(token["word"])]


def build(nodes: tuple[Node, ...]) -> bytes:
    """The bytes to send."""
    out = b""
    for node in nodes:
        if isinstance(node, Raw):
            out += node.value
        elif isinstance(node, Sized):
            inside = build(node.inside)
            out += (varint(len(inside)) if node.bracket == "[" else len(inside).to_bytes(2, "big")) + inside
        else:
            raise ValueError(f"{node.word!r} has a place in what is expected only")
    return out


def matches(nodes: tuple[Node, ...], data: bytes) -> bool:
    """True when the whole of ``data`` is what the nodes describe."""
    at = 0
    for node in nodes:
        if isinstance(node, Raw):
            if not data.startswith(node.value, at):
                return False
            at += len(node.value)
        elif isinstance(node, Sized):
            inside, at = _sized(node.bracket, data, at)
            if inside is None or not matches(node.inside, inside):
                return False
        elif node.word == "...":
            return True
        elif node.word == "ok":
            return at == len(data) or (
                data[at] == 0 and (at + 1 == len(data) or _sized("[", data, at + 1)[1] == len(data))
            )
        elif node.word == "p?":
            inside, at = _sized("[", data, at)
            if inside is None:
                return False
        else:
            at += 1
    return at == len(data)


def _sized(bracket: str, data: bytes, at: int) -> tuple[bytes | None, int]:
    """The inside of a length-prefixed field and where it ends; None when the data is too short."""
    length = 0
    if bracket == "(":
        length, at = int.from_bytes(data[at : at + 2], "big"), at + 2
    else:
        for shift in (0, 7, 14, 21):
            if at >= len(data):
                return None, at
            length |= (data[at] & 0x7F) << shift
            at += 1
            if data[at - 1] < 0x80:
                break
    if at + length > len(data):
        return None, at
    return data[at : at + length], at + length
