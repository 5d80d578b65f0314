"""WebSocket: handshake, frames in all shapes, and everything a client may not do."""

from __future__ import annotations

import base64
import random

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request

from iot_mqtt.pipeline import MqttCodecStage, WebSocketSettings
from iot_mqtt.pipeline.reasons import SHUTTING_DOWN
from iot_mqtt.pipeline.websocket import WebSocketEstablished, WebSocketStage
from iot_mqtt.pipeline.websocket.frames import FrameReader, unmask
from iot_mqtt.pipeline.websocket.stage import FRAMES, LEAST_READ
from tests.doubles.channel import EmbeddedChannel

KEY = b"\x11\x22\x33\x44"
HEADERS = {
    "Host": "broker",
    "Upgrade": "websocket",
    "Connection": "keep-alive, Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "mqtt",
}


def request(line: str = "GET /mqtt HTTP/1.1", **changes: str | None) -> bytes:
    """A handshake with some headers changed, or left out where None; underscores stand for dashes."""
    headers = HEADERS | {name.replace("_", "-"): value for name, value in changes.items()}
    return "\r\n".join([line, *(f"{n}: {v}" for n, v in headers.items() if v is not None), "", ""]).encode()


def masked(first: int, payload: bytes, *, length: bytes | None = None, mask: bool = True) -> bytes:
    """A client's frame; ``length`` overrides how the length is written."""
    if length is None:
        size = len(payload)
        length = (
            bytes((size,))
            if size < 126
            else b"\x7e" + size.to_bytes(2, "big")
            if size < 65536
            else b"\x7f" + size.to_bytes(8, "big")
        )
    if not mask:
        return bytes((first,)) + length + payload
    body = bytes(byte ^ KEY[i % 4] for i, byte in enumerate(payload))
    return bytes((first, length[0] | 0x80)) + length[1:] + KEY + body


def opened(settings: WebSocketSettings | None = None) -> EmbeddedChannel:
    """A WebSocket after its handshake."""
    embedded = EmbeddedChannel([("ws", WebSocketStage(settings))])
    embedded.feed(request())
    assert embedded.take().startswith(b"HTTP/1.1 101 ")
    return embedded


# ------------------------------------------------------------------------------------------------ handshake


def test_the_handshake_is_answered_as_the_rfc_says() -> None:
    """With RFC 6455's own example key."""
    embedded = EmbeddedChannel([("ws", WebSocketStage())])
    embedded.feed(request())
    head, _, rest = embedded.take().partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 101 Switching Protocols"
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in lines
    assert b"Sec-WebSocket-Protocol: mqtt" in lines
    assert rest == b""
    assert embedded.events == [WebSocketEstablished("/mqtt", "mqtt")]


def test_the_handshake_may_come_byte_by_byte_with_frames_behind_it() -> None:
    """Whatever the network does to it."""
    whole = request() + masked(0x82, b"hello")
    for pieces in ([whole], [bytes((b,)) for b in whole]):
        embedded = EmbeddedChannel([("ws", WebSocketStage())])
        embedded.feed(*pieces)
        assert b"".join(embedded.items) == b"hello"


@pytest.mark.parametrize(
    "good",
    [
        request("GET /mqtt?token=1 HTTP/1.1"),
        request("GET http://127.0.0.1/mqtt HTTP/1.1"),
        request("GET HTTPS://broker:8084/mqtt?token=1 HTTP/1.1"),
        request(Upgrade="WebSocket"),
        request(Connection="upgrade"),
        request(Sec_WebSocket_Protocol="chat, mqttv3.1"),
        request(Cookie="a=b", Sec_WebSocket_Extensions="permessage-deflate"),
    ],
)
def test_requests_that_browsers_and_libraries_send_are_accepted(good: bytes) -> None:
    """Case, lists, queries, extensions that are not used."""
    embedded = EmbeddedChannel([("ws", WebSocketStage())])
    embedded.feed(good)
    assert embedded.take().startswith(b"HTTP/1.1 101 ")
    assert not embedded.closed


@pytest.mark.parametrize(
    ("status", "bad"),
    [
        (400, request("GET /mqtt")),
        (400, request("GET  /mqtt HTTP/1.1")),
        (400, request(Host=None)),
        (400, request(Sec_WebSocket_Key=None)),
        (400, request(Sec_WebSocket_Key="dGhlIHNhbXBsZQ==")),
        (400, request(Sec_WebSocket_Key="not base64 at all!")),
        (400, request(Sec_WebSocket_Protocol=None)),
        (400, request(Sec_WebSocket_Protocol="chat, wamp")),
        (400, request(Content_Length="5")),
        (400, request().replace(b"Host: broker", b"Host: broker\r\nHost: other")),
        (400, request().replace(b"Host: broker", b"Host : broker")),
        (400, request().replace(b"Host: broker", b"Host: broker\r\n folded")),
        (400, request().replace(b"Host: broker", b"Host: bro\x00ker")),
        (404, request("GET / HTTP/1.1")),
        (404, request("GET /mqtt/ HTTP/1.1")),
        (404, request("GET http://broker HTTP/1.1")),
        (404, request("GET http://broker/ HTTP/1.1")),
        (404, request("GET http://broker?/mqtt HTTP/1.1")),
        (400, request("GET http:///mqtt HTTP/1.1")),
        (400, request("GET http://ann@broker/mqtt HTTP/1.1")),
        (400, request("GET ftp://broker/mqtt HTTP/1.1")),
        (400, request("GET http://broker/mqtt HTTP/1.1", Host=None)),
        (405, request("POST /mqtt HTTP/1.1")),
        (405, b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"),
        (426, request(Upgrade=None)),
        (426, request(Connection="close")),
        (426, request(Sec_WebSocket_Version="8")),
        (426, request(Sec_WebSocket_Version=None)),
        (431, request(Cookie="x" * 9000)),
        (431, b"GET /" + b"x" * 9000),
        (505, request("GET /mqtt HTTP/1.0")),
    ],
)
def test_what_is_no_handshake_gets_an_http_answer_and_is_closed(status: int, bad: bytes) -> None:
    """Whole and byte by byte, with nothing read as MQTT."""
    for pieces in ([bad], [bytes((b,)) for b in bad]):
        embedded = EmbeddedChannel([("ws", WebSocketStage())])
        embedded.feed(*pieces)
        answer = embedded.take()
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"Content-Length: %d" % len(body) in head
        assert embedded.closed
        assert embedded.items == []
        assert embedded.reason is not None
        assert embedded.reason.name == "bad_websocket_handshake"


@pytest.mark.parametrize(("origin", "status"), [("http://broker", 101), ("http://elsewhere", 403)])
def test_a_host_in_the_request_line_counts_in_place_of_the_header(origin: str, status: int) -> None:
    """A page is at home where its request went (RFC 9112, 3.2.2)."""
    embedded = EmbeddedChannel([("ws", WebSocketStage())])
    embedded.feed(request("GET http://broker/mqtt HTTP/1.1", Host="elsewhere", Origin=origin))
    assert embedded.take().startswith(b"HTTP/1.1 %d " % status)


def test_the_path_is_the_listeners() -> None:
    """Not always /mqtt."""
    embedded = EmbeddedChannel([("ws", WebSocketStage(WebSocketSettings(path="/ws")))])
    embedded.feed(request("GET /ws HTTP/1.1"))
    assert embedded.take().startswith(b"HTTP/1.1 101 ")


# ------------------------------------------------------------------------------------------------ frames in


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 125, 126, 127, 65535, 65536, 100_000])
def test_payload_of_any_size_is_unmasked(size: int) -> None:
    """Around each step of the length encoding."""
    payload = random.Random(size).randbytes(size)
    embedded = opened()
    embedded.feed(masked(0x82, payload))
    assert b"".join(embedded.items) == payload


def test_frames_may_be_cut_anywhere_and_glued_together() -> None:
    """And a frame is handed on before it is complete."""
    rng = random.Random(7)
    payloads = [rng.randbytes(rng.choice((0, 1, 7, 130, 700))) for _ in range(60)]
    wire = b"".join(masked(0x82, payload) for payload in payloads)
    for step in (1, 2, 3, 7, 64, 1000, len(wire)):
        embedded = opened()
        embedded.feed(*(wire[i : i + step] for i in range(0, len(wire), step)))
        assert b"".join(embedded.items) == b"".join(payloads)
    embedded = opened()
    embedded.feed(masked(0x82, b"x" * 1000)[:508])
    assert b"".join(embedded.items) == b"x" * 500


def test_one_receive_is_one_read_however_many_frames_it_has() -> None:
    """Batches, not messages."""
    embedded = EmbeddedChannel([("ws", WebSocketStage()), ("mqtt", MqttCodecStage())])
    embedded.feed(request())
    connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a"
    embedded.feed(masked(0x82, connect[:3]) + masked(0x82, connect[3:]) + masked(0x82, b"\x30\x03\x00\x01t") * 5)
    assert [getattr(item, "count", None) for item in embedded.items] == [None, 5]


def test_a_fragmented_message_with_a_ping_in_between_is_read() -> None:
    """Control frames may come between fragments."""
    embedded = opened()
    embedded.feed(masked(0x02, b"ab") + masked(0x89, b"ping") + masked(0x00, b"cd") + masked(0x80, b"ef"))
    assert b"".join(embedded.items) == b"abcdef"
    assert embedded.take() == b"\x8a\x04ping"
    assert not embedded.closed


def test_of_many_pings_in_one_read_the_last_is_answered() -> None:
    """Before the CLOSE behind them."""
    embedded = opened()
    embedded.feed(b"".join(masked(0x89, b"%d" % n) for n in range(100)) + masked(0x88, b""))
    assert embedded.take() == b"\x8a\x0299" + b"\x88\x00"


def test_small_frames_are_read_some_at_a_time() -> None:
    """The first behind the handshake, and then as many as have the size of those before them."""
    embedded = opened()
    channel = embedded.channel
    assert channel.most_read == LEAST_READ
    embedded.feed(masked(0x89, b"") * 10)
    assert channel.most_read == LEAST_READ
    embedded.feed(masked(0x82, b"x" * 34) * 3)
    assert channel.most_read == 40 * FRAMES
    embedded.feed(masked(0x82, b"x" * 10_000)[:5000])
    assert channel.most_read == 5000 * FRAMES


def test_a_pong_nobody_asked_for_is_ignored() -> None:
    """It may be a heartbeat."""
    embedded = opened()
    embedded.feed(masked(0x8A, b"x"))
    assert embedded.take() == b""
    assert not embedded.closed


@pytest.mark.parametrize(
    ("code", "bad"),
    [
        (1003, masked(0x81, b"text")),
        (1002, masked(0x82, b"x", mask=False)),
        (1002, masked(0xC2, b"rsv1")),
        (1002, masked(0x83, b"reserved opcode")),
        (1002, masked(0x8B, b"reserved control opcode")),
        (1002, masked(0x80, b"continues nothing")),
        (1002, masked(0x02, b"a") + masked(0x82, b"begins inside a message")),
        (1002, masked(0x09, b"fragmented ping")),
        (1002, masked(0x89, b"x" * 126)),
        (1002, masked(0x82, b"x", length=b"\x7e\x00\x01")),
        (1002, masked(0x82, b"x", length=b"\x7f" + (1).to_bytes(8, "big"))),
        (1002, masked(0x82, b"", length=b"\x7f\x80" + bytes(7))),
        (1009, masked(0x82, b"", length=b"\x7f" + (1 << 40).to_bytes(8, "big"))),
        (1009, masked(0x82, b"x" * 1001)),
        (1002, masked(0x88, b"\x03")),
        (1002, masked(0x88, b"\x03\xed")),
        (1002, masked(0x88, b"\x00\x00")),
        (1007, masked(0x88, b"\x03\xe8bye\xff")),
        (1007, masked(0x88, b"\x03\xe8\xed\xa0\x80")),
    ],
)
def test_what_a_client_may_not_send_closes_with_the_code_that_says_why(code: int, bad: bytes) -> None:
    """What came before it is still read; what comes after it is not. Whole and byte by byte."""
    before, after = masked(0x82, b"good"), masked(0x82, b"late")
    for pieces in ([before + bad + after], [bytes((b,)) for b in before + bad + after]):
        embedded = opened(WebSocketSettings(max_frame=1000))
        embedded.feed(*pieces)
        assert b"".join(embedded.items).startswith(b"good")
        assert b"late" not in b"".join(embedded.items)
        sent = embedded.take()
        assert sent[0] == 0x88
        assert int.from_bytes(sent[2:4], "big") == code
        assert sent[1] == len(sent) - 2
        assert embedded.reason is not None
        assert embedded.reason.name == "websocket_error"


@pytest.mark.parametrize("content", [b"", b"\x03\xe8", b"\x03\xe8bye", b"\x03\xe8\xc3\xa4", b"\x0f\xa0"])
def test_a_close_is_answered_with_the_same_code(content: bytes) -> None:
    """And the connection ends."""
    embedded = opened()
    embedded.feed(masked(0x88, content) + masked(0x82, b"late"))
    assert embedded.take() == bytes((0x88, len(content[:2]))) + content[:2]
    assert embedded.items == []
    assert embedded.reason is not None
    assert embedded.reason.name == "peer_closed"


# ------------------------------------------------------------------------------------------------ frames out


def test_all_of_a_flush_is_one_binary_frame() -> None:
    """Hundreds of small packets cost one header."""
    embedded = opened()
    embedded.write(*[b"\x30\x03\x00\x01t"] * 200)
    assert embedded.link.sent == [b"\x82\x7e" + (1000).to_bytes(2, "big") + b"\x30\x03\x00\x01t" * 200]


@pytest.mark.parametrize("size", [1, 125, 126, 65535])
def test_outgoing_lengths_are_written_as_short_as_possible(size: int) -> None:
    """Two, four or ten bytes of header."""
    embedded = opened()
    embedded.write(b"x" * size)
    sent = embedded.take()
    expected = {1: b"\x82\x01", 125: b"\x82\x7d", 126: b"\x82\x7e\x00\x7e", 65535: b"\x82\x7e\xff\xff"}[size]
    assert sent == expected + b"x" * size


def test_much_without_a_flush_reaches_the_outbox() -> None:
    """Its bounds must know of it."""
    embedded = opened()
    for _ in range(200):
        embedded.channel.write([b"x" * 1024])
    assert embedded.channel.outbox.pending >= 128 * 1024


def test_closing_says_goodbye_after_what_was_written() -> None:
    """The code tells a shutdown from an ordinary end."""
    for reason, code in ((None, 1000), (SHUTTING_DOWN, 1001)):
        embedded = opened()
        embedded.channel.write([b"last"])
        embedded.close(*(() if reason is None else (reason,)))
        assert embedded.take() == b"\x82\x04last\x88\x02" + code.to_bytes(2, "big")


def test_nothing_but_http_is_sent_before_the_handshake() -> None:
    """A time-out or shutdown may close a connection that never shook hands."""
    embedded = EmbeddedChannel([("ws", WebSocketStage())])
    embedded.channel.write([b"\x20\x02"])
    embedded.close()
    assert embedded.take() == b""


def test_another_implementation_understands_us() -> None:
    """wsproto as the client: handshake, data both ways, ping, close."""
    client = WSConnection(ConnectionType.CLIENT)
    embedded = EmbeddedChannel([("ws", WebSocketStage())])
    embedded.feed(client.send(Request(host="broker", target="/mqtt", subprotocols=["mqtt"])))
    client.receive_data(embedded.take())
    (accepted,) = client.events()
    assert isinstance(accepted, AcceptConnection)
    assert accepted.subprotocol == "mqtt"
    payload = random.Random(1).randbytes(70_000)
    embedded.feed(client.send(BytesMessage(payload)))
    assert b"".join(embedded.items) == payload
    embedded.write(payload)
    embedded.feed(client.send(Ping(b"are you there")))
    client.receive_data(embedded.take())
    events = list(client.events())
    assert b"".join(event.data for event in events if isinstance(event, BytesMessage)) == payload
    assert any(isinstance(event, Pong) and event.payload == b"are you there" for event in events)
    embedded.feed(client.send(CloseConnection(1000)))
    client.receive_data(embedded.take())
    assert any(isinstance(event, CloseConnection) and event.code == 1000 for event in client.events())


def test_random_bytes_never_raise() -> None:
    """After the handshake, and instead of it."""
    rng = random.Random(42)
    for _ in range(300):
        reader = FrameReader(1000)
        for _ in range(5):
            reader.feed(rng.randbytes(rng.randrange(40)))
        embedded = EmbeddedChannel([("ws", WebSocketStage())])
        embedded.feed(b"GET " + rng.randbytes(50) + b"\r\n\r\n")
        assert embedded.closed


def test_unmask_is_its_own_inverse_at_any_position() -> None:
    """Against the definition, byte by byte."""
    rng = random.Random(3)
    for size in (0, 1, 2, 3, 4, 5, 63, 1000):
        for position in range(6):
            data = rng.randbytes(size)
            assert unmask(data, KEY, position) == bytes(b ^ KEY[(i + position) % 4] for i, b in enumerate(data))


def test_the_sample_key_is_sixteen_bytes() -> None:
    """Or the tests above would test another refusal than they mean to."""
    assert len(base64.b64decode(HEADERS["Sec-WebSocket-Key"])) == 16
