"""The rings of the flight recorder: native and pure make the same bytes, with nothing in them that is secret."""

from __future__ import annotations

import random
from itertools import count

import pytest

from iot_mqtt import native
from iot_mqtt.codec import Decoder
from iot_mqtt.codec.describing import described
from iot_mqtt.native import _pure_packets as pure
from iot_mqtt.values import ProtocolVersion
from tests.seeds import fresh

CONNECT = b"\x10\x1e\x00\x04MQTT\x05\xc2\x00\x3c\x00\x00\x02id\x00\x04user\x00\x06secret"


def rings(most: int = 1024, preview: int = 0) -> list[pure.PacketRing]:
    """One of each kind that there is here, each with a clock of its own."""
    kinds = [pure.PacketRing]
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _packets

        kinds.append(_packets.PacketRing)  # type: ignore[arg-type]
    return [kind(count(1_700_000_000).__next__, most, preview) for kind in kinds]


def some_bytes(random_: random.Random) -> bytes:
    """Packets of all types, some of them wrong, in one piece."""
    found = []
    for _ in range(random_.randrange(1, 30)):
        first = random_.choice((0x30, 0x32, 0x33, 0x3D, 0x40, 0x50, 0x62, 0x82, 0x10, 0xE0, random_.randrange(256)))
        body = random_.randbytes(random_.choice((0, 2, 2, 5, 20, 90, 300)))
        if first >> 4 == 3 and random_.random() < 0.9:
            topic = b"t" * random_.choice((0, 3, 63, 64, 65, 200))
            body = len(topic).to_bytes(2, "big") + topic + b"\x00\x07" * bool(first & 6) + b"\x00" + body
        if first == 0x10:
            body = CONNECT[2:]
        size = len(body)
        length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
        found.append(bytes([first]) + (b"\xff\xff\xff\xff" if random_.random() < 0.003 else length) + body)
    return b"".join(found)


@pytest.mark.skipif(not native.HAVE_NATIVE, reason="there is no compiled module to compare with")
@pytest.mark.parametrize("seed", fresh("packets.twins", 3))
def test_both_make_the_same_bytes_however_the_stream_is_cut(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(20):
        one, other = rings(random_.choice((0, 1024, 5000)), random_.choice((0, 5, 99)))
        for _ in range(20):
            data = some_bytes(random_)
            cuts = sorted(random_.randrange(len(data) + 1) for _ in range(random_.randrange(4)))
            parts = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            for ring in (one, other):
                ring.sent(parts)
                for part in parts:
                    if ring.received(part) and (held := random.Random(len(part)).randrange(len(part))):
                        ring.follow(part, held, held * 3)
            assert one.image() == other.image()
            assert one.written == other.written
            # Behind what is no head of a packet nothing is known, for ever.
            assert [min(part, 1 << 60) if type(part) is int else part for part in one.place()] == [
                min(part, 1 << 60) if type(part) is int else part for part in other.place()
            ]


@pytest.mark.parametrize("ring", rings(), ids=lambda ring: type(ring).__module__)
def test_nothing_secret_is_kept(ring: pure.PacketRing) -> None:
    ring.received(CONNECT + b"\x32\x0c\x00\x01t\x00\x07\x00hidden")
    image = ring.image()
    assert b"MQTT" in image
    assert b"secret" not in image
    assert b"user" not in image
    assert b"hid" not in image


@pytest.mark.parametrize("ring", rings(1024, 3), ids=lambda ring: type(ring).__module__)
def test_as_much_of_a_payload_is_kept_as_was_asked_for(ring: pure.PacketRing) -> None:
    ring.received(b"\x30\x09\x00\x01tsecret")
    assert ring.image().endswith(b"tsec")


@pytest.mark.parametrize("ring", rings(2000), ids=lambda ring: type(ring).__module__)
def test_the_oldest_go_when_it_is_full(ring: pure.PacketRing) -> None:
    for number in range(1000):
        ring.received(b"\x32\x07\x00\x03a/b" + number.to_bytes(2, "big"))
        assert len(ring.image()) <= 2000
    assert ring.written == 1000
    assert (999).to_bytes(2, "little") in ring.image()
    assert len(ring.image()) > 1000


@pytest.mark.parametrize("ring", rings(), ids=lambda ring: type(ring).__module__)
def test_of_a_large_batch_the_first_are_looked_at(ring: pure.PacketRing) -> None:
    """And the decoder says where the stream stands then: at every cut of the last packet."""
    publish = b"\x32\x07\x00\x03a/b\x00\x01"
    for cut in range(len(publish)):
        data = publish * 20 + publish[:cut]
        assert ring.received(data)
        decoder = Decoder(version=ProtocolVersion.V311)
        decoder.feed(data)
        ring.follow(data, decoder.buffered, decoder.missing)
        assert not ring.received(publish[cut:] + b"\xe0\x00")
        first, second = described(ring.image())[-2:]
        assert (first.packets, first.bytes) == (8, len(data))
        assert first.text.endswith(f"; and {len(data) - 8 * len(publish)} bytes more")
        assert second.text.endswith("DISCONNECT"), cut


@pytest.mark.parametrize("ring", rings(), ids=lambda ring: type(ring).__module__)
def test_who_listens_gets_the_bytes(ring: pure.PacketRing) -> None:
    heard: list[tuple[int, bytes]] = []
    ring.tap = lambda out, data: heard.append((out, data))
    ring.received(b"\xc0\x00")
    ring.sent([b"\xd0", b"\x00"])
    ring.tap = None
    ring.received(b"\xc0\x00")
    assert heard == [(0, b"\xc0\x00"), (1, b"\xd0\x00")]
