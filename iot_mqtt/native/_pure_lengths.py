"""The lengths in packets: of the variable form that MQTT has for them, read and written."""

from __future__ import annotations


def long_length(data: bytes, at: int, end: int, shortest: int) -> tuple[int, int]:
    """(remaining length, where the body starts); the length is -1 if it is cut off or wrong."""
    size = shift = 0
    for index in range(at, min(at + 4, end)):
        byte = data[index]
        size |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte and shortest:
                break
            return size, index + 1
        shift += 7
    return -1, at


def block_length(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(length of the property block, where it ends); it ends behind ``stop`` if that is wrong."""
    if at < stop and data[at] < 128:
        return data[at], at + 1 + data[at]
    length, start = long_length(data, at, stop, 1)
    return (length, start + length) if length >= 0 else (0, stop + 1)


def body(wire: bytes | bytearray, at: int) -> tuple[int, int]:
    """(start of the body, its end) of the packet at ``at``."""
    size = wire[at + 1]
    at += 2
    if size > 127:
        size &= 127
        shift = 7
        while True:
            byte = wire[at]
            at += 1
            size |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
    return at, at + size


def varint(value: int) -> bytes:
    """A remaining length."""
    if value < 128:
        return value.to_bytes(1, "big")
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    if value > 268_435_455:
        raise ValueError(f"a packet of {value} bytes is too long")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
