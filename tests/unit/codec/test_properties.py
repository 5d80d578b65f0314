"""The property table against table 2-4 of the specification."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from iot_mqtt.codec import NO_PROPERTIES, PacketType, Properties
from iot_mqtt.codec import properties as props
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation
from tests.cases.table import picture

T = PacketType
W = props.WILL
ACKS: set[int] = {T.CONNACK, T.PUBACK, T.PUBREC, T.PUBREL, T.PUBCOMP, T.SUBACK, T.UNSUBACK, T.DISCONNECT, T.AUTH}

#: An example of each property, and the packets that may carry it, copied from table 2-4.
EXAMPLES: dict[str, set[int]] = {
    "01 01": {T.PUBLISH, W},
    "02 00000001": {T.PUBLISH, W},
    "03 'x'": {T.PUBLISH, W},
    "08 'x'": {T.PUBLISH, W},
    "09 0001 00": {T.PUBLISH, W},
    "0b 01": {T.PUBLISH, T.SUBSCRIBE},
    "11 00000001": {T.CONNECT, T.CONNACK, T.DISCONNECT},
    "12 'x'": {T.CONNACK},
    "13 0001": {T.CONNACK},
    "15 'x'": {T.CONNECT, T.CONNACK, T.AUTH},
    "15 'x' 16 0001 00": {T.CONNECT, T.CONNACK, T.AUTH},
    "17 01": {T.CONNECT},
    "18 00000001": {W},
    "19 01": {T.CONNECT},
    "1a 'x'": {T.CONNACK},
    "1c 'x'": {T.CONNACK, T.DISCONNECT},
    "1f 'x'": ACKS,
    "21 0001": {T.CONNECT, T.CONNACK},
    "22 0001": {T.CONNECT, T.CONNACK},
    "23 0001": {T.PUBLISH},
    "24 01": {T.CONNACK},
    "25 01": {T.CONNACK},
    "26 'k' 'v'": ACKS | {T.CONNECT, T.PUBLISH, W, T.SUBSCRIBE, T.UNSUBSCRIBE},
    "27 00000001": {T.CONNECT, T.CONNACK},
    "28 01": {T.CONNACK},
    "29 01": {T.CONNACK},
    "2a 01": {T.CONNACK},
}
CARRIERS = [W, *(kind for kind in PacketType if kind not in (T.PINGREQ, T.PINGRESP))]
#: Properties that may stand more than once, by packet.
REPEATED = {("0b 01", T.PUBLISH), *(("26 'k' 'v'", kind) for kind in CARRIERS)}


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("packet", CARRIERS)
def test_a_property_stands_where_the_specification_lets_it(example: str, packet: int) -> None:
    """Anywhere else the packet is malformed."""
    raw = picture(example)
    if packet in EXAMPLES[example]:
        assert props.write(props.read(raw, packet)) == raw
    else:
        with pytest.raises(Malformed):
            props.read(raw, packet)


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("packet", CARRIERS)
def test_a_property_stands_twice_only_where_it_may(example: str, packet: int) -> None:
    """User properties anywhere, subscription identifiers in PUBLISH."""
    if packet not in EXAMPLES[example]:
        return
    raw = picture(example) * 2
    if (example, packet) in REPEATED:
        assert props.write(props.read(raw, packet)) == raw
    else:
        with pytest.raises(ProtocolViolation):
            props.read(raw, packet)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_property_cut_off_is_malformed(example: str) -> None:
    """At each place inside it."""
    packet = next(iter(EXAMPLES[example]))
    raw = picture(example)
    for cut in range(1, len(raw)):
        if example.startswith("15 'x' 16") and cut == 4:
            continue
        with pytest.raises(Malformed):
            props.read(raw[:cut], packet)


def test_no_properties_are_one_value() -> None:
    """So that an identity check is enough on the hot path."""
    assert props.read(b"", T.PUBLISH) is NO_PROPERTIES
    assert props.block(NO_PROPERTIES) == b"\0"
    assert props.write(Properties()) == b""


def test_blocks_of_publishers_are_read_once() -> None:
    """The same bytes are the same value; long blocks and errors are not kept."""
    raw = picture("03 'once'")
    assert props.read_publish(raw, True) is props.read_publish(raw, True)
    long = picture("03 '" + "x" * 300 + "'")
    assert props.read_publish(long, True) is not props.read_publish(long, True)
    for _ in range(2):
        with pytest.raises(MqttError):
            props.read_publish(b"\x01\x02", True)


def test_a_cached_block_does_not_hide_who_sent_it() -> None:
    """Subscription identifiers are a server's, whoever was read first."""
    raw = picture("0b 05")
    assert props.read_publish(raw, False).subscription_identifiers == (5,)
    with pytest.raises(ProtocolViolation):
        props.read_publish(raw, True)


def test_clients_that_say_the_same_at_connect_share_one_value() -> None:
    """But what may be a secret, or is long, is read for each client and kept by nobody."""
    numbers = Properties(session_expiry_interval=300, receive_maximum=20, maximum_packet_size=1 << 20)
    raw = props.write(numbers)
    assert props.read_connect(raw) == numbers
    assert props.read_connect(raw) is props.read_connect(bytes(bytearray(raw)))
    for secret in (
        Properties(authentication_method="m", authentication_data=b"s"),
        Properties(user_properties=(("k", "v"),)),
    ):
        raw = props.write(secret)
        assert props.read_connect(raw) == secret
        assert props.read_connect(raw) is not props.read_connect(raw)
    with pytest.raises(ProtocolViolation):
        props.read_connect(b"\x21\0\0")
    every = Properties(
        session_expiry_interval=1 << 31,
        request_problem_information=False,
        request_response_information=True,
        receive_maximum=1,
        topic_alias_maximum=1,
        maximum_packet_size=1 << 31,
    )
    assert len(props.write(every)) == props._NUMBERS_SIZE


def calls(function: Callable[..., Any], *args: Any) -> int:
    """How many functions of Python are called, and generators resumed."""
    count = 0

    def counted(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("packet", CARRIERS)
@pytest.mark.parametrize("pair", ["26 '' ''", "26 'é' 'v'"])
def test_many_user_properties_cost_no_more_calls_than_one(packet: int, pair: str) -> None:
    """A client that has said nothing yet may send 12,000 in its CONNECT, any other 200,000 in a packet of 1 MB."""
    one, many = picture(pair), picture(pair) * 5_000
    assert calls(props.read, many, packet) == calls(props.read, one, packet)
    read = props.read(many, packet)
    assert len(read.user_properties) == 5_000
    assert calls(props.write, read) == calls(props.write, props.read(one, packet))
    assert calls(read.named, "absent") == calls(props.read(one, packet).named, "absent")
    if packet in (T.PUBLISH, W):
        assert calls(props.passed_on, read) <= 20
        assert props.passed_on(read) == many
    if packet == T.PUBLISH:
        assert calls(props.forwardable, many) <= 20
        assert props.forwardable(many) == many


def test_user_properties_keep_their_order_around_others() -> None:
    """As they came, whatever stands between them [MQTT-3.3.2-18]."""
    raw = picture("26 'b' '1' 26 'a' '2' 01 01 26 'b' '1' 03 't' 26 '' ''")
    read = props.read(raw, T.PUBLISH)
    assert read.user_properties == (("b", "1"), ("a", "2"), ("b", "1"), ("", ""))
    assert read.named("b") == ["1", "1"] and read.named("a") == ["2"] and read.named("c") == []
    assert Properties(user_properties=(("b", "1"), ("b", "2"))).named("b") == ["1", "2"]
    assert props.write(read) == picture("01 01 03 't' 26 'b' '1' 26 'a' '2' 26 'b' '1' 26 '' ''")
    assert props.forwardable(raw) == raw


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("26 'a' 0001", "the packet ends inside a field"),
        ("26 'a' 00", "the packet ends inside a two byte integer"),
        ("26 'a' 0001 ff", "a string is not well-formed UTF-8"),
        ("26 0001 00 'v'", r"a string contains U\+0000"),
    ],
)
def test_what_is_wrong_with_a_user_property_is_told(raw: str, words: str) -> None:
    """Also behind others that are right."""
    for before in ("", "26 'a' 'b' " * 3):
        with pytest.raises(Malformed, match=words):
            props.read(picture(before + raw), T.CONNECT)


def test_the_first_identifier_of_a_client_is_refused() -> None:
    """Not after half a million of them were read [MQTT-3.3.4-6]."""
    many = picture("0b 01") * 5_000

    def refused() -> None:
        with pytest.raises(ProtocolViolation, match="a client sent a subscription identifier"):
            props.read_publish(many, from_client=True)

    assert calls(refused) < 1_000
    assert len(props.read_publish(many, from_client=False).subscription_identifiers) == 5_000
