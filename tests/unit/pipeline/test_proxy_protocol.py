"""PROXY headers: whole, byte by byte, with what follows, and everything that is not one."""

from __future__ import annotations

import pytest

from iot_mqtt.pipeline import Channel, CloseReason
from iot_mqtt.pipeline.proxy_protocol import (
    HeaderReader,
    ProxyHeader,
    ProxyHeaderError,
    ProxyProtocolStage,
    networks,
)
from tests.doubles.channel import EmbeddedChannel

TRUSTED = networks(["192.0.2.0/24"])
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
ADDRESSES4 = bytes((198, 51, 100, 7, 203, 0, 113, 5)) + (51234).to_bytes(2, "big") + (1883).to_bytes(2, "big")
ADDRESSES6 = (
    bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000002")
    + (51234).to_bytes(2, "big")
    + (1883).to_bytes(2, "big")
)


def _anybody(_: Channel) -> CloseReason | None:
    """Whoever comes is let in."""
    return None


def tlv(kind: int, value: bytes) -> bytes:
    """Type, length, value."""
    return bytes((kind,)) + len(value).to_bytes(2, "big") + value


def v2(first: int, family: int, content: bytes) -> bytes:
    """A v2 header."""
    return SIGNATURE + bytes((first, family)) + len(content).to_bytes(2, "big") + content


SSL = tlv(0x20, b"\x07" + b"\0\0\0\0" + tlv(0x21, b"TLSv1.3") + tlv(0x22, b"device-7"))
SSL_UNVERIFIED = tlv(0x20, b"\x07" + b"\0\0\0\x01" + tlv(0x22, b"device-7"))
#: TLS without a certificate of the client: what name stands there is nobody's.
SSL_NOT_SHOWN = tlv(0x20, b"\x01" + b"\0\0\0\0" + tlv(0x22, b"device-7"))
SSL_OF_THE_SESSION = tlv(0x20, b"\x05" + b"\0\0\0\0" + tlv(0x22, b"device-7"))
CLIENT4 = ProxyHeader("198.51.100.7:51234", "203.0.113.5:1883")
CLIENT6 = ProxyHeader("[2001:db8::1]:51234", "[2001:db8::2]:1883")

VALID = {
    "v1 tcp4": (b"PROXY TCP4 198.51.100.7 203.0.113.5 51234 1883\r\n", CLIENT4),
    "v1 tcp6": (b"PROXY TCP6 2001:db8::1 2001:db8:0::2 51234 1883\r\n", CLIENT6),
    "v1 unknown": (b"PROXY UNKNOWN\r\n", ProxyHeader()),
    "v1 unknown with text": (b"PROXY UNKNOWN ffff::1 whatever 1 2\r\n", ProxyHeader()),
    "v1 longest": (
        b"PROXY TCP6 " + b" ".join([b"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] * 2) + b" 65535 65535\r\n",
        ProxyHeader(*["[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"] * 2),
    ),
    "v2 tcp4": (v2(0x21, 0x11, ADDRESSES4), CLIENT4),
    "v2 tcp6": (v2(0x21, 0x21, ADDRESSES6), CLIENT6),
    "v2 with tlvs": (v2(0x21, 0x11, ADDRESSES4 + tlv(0x04, b"") + tlv(0x02, b"mqtt.example")), CLIENT4),
    "v2 certificate": (
        v2(0x21, 0x11, ADDRESSES4 + tlv(0x04, b"\0" * 8) + SSL),
        ProxyHeader(CLIENT4.source, CLIENT4.destination, "device-7"),
    ),
    "v2 certificate whose name is no UTF-8": (
        v2(0x21, 0x11, ADDRESSES4 + tlv(0x20, b"\x05" + b"\0\0\0\0" + tlv(0x22, b"device-\xff"))),
        ProxyHeader(CLIENT4.source, CLIENT4.destination, "device-\udcff"),
    ),
    "v2 certificate not verified": (v2(0x21, 0x11, ADDRESSES4 + SSL_UNVERIFIED), CLIENT4),
    "v2 certificate not shown": (v2(0x21, 0x11, ADDRESSES4 + SSL_NOT_SHOWN), CLIENT4),
    "v2 certificate of the session": (
        v2(0x21, 0x11, ADDRESSES4 + SSL_OF_THE_SESSION),
        ProxyHeader(CLIENT4.source, CLIENT4.destination, "device-7"),
    ),
    "v2 local": (v2(0x20, 0x00, b""), ProxyHeader()),
    "v2 local with content": (v2(0x20, 0x11, ADDRESSES4 + b"\xff"), ProxyHeader()),
    "v2 unspecified": (v2(0x21, 0x00, b"anything"), ProxyHeader()),
    "v2 unix": (v2(0x21, 0x31, b"\0" * 216), ProxyHeader()),
}

INVALID = {
    "not a header": b"\x10\x0d\x00\x04MQTT",
    "almost v1": b"PROXX TCP4",
    "almost v2": SIGNATURE[:-1] + b"\r" + b"\x21\x11\0\0",
    "v1 lower case": b"proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "v1 udp": b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
    "v1 too few fields": b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
    "v1 two spaces": b"PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
    "v1 wrong family": b"PROXY TCP4 ::1 ::1 1 2\r\n",
    "v1 not an address": b"PROXY TCP4 1.2.3.4.5 1.2.3.4 1 2\r\n",
    "v1 null in address": b"PROXY TCP4 1.2.3.4\0 1.2.3.4 1 2\r\n",
    "v1 port too large": b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
    "v1 port with zero": b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
    "v1 port with sign": b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n",
    "v1 not ascii": b"PROXY TCP4 \xff\xff 1.2.3.4 1 2\r\n",
    "v1 too long": b"PROXY UNKNOWN " + b"x" * 100,
    "v2 version": v2(0x31, 0x11, ADDRESSES4),
    "v2 command": v2(0x22, 0x11, ADDRESSES4),
    "v2 udp": v2(0x21, 0x12, ADDRESSES4),
    "v2 family": v2(0x21, 0x41, ADDRESSES4),
    "v2 addresses cut": v2(0x21, 0x11, ADDRESSES4[:-1]),
    "v2 tlv cut": v2(0x21, 0x11, ADDRESSES4 + tlv(0x02, b"abc")[:-1]),
    "v2 tlv head cut": v2(0x21, 0x11, ADDRESSES4 + b"\x02\x00"),
    "v2 ssl tlv short": v2(0x21, 0x11, ADDRESSES4 + tlv(0x20, b"\x01")),
    "v2 ssl sub tlv cut": v2(0x21, 0x11, ADDRESSES4 + tlv(0x20, b"\x01\0\0\0\0\x22\x00\x05a")),
    "v2 too long": v2(0x21, 0x11, b"")[:14] + b"\xff\xff",
}


@pytest.mark.parametrize("name", VALID)
def test_a_header_is_read_whole_and_byte_by_byte_and_leaves_the_rest(name: str) -> None:
    """The three ways of every reader."""
    header, expected = VALID[name]
    whole = HeaderReader()
    assert whole.feed(header + b"CONNECT") == expected
    assert whole.rest == b"CONNECT"
    pieces = HeaderReader()
    for position in range(len(header) - 1):
        assert pieces.feed(header[position : position + 1]) is None
    assert pieces.feed(header[-1:]) == expected
    assert pieces.rest == b""


@pytest.mark.parametrize("name", INVALID)
def test_what_is_no_header_is_refused_whole_and_byte_by_byte(name: str) -> None:
    """At the first byte that gives it away, at the latest at its end."""
    with pytest.raises(ProxyHeaderError):
        HeaderReader().feed(INVALID[name])
    pieces = HeaderReader()
    with pytest.raises(ProxyHeaderError):
        for byte in INVALID[name]:
            pieces.feed(bytes((byte,)))


def test_the_stage_sets_the_peer_and_steps_aside() -> None:
    """What follows the header is read by the next stage, at once and from then on."""
    embedded = EmbeddedChannel([("proxy", ProxyProtocolStage(TRUSTED, _anybody))])
    header, _ = VALID["v2 certificate"]
    embedded.feed(header[:5], header[5:] + b"hello", b"again")
    assert embedded.items == [b"hello", b"again"]
    assert embedded.channel.peer == "198.51.100.7:51234"
    assert embedded.channel.local == "203.0.113.5:1883"
    assert embedded.channel.certificate_name == "device-7"
    assert embedded.events == [VALID["v2 certificate"][1]]
    assert "proxy" not in embedded.pipeline


def test_a_health_check_keeps_the_balancers_own_address() -> None:
    """LOCAL says nothing about a client."""
    embedded = EmbeddedChannel([("proxy", ProxyProtocolStage(TRUSTED, _anybody))])
    embedded.feed(VALID["v2 local"][0])
    assert embedded.channel.peer == "192.0.2.1:50000"


def test_a_connection_without_header_is_closed_and_nothing_of_it_read() -> None:
    """Straight to the broker's port, past the balancer."""
    embedded = EmbeddedChannel([("proxy", ProxyProtocolStage(TRUSTED, _anybody))])
    embedded.feed(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a")
    assert embedded.items == []
    assert embedded.reason is not None
    assert embedded.reason.name == "bad_proxy_header"


@pytest.mark.parametrize("trusted", [[], ["198.51.100.0/24", "2001:db8::/32"]])
def test_a_stranger_is_closed_before_anything_is_read(trusted: list[str]) -> None:
    """Only trusted networks say who the client is."""
    embedded = EmbeddedChannel([("proxy", ProxyProtocolStage(networks(trusted), _anybody))])
    embedded.feed(VALID["v2 certificate"][0] + b"hello")
    assert embedded.items == [] and embedded.channel.certificate_name is None
    assert embedded.reason is not None and embedded.reason.name == "untrusted_proxy"
    assert embedded.channel.peer == "192.0.2.1:50000"
