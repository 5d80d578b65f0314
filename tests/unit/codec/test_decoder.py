"""What a decoder knows and keeps besides the packets themselves."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass

import pytest

from iot_mqtt.codec import (
    Connect,
    Decoder,
    Disconnect,
    Pingreq,
    Properties,
    Publish,
    PublishBatch,
    PublishRun,
    Request,
    Role,
    Subscribe,
    encode,
)
from iot_mqtt.codec.decoder import ALIAS_ADDED, ALIAS_BYTES, ALIAS_STEP
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.order import TABLE, Phase
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.cases.table import V5, V31, V311, picture
from tests.cases.twins import DECODERS


@pytest.mark.parametrize(
    ("wire", "version"),
    [
        ("10 * 'MQIsdp' 03 02 0000 'a'", V31),
        ("10 * 'MQTT' 04 02 0000 'a'", V311),
        ("10 * 'MQTT' 05 02 0000 () 'a'", V5),
    ],
)
def test_connect_sets_the_version(wire: str, version: int) -> None:
    """And packets glued to it are already read in that version."""
    decoder = Decoder(1000)
    assert decoder.version is None
    connect, ping = decoder.feed(picture(wire) + b"\xc0\x00")
    assert isinstance(connect, Connect)
    assert isinstance(ping, Pingreq)
    assert decoder.version == connect.version == version


def test_the_version_of_a_bad_connect_is_known() -> None:
    """So that the refusal can be said in it."""
    decoder = Decoder(1000)
    (error,) = decoder.feed(picture("10 * 'MQTT' 05 03 0000 () 'a'"))
    assert isinstance(error, MqttError)
    assert decoder.version is V5


def test_the_version_of_an_unknown_level_is_not_known() -> None:
    """There is no form that the client would understand for certain."""
    decoder = Decoder(1000)
    (error,) = decoder.feed(picture("10 * 'MQTT' 09 02 0000 () 'a'"))
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION
    assert decoder.version is None


def test_after_disconnect_everything_is_ignored() -> None:
    """In the same read and in later ones [MQTT-3.14.4-1]."""
    decoder = Decoder(1000, version=V5)
    assert decoder.feed(b"\xe0\x00\xc0\x00\x00") == [Disconnect()]
    assert decoder.feed(b"\xc0\x00") == []
    assert decoder.buffered == 0


def test_a_client_must_say_its_version() -> None:
    """CONNACK does not."""
    with pytest.raises(ValueError, match="version"):
        Decoder(1000, role=Role.CLIENT)


def test_no_bytes_are_no_items() -> None:
    """In every phase, and inside a packet."""
    decoder = Decoder(1000)
    for wire in (b"", picture("10 * 'MQTT' 04 02 0000 'a'"), b"\x30", b"\xff" * 9):
        decoder.feed(wire)
        assert decoder.feed(b"") == []


def test_a_packet_above_the_limit_is_refused_before_it_is_buffered() -> None:
    """256 MB announced in five bytes."""
    decoder = Decoder(1 << 20, version=V311)
    (error,) = decoder.feed(b"\x30\xff\xff\xff\x7f" + b"x" * 1000)
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.PACKET_TOO_LARGE
    assert decoder.buffered == 0


@pytest.mark.parametrize(
    ("packet", "version"),
    [
        ("10 * 'MQTT' 04 02 0000 'client'", None),
        ("82 * 0001 'a/b' 00", V311),
        ("30 * 'a/b' 0102", V311),
        ("32 * 'a/b' 0001 0102", V311),
        ("32 * 'a/b' 0001 ( 23 0001 ) 0102", V5),
    ],
    ids=["connect", "subscribe", "qos 0", "qos 1", "with an alias"],
)
def test_a_packet_of_just_the_limit_is_taken(packet: str, version: ProtocolVersion | None) -> None:
    """Whole and byte by byte; one byte more is too much [MQTT-3.1.2-24]."""
    wire = picture(packet)
    for pieces in ([wire], [wire[at : at + 1] for at in range(len(wire))]):
        decoder = Decoder(len(wire), version=version)
        items = [item for piece in pieces for item in decoder.feed(piece)]
        assert len(items) == 1 and not isinstance(items[0], MqttError)
        (error,) = Decoder(len(wire) - 1, version=version).feed(wire)
        assert isinstance(error, MqttError) and error.reason is ReasonCode.PACKET_TOO_LARGE


@dataclass(frozen=True)
class Alone:
    """A route to one receiver."""

    alone: bytes

    @property
    def above(self) -> Alone:
        return self


@pytest.mark.parametrize("qos", [0, 1])
def test_large_packets_are_read_however_they_are_cut(qos: int) -> None:
    """And what is behind them."""
    publishes = [
        encode(Publish(topic, bytes([number]) * size, qos, packet_id=number if qos else 0), V311)
        for number, (topic, size) in enumerate([(b"a", 40_000), (b"b", 3), (b"a", 70_000), (b"b", 20_000)], 1)
    ]
    wire = b"".join(publishes)
    for size in (1000, 16_384, 40_010, 65_536, len(wire)):
        decoder = Decoder(version=V311)
        decoder.routes = {topic: Alone(topic) for topic in (b"a", b"b")}
        batches = [batch for at in range(0, len(wire), size) for batch in decoder.feed(wire[at : at + size])]
        assert not decoder.buffered
        got = {b"a": b"", b"b": b""}
        for batch in batches:
            assert isinstance(batch, PublishBatch)
            got[batch.route.alone] += batch.written(five=False, qos=qos, ids=batch.ids)
        assert got == {b"a": publishes[0] + publishes[2], b"b": publishes[1] + publishes[3]}


def test_what_is_behind_a_large_packet_that_changes_routes_keeps_its_order() -> None:
    """Though the packet came in two pieces."""
    decoder = Decoder(version=V311)
    decoder.routes = {topic: Alone(topic) for topic in (b"a", b"b")}
    publishes = [encode(Publish(topic, b""), V311) for topic in (b"a", b"b", b"a")]
    wire = encode(Subscribe(1, (Request("f" * 60_000, 0),)), V311) + b"".join(publishes)
    assert not decoder.feed(wire[:30_000])
    _, *batches = decoder.feed(wire[30_000:])
    assert [batch.wire for batch in batches if isinstance(batch, PublishBatch)] == publishes


def test_an_error_keeps_no_buffer_alive() -> None:
    """Its traceback would hold the frames that hold the bytes."""
    (error,) = Decoder(1000, version=V311).feed(b"\x30\x00")
    assert isinstance(error, MqttError)
    assert error.__traceback__ is None


def test_an_idle_decoder_is_small() -> None:
    """At most 300 bytes of its own."""
    decoder = Decoder(268_435_455)
    decoder.feed(picture("10 * 'MQTT' 04 02 0000 'a'"))
    own = [thing for thing in gc.get_referents(decoder) if isinstance(thing, int | bytes) and thing not in (b"", 0)]
    assert sys.getsizeof(decoder) + sum(map(sys.getsizeof, own)) <= 300
    assert not hasattr(decoder, "__dict__")


@pytest.mark.parametrize("role", Role)
def test_the_order_table_begins_with_one_packet_and_ends_with_disconnect(role: Role) -> None:
    """CONNECT or CONNACK opens, nothing leaves OVER, and no packet opens twice."""
    table = TABLE[role]
    opening = [kind for (phase, kind), after in table.items() if phase is Phase.FIRST and after is Phase.OPEN]
    assert opening == [PacketType.CONNECT if role is Role.SERVER else PacketType.CONNACK]
    assert (Phase.OPEN, opening[0]) not in table
    assert [kind for (_, kind), after in table.items() if after is Phase.OVER] == [PacketType.DISCONNECT]
    assert not [phase for phase, _ in table if phase is Phase.OVER]


@pytest.mark.parametrize("kind", PacketType)
def test_every_packet_is_for_one_end_or_for_both(kind: PacketType) -> None:
    """Nothing was forgotten in the table."""
    readers = {role for role in Role for _, allowed in TABLE[role] if allowed is kind}
    both = {PacketType.PUBLISH, PacketType.DISCONNECT, PacketType.AUTH, *(PacketType(number) for number in range(4, 8))}
    assert len(readers) == (2 if kind in both else 1)


def aliased(topic: bytes, alias: int | None, payload: bytes = b"x", *, qos: int = 0, size: int = 0) -> bytes:
    """A PUBLISH of version 5; ``size``: of a user property beside the alias."""
    pairs = (("k", "v" * size),) if size else ()
    properties = Properties(topic_alias=alias, user_properties=pairs)
    return encode(Publish(topic, payload, qos, packet_id=7 if qos else 0, properties=properties), V5)


def test_packets_with_aliases_are_read_by_their_topics() -> None:
    """[MQTT-3.3.2-12] As if they had none, whatever they are cut into; an alias can be set anew."""
    meant = [(b"a", b"1"), (b"a", b"2"), (b"b/long", b"3"), (b"c", b"4"), (b"b/long", b"5"), (b"a", b"6")]
    names = [(b"a", 1), (b"", 1), (b"b/long", 1), (b"c", None), (b"", 1), (b"a", 2)]
    for qos in (0, 1):
        for size in (0, 100):
            wire = b"".join(
                aliased(topic, alias, payload, qos=qos, size=size)
                for (topic, alias), (_, payload) in zip(names, meant, strict=True)
            )
            plain = b"".join(aliased(topic, None, payload, qos=qos, size=size) for topic, payload in meant)
            for piece in (1, 7, 50, len(wire)):
                for routes in (None, {topic: Alone(b"one") for topic, _ in meant}):
                    decoder = Decoder(topic_alias_maximum=2, version=V5)
                    decoder.routes = routes
                    items = [item for at in range(0, len(wire), piece) for item in decoder.feed(wire[at : at + piece])]
                    assert b"".join(item.wire for item in items if isinstance(item, PublishRun | PublishBatch)) == plain


def test_a_packet_may_be_as_large_as_allowed_with_an_alias() -> None:
    """However long the topic is that it stands for; the next one is held against the same limit."""
    first, second = aliased(b"t" * 50, 1), aliased(b"", 1, b"x" * 48)
    decoder = Decoder(len(first), topic_alias_maximum=1, version=V5)
    (run,) = decoder.feed(first + second)
    assert isinstance(run, PublishRun) and run.topic == b"t" * 50 and run.count == 2
    (error,) = decoder.feed(aliased(b"", 1, b"x" * 60))
    assert isinstance(error, MqttError) and error.reason is ReasonCode.PACKET_TOO_LARGE


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (aliased(b"a", 3), ReasonCode.TOPIC_ALIAS_INVALID),  # [MQTT-3.3.2-9]
        (aliased(b"", 3), ReasonCode.TOPIC_ALIAS_INVALID),
        (aliased(b"", 2), ReasonCode.PROTOCOL_ERROR),
        (picture("30 * 'a' (23 0000) 78"), ReasonCode.TOPIC_ALIAS_INVALID),  # [MQTT-3.3.2-8]
        (picture("30 * 'a' (23 0001 23 0001) 78"), ReasonCode.PROTOCOL_ERROR),
        (picture("30 * 'a' (23 0001 03 0001 ff) 78"), ReasonCode.MALFORMED_PACKET),
        (picture("30 * 'a/#' (23 0001) 78"), ReasonCode.TOPIC_NAME_INVALID),
        (picture("32 * 'a' 0000 (23 0001) 78"), ReasonCode.PROTOCOL_ERROR),
    ],
)
def test_a_wrong_packet_with_an_alias_is_an_error(wrong: bytes, reason: ReasonCode) -> None:
    """Behind what was right, and nothing comes behind it."""
    decoder = Decoder(topic_alias_maximum=2, version=V5)
    *runs, error = decoder.feed(aliased(b"a", 1) + aliased(b"", 1) + wrong + aliased(b"a", 1))
    assert sum(run.count for run in runs if isinstance(run, PublishRun)) == 2
    assert isinstance(error, MqttError) and error.reason is reason


@pytest.mark.parametrize("kind", sorted(DECODERS))
@pytest.mark.parametrize("anew", [False, True])
def test_topics_that_aliases_stand_for_are_bounded(kind: str, anew: bool) -> None:
    """All of one connection together, also where small ones are set anew; what came before is there."""
    decoder = DECODERS[kind](topic_alias_maximum=64, version=V5)
    large = b"t" * 60_000
    if anew:
        for alias in range(1, 65):
            (run,) = decoder.feed(aliased(b"small", alias))
            assert isinstance(run, PublishRun)
    items, count = decoder.feed(b""), 0
    while len(items) < 2:
        count += 1
        items = decoder.feed(aliased(large, count))
        assert isinstance(items[0], PublishRun) and items[0].topic == large
    assert ALIAS_BYTES < count * len(large) <= ALIAS_BYTES + ALIAS_STEP + len(large)
    error = items[-1]
    assert isinstance(error, MqttError) and error.reason is ReasonCode.QUOTA_EXCEEDED
    assert str(ALIAS_BYTES) in error.detail
    assert decoder.feed(aliased(b"a", None)) == []


@pytest.mark.parametrize("kind", sorted(DECODERS))
def test_topics_of_aliases_may_be_used_and_set_anew_without_end(kind: str) -> None:
    """What they replace counts no more, nor does a payload; more aliases than usual have room for usual topics."""
    decoder = DECODERS[kind](topic_alias_maximum=64, version=V5)
    for round in range(8):
        for alias in range(1, 65):
            topic = b"%d-%d" % (round, alias) + b"t" * 3000
            (run,) = decoder.feed(aliased(topic, alias) + aliased(b"", alias, b"x" * 9000))
            assert isinstance(run, PublishRun) and run.topic == topic and run.count == 2
    decoder = DECODERS[kind](topic_alias_maximum=10_000, version=V5)
    for alias in range(1, 10_001):
        (run,) = decoder.feed(aliased(b"%05d" % alias + b"t" * 200, alias))
        assert isinstance(run, PublishRun)


@pytest.mark.parametrize("kind", sorted(DECODERS))
@pytest.mark.parametrize("between", [b"", b"\xc0\x00"])
def test_few_bytes_do_not_become_gigabytes(kind: str, between: bytes) -> None:
    """An alias of eight bytes stands for a topic of 60 kB, however often; what fits is there."""
    decoder = DECODERS[kind](topic_alias_maximum=64, version=V5)
    topic = b"t" * 60_000
    decoder.feed(aliased(topic, 1))
    many = b"".join((aliased(b"", 1, b"") * 100 + between) for _ in range(82))
    *items, error = decoder.feed(many)
    assert isinstance(error, MqttError) and error.reason is ReasonCode.QUOTA_EXCEEDED
    size = sum(len(item.wire) for item in items if isinstance(item, PublishRun))
    assert ALIAS_ADDED < size + len(topic) < ALIAS_ADDED + 3 * len(topic)
    usual = DECODERS[kind](topic_alias_maximum=64, version=V5)
    usual.feed(aliased(b"u" * 400, 1))
    for _ in range(3):
        items = usual.feed(aliased(b"", 1, b"") * 65_536)
        assert sum(item.count for item in items if isinstance(item, PublishRun)) == 65_536


def test_nobody_keeps_aliases_for_clients() -> None:
    """They have a decoder of their own, which leaves aliases to them."""
    decoder = Decoder(role=Role.CLIENT, version=V5)
    decoder._enter(Phase.OPEN)
    (run,) = decoder.feed(aliased(b"", 9))
    assert isinstance(run, PublishRun) and not run.topic and run.properties.topic_alias == 9
