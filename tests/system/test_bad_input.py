"""Bytes that no well-meaning client sends: the exact answer, the connection closed, counted, nobody else the wiser."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker, brokers
from systemkit.waiting import AIR, wait_until

CONNECT_TIMEOUT = 1.5
MALFORMED, PROTOCOL_ERROR, TOPIC_NAME_INVALID = 0x81, 0x82, 0x90
PACKET_TOO_LARGE, TOPIC_ALIAS_INVALID, QUOTA_EXCEEDED = 0x95, 0x94, 0x97
NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent, to whom it is said goodbye with which reason, and where mosquitto 2.0.11 differs.

    ``five`` holds the reasons allowed in v5's CONNACK or DISCONNECT; empty: closed without a word. MQTT 3.x is closed
    without a word in any case.
    """

    name: str
    data: bytes
    five: frozenset[int]
    #: Sent after an accepted CONNECT of the version, or as the very first bytes.
    connected: bool = True
    versions: tuple[int, ...] = (4, 5)
    mosquitto: str = ""


def _reasons(*codes: int) -> frozenset[int]:
    return frozenset(codes)


def _publish(topic: bytes, *, properties: bytes | None = None, first: int = 0x30, rest: bytes = b"x") -> bytes:
    block = b"" if properties is None else wire.variable(len(properties)) + properties
    return wire.packet(first, wire.text(topic) + block + rest)


def _connect(version: int, client_id: bytes = b"c", flags: int = 2, rest: bytes = b"") -> bytes:
    properties = b"\x00" if version == 5 else b""
    return wire.packet(
        0x10, b"\x00\x04MQTT" + bytes((version, flags)) + b"\x00\x00" + properties + wire.text(client_id) + rest
    )


def _each(name: str, three: bytes, five: bytes, *codes: int, mosquitto: str = "") -> list[Case]:
    """The same fault in the words of 3.1.1 and of 5.0."""
    return [
        Case(name, three, _reasons(*codes), versions=(4,), mosquitto=mosquitto),
        Case(name, five, _reasons(*codes), versions=(5,), mosquitto=mosquitto),
    ]


#: Faults that one reader may call malformed and another a protocol error.
UNFIT = _reasons(MALFORMED, PROTOCOL_ERROR)
SILENT = "closes without DISCONNECT"
DEAF = frozenset({"waits for the 256 MB", "answers", "ignores it"})
CASES = [
    # The first bytes.
    Case("garbage", b"\xde\xad\xbe\xef" * 16, NOTHING, connected=False),
    Case("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n", NOTHING, connected=False),
    Case("PUBLISH before CONNECT", wire.publish("a", b"x"), NOTHING, connected=False),
    Case("CONNECT of 256 MB", b"\x10\xff\xff\xff\x7f", NOTHING, connected=False, mosquitto="waits for the 256 MB"),
    Case("CONNECT with flags", b"\x11" + wire.connect("c")[1:], NOTHING, connected=False),
    Case("client id that is not UTF-8", _connect(4, b"\xff\xfe"), NOTHING, connected=False, versions=(4,)),
    Case(
        "client id that is not UTF-8",
        _connect(5, b"\xff\xfe"),
        _reasons(MALFORMED, 0x85),
        connected=False,
        versions=(5,),
        mosquitto=SILENT,
    ),
    Case("client id with U+0000", _connect(4, b"a\x00b"), NOTHING, connected=False, versions=(4,)),
    Case("reserved connect flag", _connect(4, flags=3), NOTHING, connected=False, versions=(4,)),
    Case(
        "will QoS 3",
        _connect(5, flags=0x1E, rest=b"\x00" + wire.text("w") + wire.text("m")),
        _reasons(MALFORMED, PROTOCOL_ERROR),
        connected=False,
        versions=(5,),
        mosquitto=SILENT,
    ),
    # The fixed header.
    Case("PUBLISH of 256 MB", b"\x30\xff\xff\xff\x7f", _reasons(PACKET_TOO_LARGE), mosquitto="waits for the 256 MB"),
    Case("remaining length of five bytes", b"\x30\xff\xff\xff\xff\x01", _reasons(MALFORMED), mosquitto=SILENT),
    Case("SUBSCRIBE with wrong flags", b"\x80" + wire.subscribe(1, [("a", 0)])[1:], _reasons(MALFORMED), versions=(4,)),
    Case(
        "SUBSCRIBE with wrong flags",
        b"\x80" + wire.subscribe(1, [("a", 0)], version=5)[1:],
        _reasons(MALFORMED),
        versions=(5,),
    ),
    Case("PUBREL with wrong flags", b"\x60\x02\x00\x01", _reasons(MALFORMED), mosquitto=SILENT),
    Case("PINGREQ with flags", b"\xc1\x00", _reasons(MALFORMED), mosquitto="answers"),
    Case("packet type 0", b"\x00\x00", _reasons(MALFORMED, PROTOCOL_ERROR)),
    Case("AUTH in 3.1.1", b"\xf0\x00", NOTHING, versions=(4,)),
    Case("a packet that only servers send", b"\xd0\x00", _reasons(PROTOCOL_ERROR, MALFORMED), mosquitto="ignores it"),
    Case("a second CONNECT", wire.connect("again"), _reasons(PROTOCOL_ERROR), versions=(4,)),
    Case(
        "a second CONNECT", wire.connect("again", version=5), _reasons(PROTOCOL_ERROR), versions=(5,), mosquitto=SILENT
    ),
    # PUBLISH.
    Case("PUBLISH at QoS 3", b"\x36\x06\x00\x01a\x00\x01x", _reasons(MALFORMED)),
    *_each("topic that is not UTF-8", _publish(b"a\xff"), _publish(b"a\xff", properties=b""), MALFORMED),
    *_each("topic with a surrogate", _publish(b"\xed\xa0\x80"), _publish(b"\xed\xa0\x80", properties=b""), MALFORMED),
    *_each("topic with U+0000", _publish(b"a\0b"), _publish(b"a\0b", properties=b""), MALFORMED),
    *_each("overlong topic byte", _publish(b"\xc0\xaf"), _publish(b"\xc0\xaf", properties=b""), MALFORMED),
    *_each(
        "topic with a wildcard",
        _publish(b"a/#"),
        _publish(b"a/#", properties=b""),
        TOPIC_NAME_INVALID,
        MALFORMED,
        PROTOCOL_ERROR,
    ),
    *_each(
        "packet id 0",
        _publish(b"a", first=0x32, rest=b"\0\0x"),
        wire.packet(0x32, b"\0\x01a\0\0\0x"),
        PROTOCOL_ERROR,
        MALFORMED,
    ),
    *_each("topic longer than the packet", b"\x30\x04\x00\x09ab", b"\x30\x04\x00\x09ab", MALFORMED),
    Case("unknown property", _publish(b"a", properties=b"\x7f\x00"), _reasons(MALFORMED), versions=(5,)),
    Case(
        "property of another packet",
        _publish(b"a", properties=b"\x21\0\x05"),
        _reasons(MALFORMED, PROTOCOL_ERROR),
        versions=(5,),
    ),
    Case(
        "property given twice",
        _publish(b"a", properties=b"\x01\x00\x01\x00"),
        _reasons(PROTOCOL_ERROR),
        versions=(5,),
        mosquitto=SILENT,
    ),
    Case("property block too long", wire.packet(0x30, b"\0\x01a\x50x"), _reasons(MALFORMED), versions=(5,)),
    Case("topic alias 0", _publish(b"a", properties=b"\x23\0\0"), _reasons(TOPIC_ALIAS_INVALID), versions=(5,)),
    Case(
        "topic alias too high", _publish(b"a", properties=b"\x23\xff\xff"), _reasons(TOPIC_ALIAS_INVALID), versions=(5,)
    ),
    Case(
        "topic alias never set",
        _publish(b"", properties=b"\x23\0\x05"),
        _reasons(PROTOCOL_ERROR, TOPIC_ALIAS_INVALID),
        versions=(5,),
    ),
    # SUBSCRIBE, UNSUBSCRIBE, AUTH.
    *_each("SUBSCRIBE with no filter", b"\x82\x02\x00\x01", b"\x82\x03\x00\x01\x00", PROTOCOL_ERROR, MALFORMED),
    *_each("UNSUBSCRIBE with no filter", b"\xa2\x02\x00\x01", b"\xa2\x03\x00\x01\x00", PROTOCOL_ERROR, MALFORMED),
    *_each(
        "SUBSCRIBE at QoS 3",
        wire.subscribe(1, [("a", 3)]),
        wire.subscribe(1, [("a", 3)], version=5),
        PROTOCOL_ERROR,
        MALFORMED,
    ),
    *_each(
        "SUBSCRIBE with packet id 0",
        wire.subscribe(0, [("a", 0)]),
        wire.subscribe(0, [("a", 0)], version=5),
        PROTOCOL_ERROR,
        MALFORMED,
    ),
    Case(
        "retain handling 3",
        wire.subscribe(1, [("a", 0x30)], version=5),
        _reasons(PROTOCOL_ERROR, MALFORMED),
        versions=(5,),
    ),
    Case("AUTH without a method", b"\xf0\x02\x18\x00", _reasons(PROTOCOL_ERROR), versions=(5,), mosquitto=SILENT),
]
PAIRS = [(case, version) for case in CASES for version in case.versions]
IDS = [f"{case.name}-{'5.0' if version == 5 else '3.1.1'}" for case, version in PAIRS]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all the bad bytes: it has to live through them."""
    with brokers(tmp_path_factory.mktemp("bad")) as start:
        yield start(settings={"mqtt.connect_timeout": CONNECT_TIMEOUT})


def _errors(broker: BrokerProcess) -> float | None:
    """What the broker has counted of protocol errors, all reasons together."""
    samples = broker.metrics()
    if samples is None:
        return None
    found = [value for name, value in samples.items() if name.startswith("iot_mqtt_protocol_errors_total")]
    return sum(found)


def _send(broker: BrokerProcess, case: Case, version: int) -> list[wire.Received]:
    """Send the bad bytes; returns all that came before the connection was closed."""
    with Plain(broker.ports["mqtt"], version=version) as client:
        if case.connected:
            client.connect(f"bad-{time.monotonic_ns()}")
        with contextlib.suppress(ConnectionError):
            client.send(case.data)
        return client.until_closed()


@pytest.mark.parametrize(("case", "version"), PAIRS, ids=IDS)
def test_the_connection_is_closed_with_the_right_answer(broker: BrokerProcess, case: Case, version: int) -> None:
    """3.x: closed. 5.0: CONNACK or DISCONNECT with the reason, then closed. Counted either way."""
    if MOSQUITTO and case.mosquitto in DEAF:
        pytest.skip(f"mosquitto {case.mosquitto}")
    before = _errors(broker)
    answers = _send(broker, case, version)
    if version == 5 and case.five and not (MOSQUITTO and case.mosquitto == SILENT):
        assert [answer.kind for answer in answers] == [wire.DISCONNECT if case.connected else wire.CONNACK]
        if not MOSQUITTO:  # which names its reasons less exactly
            assert answers[0].reason() in case.five, f"{answers[0].reason():#x}"
    elif not MOSQUITTO:
        assert answers == []
    after = _errors(broker)
    assert before is None or after is None or after >= before + 1, "not counted"


def test_another_protocol_name_is_refused(broker: BrokerProcess) -> None:
    """Closed, with "unacceptable protocol version" or without a word [MQTT-3.1.2-1]; counted."""
    before = _errors(broker)
    with Plain(broker.ports["mqtt"]) as client:
        client.send(wire.packet(0x10, b"\x00\x04MQTX\x04\x02\x00\x00\x00\x01c"))
        answers = client.until_closed()
    assert not answers or (answers[0].kind == wire.CONNACK and answers[0].body[1] in (0x01, 0x84))
    after = _errors(broker)
    assert before is None or after is None or after == before + 1


def test_a_protocol_level_of_the_future_is_named(broker: BrokerProcess) -> None:
    """CONNACK says "unacceptable protocol version" (0x01, or 0x84 in the form of v5), then the connection closes."""
    for level in (6, 9, 127):
        with Plain(broker.ports["mqtt"]) as client:
            client.send(_connect(level))
            answers = client.until_closed()
        assert [answer.kind for answer in answers] == [wire.CONNACK]
        assert answers[0].body[1] in (0x01, 0x84)


@pytest.mark.parametrize("first", [b"", b"\x10", wire.connect("half")[:9]], ids=["nothing", "a byte", "half a CONNECT"])
@pytest.mark.skipif(MOSQUITTO, reason="mosquitto waits longer, and its time cannot be set")
def test_silence_before_connect_is_cut_off(broker: BrokerProcess, first: bytes) -> None:
    """mqtt.connect_timeout seconds after the accept, without a word."""
    began = time.monotonic()
    with Plain(broker.ports["mqtt"]) as client:
        if first:
            client.send(first)
        assert client.until_closed() == []
    assert CONNECT_TIMEOUT - 0.2 <= time.monotonic() - began <= CONNECT_TIMEOUT + 1.5 + AIR


@pytest.mark.skipif(MOSQUITTO, reason="mosquitto waits longer, and its time cannot be set")
def test_a_byte_per_second_does_not_buy_time(broker: BrokerProcess) -> None:
    """Slowloris: 50 connections dripping a CONNECT each are all closed at the time-out."""
    frame = wire.connect("slow-loris-with-a-long-client-id")
    began = time.monotonic()
    drips = [socket.create_connection(("127.0.0.1", broker.ports["mqtt"]), 5) for _ in range(50)]
    for at in range(3):
        for drip in drips:
            with contextlib.suppress(OSError):
                drip.send(frame[at : at + 1])
        time.sleep(1)
    for drip in drips:
        drip.settimeout(2 + AIR)
        with contextlib.suppress(ConnectionError):
            assert drip.recv(1) == b""
        drip.close()
    assert time.monotonic() - began < CONNECT_TIMEOUT + 3 + AIR


@pytest.mark.parametrize("version", [4, 5])
def test_65535_filters_in_one_subscribe(broker: BrokerProcess, version: int) -> None:
    """Refused as a whole, or answered by exactly as many codes; the broker's memory and its other clients are fine."""
    filters = [(f"m/{number:05}", 0) for number in range(65_535)]
    before = broker.rss()
    with Plain(broker.ports["mqtt"], version=version, timeout=20) as client:
        client.connect("many-filters")
        with contextlib.suppress(ConnectionError):
            client.send(wire.subscribe(1, filters, version=version))
        answer = client.receive()
        if answer is None:
            assert version == 4, "v5 is told why"
        elif answer.kind == wire.SUBACK:
            assert len(answer.body) == 65_535 + (3 if version == 5 else 2)
            client.ping()
        else:
            assert answer.kind == wire.DISCONNECT
            assert answer.reason() in (QUOTA_EXCEEDED, PACKET_TOO_LARGE, PROTOCOL_ERROR, 0x83)
            assert client.until_closed() == []
    _good_client_works(broker)
    assert broker.rss() - before < 64 << 20


def test_2000_bad_clients_leave_no_trace(broker: BrokerProcess) -> None:
    """Memory and descriptors flat; a good client beside them never waits long and loses nothing."""
    usable = [(case, version) for case, version in PAIRS if not (MOSQUITTO and case.mosquitto in DEAF)]
    pairs = itertools.cycle(usable)
    for _ in range(300):
        _send(broker, *next(pairs))
    time.sleep(0.2)
    before, descriptors, errors = broker.rss(), broker.descriptors(), _errors(broker)
    with _GoodClient(broker) as good:
        for _ in range(2000):
            _send(broker, *next(pairs))
    growth = broker.rss() - before
    print(
        f"rss {before >> 10} kB and {growth >> 10} kB more; "
        f"good client: {good.rounds} rounds, slowest {good.slowest:.3f} s"
    )
    assert growth < 8 << 20, f"{growth >> 10} kB more after 2000 bad clients"
    wait_until(lambda: broker.descriptors() <= descriptors + 2)
    after = _errors(broker)
    assert errors is None or after is None or after - errors >= 2000
    assert good.rounds > 20
    assert good.slowest < 0.5 + AIR


def _good_client_works(broker: BrokerProcess) -> None:
    with _GoodClient(broker) as good:
        time.sleep(0.1)
    assert good.rounds > 0


class _GoodClient:
    """Publishes to itself at QoS 1 in a thread, one message after the other, and keeps the slowest time."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.rounds, self.slowest = 0, 0.0
        self._client = Plain(broker.ports["mqtt"])
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _GoodClient:
        self._client.connect(f"good-{time.monotonic_ns()}")
        self._client.subscribe(("good/x", 0))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.disconnect()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                self._client.publish("good/x", b"%d" % self.rounds, qos=1, packet_id=1)
                kinds = {self._client.receive().kind for _ in range(2)}  # type: ignore[union-attr]
                assert kinds == {wire.PUBLISH, wire.PUBACK}
                self.rounds += 1
                self.slowest = max(self.slowest, time.monotonic() - began)
                time.sleep(0.01)
        except BaseException as error:
            self._error = error


def test_a_short_connect_timeout_spares_slow_but_honest_clients(start_broker: StartBroker) -> None:
    """A CONNECT cut into pieces that all come in time is served."""
    broker = start_broker(settings={"mqtt.connect_timeout": CONNECT_TIMEOUT})
    frame = wire.connect("pieces")
    with Plain(broker.ports["mqtt"]) as client:
        for at in range(0, len(frame), 4):
            client.send(frame[at : at + 4])
            time.sleep(0.1)
        assert client.expect(wire.CONNACK).reason() == 0
        time.sleep(CONNECT_TIMEOUT + 0.5)
        client.ping()
