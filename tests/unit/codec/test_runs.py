"""What makes a run, what ends one, and that its parts and payloads are right."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.codec import AckRun, Decoder, PublishRun, encode_publish, run_of, run_of_message
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.values import ProtocolVersion
from tests.cases.table import V5, V311, picture
from tests.cases.twins import DECODERS, packets

Make = Callable[..., Decoder]


@pytest.fixture(params=sorted(DECODERS))
def make(request: pytest.FixtureRequest) -> Make:
    """A decoder of each kind."""
    return DECODERS[request.param]


def message(
    payload: bytes, packet_id: int = 0, *, five: bool = False, topic: bytes = b"a/b", properties: bytes = b""
) -> bytes:
    """One PUBLISH, at QoS 1 if it has an id."""
    qos = 1 if packet_id else 0
    return encode_publish(
        topic, payload, five=five, qos=qos, retain=False, dup=False, packet_id=packet_id, properties=properties
    )


def only_run(decoder: Decoder, wire: bytes) -> PublishRun:
    """The one run that the bytes are."""
    (run,) = decoder.feed(wire)
    assert isinstance(run, PublishRun)
    return run


@pytest.mark.parametrize("version", [V311, V5])
def test_messages_of_one_topic_are_one_run(make: Make, version: ProtocolVersion) -> None:
    """Sizes may differ, also in how many bytes the length takes."""
    payloads = [b"x" * size for size in (3, 3, 0, 3, 200, 200, 1, 20_000, 130)]
    wire = b"".join(message(payload, five=version == V5) for payload in payloads)
    run = only_run(make(version=version), wire)
    assert run.payloads() == payloads
    assert (run.wire, run.count, run.ids, run.qos) == (wire, len(payloads), [], 0)
    assert run.longest == len(message(payloads[7], five=version == V5))


def test_a_run_keeps_its_packet_ids_in_order(make: Make) -> None:
    """Ids need not ascend."""
    ids = [7, 65535, 1, 300]
    wire = b"".join(message(b"x" * number, ids[number]) for number in range(4))
    assert only_run(make(version=V311), wire).ids == ids


@pytest.mark.parametrize(
    "wires",
    [
        ("30 * 'a' 01", "30 * 'b' 01"),
        ("30 * 'a' 01", "31 * 'a' 01"),
        ("30 * 'a' 01", "32 * 'a' 0001 01"),
        ("32 * 'a' 0001 01", "3a * 'a' 0001 01"),
        ("32 * 'a' 0001 01", "34 * 'a' 0001 01"),
        ("30 * 'a' 01", "30 * 'aa' 01"),
        ("30 * 'aa' 01", "30 * 'a' 61 01"),
    ],
)
def test_another_first_byte_or_topic_begins_another_run(make: Make, wires: tuple[str, str]) -> None:
    """Two packets that differ in what a run shares."""
    first, second = (picture(wire) for wire in wires)
    runs = make(version=V311).feed(first + second)
    assert [run.wire for run in runs if isinstance(run, PublishRun)] == [first, second]


@pytest.mark.parametrize("qos", ["30 * 'a' ", "32 * 'a' 0001 "])
def test_other_properties_begin_another_run(make: Make, qos: str) -> None:
    """The raw blocks are compared, and their order counts."""
    blocks = [
        "()",
        "( 26 'a' '1' 26 'b' '2' )",
        "( 26 'b' '2' 26 'a' '1' )",
        "( 26 'b' '2' )",
        "( 01 00 )",
        "( 01 01 )",
    ]
    wires = [picture(f"{qos}{block} 99") for block in blocks]
    runs = make(version=V5).feed(b"".join(wire * 2 for wire in wires))
    assert [run.count for run in runs if isinstance(run, PublishRun)] == [2] * 6
    assert [run.properties.user_properties for run in runs if isinstance(run, PublishRun)][1:3] == [
        (("a", "1"), ("b", "2")),
        (("b", "2"), ("a", "1")),
    ]


def test_a_part_is_a_run_of_its_own(make: Make) -> None:
    """Whatever was looked at before."""
    payloads = [bytes([65 + number]) * number * 40 for number in range(6)]
    wires = [message(payload, 10 + index) for index, payload in enumerate(payloads)]
    for looked in (False, True):
        run = only_run(make(version=V311), b"".join(wires))
        if looked:
            run.payloads()
        part = run.part(1, 4)
        assert part.wire == b"".join(wires[1:4])
        assert (part.ids, part.count, part.longest) == ([11, 12, 13], 3, len(wires[3]))
        assert part.payloads() == payloads[1:4]
        assert run.part(0, 6) is run


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (2, 2), (-1, 2), (3, 1)])
def test_a_part_outside_the_run_is_refused(make: Make, start: int, stop: int) -> None:
    """There are three packets and no empty runs."""
    run = only_run(make(version=V311), message(b"x") * 3)
    with pytest.raises(ValueError, match="no part"):
        run.part(start, stop)


def test_what_receivers_get_is_without_what_belongs_to_one_hop(make: Make) -> None:
    """Alias and message expiry go; the rest keeps its bytes and order."""
    wire = picture("30 * 'a' ( 26 'b' '2' 23 0001 01 01 02 0000000a 26 'a' '1' ) 99")
    run = only_run(make(version=V5), wire)
    assert run.forwardable == picture("26 'b' '2' 01 01 26 'a' '1'")
    assert run.properties.message_expiry_interval == 10
    assert only_run(make(version=V5), picture("30 * 'a' ( 23 0001 )")).forwardable == b""


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    "properties", [b"", b"\x02\x00\x00\x00\x3c\x26\x00\x01k\x00\x01v", b"\x03\x00\xc8" + b"x" * 200]
)
@pytest.mark.parametrize("retain", [False, True])
def test_a_message_that_no_connection_brought_is_the_run_that_its_wire_is(
    qos: int, properties: bytes, retain: bool
) -> None:
    """In every field, though nothing was read back."""
    made = run_of_message(b"a/b", b"x" * 120, qos, retain=retain, raw_properties=properties)
    read = only_run(Decoder(version=V5), made.wire)
    assert made.payloads() == read.payloads() and made.forwardable == read.forwardable
    for name in PublishRun.__slots__:
        if not name.startswith("_"):
            assert getattr(made, name) == getattr(read, name), name


@pytest.mark.parametrize("payloads", [[b""], [b"x" * 300], [b"x", b"", b"y" * 20_000, b"z"]])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_a_gateway_posts_is_the_run_that_its_wire_is(payloads: list[bytes], qos: int) -> None:
    """One message or many, of any sizes."""
    made = run_of(b"up/g/d", payloads, list(range(7, 7 + len(payloads))) if qos else [])
    read = only_run(Decoder(version=V5), made.wire)
    assert made.payloads() == read.payloads() == payloads
    for name in PublishRun.__slots__:
        if not name.startswith("_"):
            assert getattr(made, name) == getattr(read, name), name


@pytest.mark.parametrize("topic", [b"", b"a/#", b"a\x00", b"\xff"])
def test_a_message_that_no_connection_brought_has_a_topic(topic: bytes) -> None:
    """What no client may publish to, nobody may."""
    with pytest.raises(MqttError):
        run_of_message(topic, b"", 0, retain=False, raw_properties=b"")


def test_acknowledgements_in_a_row_are_one_run(make: Make) -> None:
    """In any form, as long as type, reason and properties are the same."""
    wire = picture("40020001 4003000200 400400030000 400300 04 10 4004000510 00 50020006 62020007 62020008")
    runs = [item for item in make(version=V5).feed(wire) if isinstance(item, AckRun)]
    assert [(run.type.name, run.ids, run.reason.value) for run in runs] == [
        ("PUBACK", [1, 2, 3], 0),
        ("PUBACK", [4, 5], 0x10),
        ("PUBREC", [6], 0),
        ("PUBREL", [7, 8], 0),
    ]


def test_items_come_in_the_order_of_the_bytes(make: Make) -> None:
    """Runs, requests and acknowledgements mixed."""
    wire = picture("30 06 'a' 010101 40020001 c000 30 06 'a' 020202 82 06 0001 'a' 01 30 04 'a' 03")
    items = make(version=V311).feed(wire)
    assert [type(item).__name__ for item in items] == [
        "PublishRun",
        "AckRun",
        "Pingreq",
        "PublishRun",
        "Subscribe",
        "PublishRun",
    ]


def test_a_bad_packet_inside_a_run_ends_it_there(make: Make) -> None:
    """The good ones before it count, those behind it do not."""
    wire = message(b"x", 1) + message(b"x", 2) + b"\x32\x08\x00\x03a/b\x00\x00x" + message(b"x", 4)
    run, error = make(version=V311).feed(wire)
    assert isinstance(run, PublishRun)
    assert run.ids == [1, 2]
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.PROTOCOL_ERROR


def test_the_limit_holds_for_every_packet_of_a_run(make: Make) -> None:
    """A packet of exactly the limit is taken; one byte more is not."""
    fits = message(b"x" * 10)
    run, error = make(len(fits), version=V311).feed(fits * 3 + message(b"x" * 11))
    assert isinstance(run, PublishRun)
    assert run.count == 3
    assert isinstance(error, MqttError)
    assert error.reason is ReasonCode.PACKET_TOO_LARGE


def test_a_topic_is_the_same_object_each_time(make: Make) -> None:
    """So that routing finds its hash computed."""
    decoder = make(version=V311)
    assert only_run(decoder, message(b"1")).topic is only_run(decoder, message(b"2")).topic


@pytest.mark.parametrize("five", [False, True])
def test_a_buffer_cut_anywhere_gives_the_same_packets(make: Make, five: bool) -> None:
    """Two pieces, cut at each place."""
    version = V5 if five else V311
    parts = [message(b"x" * 5, 1, five=five), message(b"y" * 130, 2, five=five), b"\xc0\x00", message(b"", five=five)]
    wire = b"".join(parts)
    whole = packets(make(version=version).feed(wire))
    for cut in range(len(wire)):
        decoder = make(version=version)
        assert packets(decoder.feed(wire[:cut]) + decoder.feed(wire[cut:])) == whole
        assert decoder.buffered == 0


def test_a_large_packet_in_many_pieces_is_gathered(make: Make) -> None:
    """And what follows it is read, too."""
    large = message(b"z" * 300_000)
    wire = large + message(b"next")
    decoder = make(version=V311)
    found = [item for at in range(0, len(wire), 1000) for item in packets(decoder.feed(wire[at : at + 1000]))]
    assert [len(packet.payload) for packet in found if hasattr(packet, "payload")] == [300_000, 4]
    assert decoder.buffered == 0


def test_payloads_stay_out_of_representations(make: Make) -> None:
    """Logs and tracebacks show topic and numbers."""
    run = only_run(make(version=V311), message(b"secret"))
    assert "secret" not in repr(run)
    assert "a/b" in repr(run)
