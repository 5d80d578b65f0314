"""Checksums against figures from elsewhere, and in their places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iot_mqtt.framing import Checksum, Fixed, Framing, LengthField, checksum_of
from iot_mqtt.framing.checksums import SIZES
from iot_mqtt.framing.declare import ChecksumKind
from tests.cases.framing import in_every_way

#: kind, data, what the catalogues of checksums (or the protocol's own document) say.
VECTORS: list[tuple[ChecksumKind, bytes, int]] = [
    ("sum8", b"123456789", 0xDD),
    ("xor8", b"123456789", 0x31),
    ("crc8", b"123456789", 0xF4),
    ("crc16-modbus", b"123456789", 0x4B37),
    ("crc16-ccitt", b"123456789", 0x29B1),
    ("crc32", b"123456789", 0xCBF43926),
    # The example of the Modbus serial line guide: 02 07, sent as 41 12.
    ("crc16-modbus", b"\x02\x07", 0x1241),
    ("crc16-modbus", bytes.fromhex("01 03 0000 000a"), 0xCDC5),
    ("sum8", b"", 0),
    ("xor8", b"", 0),
    ("crc8", b"", 0),
    ("crc16-modbus", b"", 0xFFFF),
    ("crc16-ccitt", b"", 0xFFFF),
    ("crc32", b"", 0),
    ("sum8", b"\xff" * 300, 0xD4),
    ("xor8", b"\xaa" * 301, 0xAA),
]


@pytest.mark.parametrize(("kind", "data", "value"), VECTORS)
def test_checksums_are_those_of_the_catalogues(kind: ChecksumKind, data: bytes, value: int) -> None:
    """Which is what devices compute."""
    assert checksum_of(kind)(data) == value


def bit_by_bit(data: bytes, polynomial: int, crc: int) -> int:
    """A reflected CRC as the textbook has it."""
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ polynomial if crc & 1 else crc >> 1
    return crc


def test_two_bytes_a_step_agree_with_one_bit_a_step() -> None:
    """For every length, even and odd."""
    data = bytes(at * 37 & 0xFF for at in range(70))
    for size in range(70):
        assert checksum_of("crc16-modbus")(data[:size]) == bit_by_bit(data[:size], 0xA001, 0xFFFF)
        xor = 0
        for byte in data[:size]:
            xor ^= byte
        assert checksum_of("xor8")(data[:size]) == xor


def frame(kind: ChecksumKind, order: str, start: int, trailer: int) -> bytes:
    """Magic, length of the body, body, checksum, end marks."""
    head = b"\x68\x05hello"
    value = checksum_of(kind)(head[start:]).to_bytes(SIZES[kind], order)  # type: ignore[arg-type]
    return head + value + b"\x16" * trailer


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize(("order", "start", "trailer"), [("big", 0, 0), ("little", 1, 0), ("big", 2, 1)])
def test_a_frame_is_held_against_its_checksum(kind: ChecksumKind, order: str, start: int, trailer: int) -> None:
    """Length field and fixed size; stripped and kept; one wrong bit anywhere under it is seen."""
    wire = frame(kind, order, start, trailer)
    behind = SIZES[kind] + trailer
    checksum = Checksum(kind, order, start, trailer=trailer)  # type: ignore[arg-type]
    sized = LengthField(offset=1, width=1, adjustment=behind, magic=b"\x68", checksum=checksum)
    framings: list[tuple[Framing, bytes]] = [
        (sized, wire[:7]),
        (replace(sized, strip=2), b"hello"),
        (replace(sized, checksum=replace(checksum, strip=False)), wire),
        (Fixed(size=len(wire), checksum=checksum), wire[:7]),
    ]
    for framing, expected in framings:
        assert in_every_way(framing, wire * 2) == ([expected] * 2, "", {})
        for at in range(2, len(wire) - trailer):
            wrong = bytearray(wire)
            wrong[at] ^= 1
            assert in_every_way(framing, wire + wrong) == ([expected], "checksum", {"checksum": 1})


def test_a_frame_with_no_room_for_its_checksum_is_too_short() -> None:
    """Its length lies; nothing is read outside of it."""
    framing = LengthField(offset=1, width=1, adjustment=-2, magic=b"\x68", checksum=Checksum("crc32"))
    for length in range(6):
        assert in_every_way(framing, bytes([0x68, length]) + b"abcdef").reason == "length"
    assert in_every_way(framing, b"\x68\x06abcd").reason == "checksum"


def test_a_frame_that_is_nothing_but_its_checksum_is_one_however_it_arrives() -> None:
    """Found by the property tests: whole it was a frame, cut in two it was too short."""
    sum8 = Checksum("sum8", trailer=2, strip=False)
    assert in_every_way(Fixed(size=3, checksum=sum8), b"\0\x16\x16") == ([b"\0\x16\x16"], "", {})


def test_modbus_frames_of_a_serial_line() -> None:
    """From the Modbus documents: request and answer of function 3."""
    rtu = Checksum("crc16-modbus", order="little")
    request = bytes.fromhex("01 03 0000 000a c5cd")
    assert in_every_way(Fixed(size=8, checksum=rtu), request).frames == [request[:-2]]
    answer = bytes.fromhex("01 03 02 022b f93b")
    framing = LengthField(offset=2, width=1, adjustment=2, max_frame=256, checksum=rtu)
    assert in_every_way(framing, answer * 2).frames == [answer[:-2]] * 2
