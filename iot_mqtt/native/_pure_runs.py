"""The pure-Python twin of the part of ``_scan.pyx`` that writes packets, and runs of them anew.

The bytes of runs that exist already are known to be correct.
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.native._pure_lengths import block_length, body, varint


def payloads(wire: bytes, count: int, prefix: int) -> list[bytes]:
    """The payloads of ``count`` packets whose bodies have ``prefix`` bytes in front of them."""
    found = []
    stop = 0
    for _ in range(count):
        start, stop = body(wire, stop)
        found.append(wire[start + prefix : stop])
    return found


def locate(wire: bytes, start: int, stop: int) -> tuple[int, int, int]:
    """(begin, end, longest packet) of packets ``start`` to ``stop``."""
    at = begin = longest = 0
    for index in range(stop):
        if index == start:
            begin = at
        after = body(wire, at)[1]
        if index >= start and after - at > longest:
            longest = after - at
        at = after
    return begin, at, longest


def patch(wire: bytes, count: int, offset: int, head: int, ids: Sequence[int]) -> bytes:
    """A copy of the packets with another first byte and, ``offset`` bytes into each body, these ids."""
    out = bytearray(wire)
    at = 0
    for index in range(count):
        out[at] = head
        start, at = body(wire, at)
        if ids:
            out[start + offset : start + offset + 2] = ids[index].to_bytes(2, "big")
    return bytes(out)


def recode(wire: bytes, count: int, prefix: int, head: int, before: bytes, after: bytes, ids: Sequence[int]) -> bytes:
    """The payloads again behind another head: ``before`` the id comes the topic, ``after`` it the v5 block."""
    out: list[bytes] = []
    first = bytes((head,))
    extra = len(before) + len(after) + (2 if ids else 0)
    for index, payload in enumerate(payloads(wire, count, prefix)):
        if ids:
            out += (first, varint(extra + len(payload)), before, ids[index].to_bytes(2, "big"), after, payload)
        else:
            out += (first, varint(extra + len(payload)), before, after, payload)
    return b"".join(out)


def rewrite(
    data: bytes, at: int, count: int, five: bool, head: int, to_five: bool, identifiers: bytes, ids: Sequence[int]
) -> bytes:
    """Packets of any topics, from ``at`` on, behind another first byte. Where both are of version 5 their properties
    stay, behind the ``identifiers``.
    """
    had_ids = count and data[at] & 6
    out: list[bytes] = []
    first = bytes((head,))
    for index in range(count):
        start, at = body(data, at)
        behind = start + 2 + (data[start] << 8 | data[start + 1])
        block = behind + (2 if had_ids else 0)
        length, payload = block_length(data, block, at) if five else (0, block)
        where = ids[index].to_bytes(2, "big") if ids else b""
        properties = identifiers + data[payload - length : payload] if to_five else b""
        size = varint(len(properties)) if to_five else b""
        after = len(where) + len(size) + len(properties)
        out += (first, varint(behind - start + after + at - payload), data[start:behind], where, size, properties)
        out.append(data[payload:at])
    return b"".join(out)


def acks(first: int, ids: Sequence[int]) -> bytes:
    """Acknowledgements in the short form, one for each id."""
    head = bytes((first, 2))
    return b"".join([head + packet_id.to_bytes(2, "big") for packet_id in ids])


def publish(head: int, topic: bytes, packet_id: int, block: bytes, payload: bytes) -> bytes:
    """One PUBLISH; ``block`` is the property block with its length, or empty in 3.x."""
    size = 2 + len(topic) + len(block) + len(payload)
    if len(topic) > 0xFFFF:
        raise ValueError(f"a topic of {len(topic)} bytes is too long")
    length = len(topic).to_bytes(2, "big")
    if head & 6:
        where = packet_id.to_bytes(2, "big")
        return b"".join((bytes((head,)), varint(size + 2), length, topic, where, block, payload))
    return b"".join((bytes((head,)), varint(size), length, topic, block, payload))
