"""What the gateway protocol's codec makes of frames, which frames it refuses, and what it writes."""

from __future__ import annotations

import json
import math
import random
import weakref

import pytest

from iot_mqtt.custom_protocols.gateway import GatewayCodec, wire
from iot_mqtt.custom_protocols.gateway import codec as codec_module
from iot_mqtt.custom_protocols.gateway.wire import Code, Kind, Type
from iot_mqtt.framing import FrameError, framer_of
from iot_mqtt.sdk import (
    Answer,
    BadBatch,
    BadFrame,
    CannotEncode,
    Close,
    Command,
    Event,
    Heartbeat,
    Login,
    Readings,
    Send,
    WhenSafe,
)
from tests.cases.gateway import DEVICES, LOGIN, TIME, codec, documented, logged_in
from tests.doubles import gateway as client
from tests.seeds import seed_of

ONE = DEVICES[:1]


def values(event: Event) -> object:
    """What a reading says."""
    assert isinstance(event, Readings) and isinstance(event.values, bytes)
    return json.loads(event.values)


def refused(frame: bytes, made: GatewayCodec | None = None) -> str:
    """Why."""
    with pytest.raises(BadFrame) as bad:
        (made or logged_in()).decode(frame)
    return bad.value.reason


# -- up --------------------------------------------------------------------------------------------------


def test_a_login_says_who_it_is() -> None:
    """And how often something comes."""
    assert codec().decode(LOGIN) == [Login("gw-1", "line1", b"s3cret", 30.0)]
    assert codec().decode(client.login("gw-1")) == [Login("gw-1")]


def test_readings_of_two_devices() -> None:
    """In the frame's order, with its time and sequence, and the ack behind them."""
    first, second, safe = logged_in().decode(documented()["data"])
    assert first == Readings("plc-1", b'{"temp":21.5,"run":true}', TIME, 7)
    assert second == Readings("plc-2", b'{"state":"idle","count":70000}', TIME, 7)
    assert safe == WhenSafe(7)


def test_a_frame_without_clock_and_number() -> None:
    """Has neither, the first time and later."""
    made = logged_in()
    frame = client.data(ONE)
    expected = [Readings("plc-1", b'{"temp":21.5,"run":true}')]
    assert made.decode(frame) == made.decode(frame) == expected


EDGES = [
    (Type.BOOL, [False, True]),
    (Type.I8, [-128, 127]),
    (Type.I16, [-(1 << 15), (1 << 15) - 1]),
    (Type.I32, [-(1 << 31), (1 << 31) - 1]),
    (Type.I64, [-(1 << 63), (1 << 63) - 1]),
    (Type.U8, [0, 255]),
    (Type.U16, [0, 65535]),
    (Type.U32, [0, (1 << 32) - 1]),
    (Type.U64, [0, (1 << 64) - 1]),
    (Type.F32, [0.0, -1.5, 3.4028234663852886e38]),
    (Type.F64, [-0.0, 1e-300, 1.7976931348623157e308, 0.1]),
    (Type.STRING, ["", 'Größe "\\%s\n', "x" * 5000]),
]


@pytest.mark.parametrize(("kind", "edges"), EDGES)
def test_the_edges_of_a_type(kind: Type, edges: list[bool | int | float | str]) -> None:
    """Exactly, and the same when the layout was seen before."""
    made = logged_in()
    for edge in [*edges, *edges]:
        (event,) = made.decode(client.data([("d", [('50% of "it"', kind, edge)])], sequence=1))
        assert values(event) == {'50% of "it"': edge}
        assert isinstance(event, Readings) and event.quality is None


def test_bytes_become_hexadecimal() -> None:
    """JSON has no others."""
    (event,) = logged_in().decode(client.data([("d", [("raw", Type.BYTES, b"\x00\xff")])]))
    assert values(event) == {"raw": "00ff"}


@pytest.mark.parametrize("kind", [Type.F32, Type.F64])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_number_for(kind: Type, number: float) -> None:
    """Is nothing, and bad; others in the frame stay what they are, and so do later frames."""
    made = logged_in()

    def frame(value: float) -> bytes:
        return client.data([("d", [("a", kind, value), ("b", Type.I8, 1)])], sequence=1)

    good = made.decode(frame(2.0))
    for _ in range(2):
        (event,) = made.decode(frame(number))
        assert values(event) == {"a": None, "b": 1}
        assert isinstance(event, Readings) and event.quality == {"a": "bad"}
    assert made.decode(frame(2.0)) == good == [Readings("d", b'{"a":2.0,"b":1}', None, 1)]


def test_floats_whose_sum_is_infinite_are_finite_themselves() -> None:
    """The short way adds them up to find out; the long way looks at each."""
    made = logged_in()
    frame = client.data([("d", [("a", Type.F64, 1.5e308), ("b", Type.F64, 1.5e308)])])
    for _ in range(2):
        (event,) = made.decode(frame)
        assert values(event) == {"a": 1.5e308, "b": 1.5e308}


def test_qualities() -> None:
    """By tag, where they are not good; nothing is bad unless its gateway says otherwise."""
    readings: list[client.Reading] = [
        ("good", Type.I8, 1),
        ("stale", Type.I8, 2),
        ("off", Type.NOTHING, None),
        ("late", Type.NOTHING, None),
    ]
    said = {("d", "stale"): "stale", ("d", "late"): "uncertain"}
    (event,) = logged_in().decode(client.data([("d", readings)], qualities=said))
    assert values(event) == {"good": 1, "stale": 2, "off": None, "late": None}
    assert isinstance(event, Readings)
    assert event.quality == {"stale": "stale", "off": "bad", "late": "uncertain"}


def test_a_declared_layout() -> None:
    """Stands for itself, with and without qualities and acks."""
    made = logged_in()
    assert made.decode(client.declare(5, DEVICES)) == [Heartbeat()]
    for number in (1, 2, 3):
        short = client.data(DEVICES, sequence=number, time=TIME, layout=5, wants_ack=number == 2)
        long = client.data(DEVICES, sequence=number, time=TIME, wants_ack=number == 2)
        assert made.decode(short) == logged_in().decode(long)
    assert made.decode(client.declare(5, DEVICES)) == [Heartbeat()]


def test_layouts_are_forgotten_before_they_fill_the_memory() -> None:
    """And decoding goes on."""
    counted: dict[str, int] = {}
    made = logged_in(counted)
    for number in range(3000):
        frame = client.data([(f"device-{number}-{'x' * 40}", [("a", Type.U16, number)])])
        (event,) = made.decode(frame)
        assert values(event) == {"a": number}
        assert made._remembered <= codec_module.REMEMBERED
        assert len(made._fast) <= 2000
    assert counted["layouts_forgotten"] >= 1


def test_an_answer() -> None:
    """With what the device said."""
    made = logged_in()
    assert made.decode(client.answer(3, False, "no such tag")) == [Answer(3, False, "no such tag")]
    said: list[client.Reading] = [("a", Type.F64, math.nan), ("b", Type.STRING, "x"), ("c", Type.BYTES, b"\1")]
    assert made.decode(client.answer(4, True, "", said)) == [Answer(4, True, "", {"a": None, "b": "x", "c": "01"})]


def test_heartbeats_are_answered() -> None:
    """Both ways."""
    made = logged_in()
    assert made.decode(client.heartbeat()) == [Heartbeat(), Send(documented()["heartbeat answer"])]
    assert made.decode(client.heartbeat_answer()) == [Heartbeat()]
    assert list(made.idle()) == [Send(documented()["heartbeat"])]


def test_a_gateway_may_say_goodbye() -> None:
    """Its reason is for the log."""
    assert logged_in().decode(client.close("restart")) == [Close("goodbye")]


def test_it_is_freed_without_the_collector() -> None:
    """A codec with all of its layouts, as soon as its connection is gone."""
    made = logged_in()
    there = weakref.ref(made)
    del made
    assert there() is None


def test_versions_are_negotiated() -> None:
    """The highest that both speak; none is said, with what is spoken."""
    made = codec()
    later = client.login("gw-1", versions=(1, 9))
    later = later[:8] + (int.from_bytes(later[8:10], "big") + 3).to_bytes(2, "big") + later[10:] + b"new"
    assert made.decode(later) == [Login("gw-1")]
    assert client.read(made.welcome()) == client.LoginAnswer(Code.WELCOME, 1, 0, "", TIME)
    send, close = codec().decode(client.login("gw-1", versions=(2, 9)))
    assert isinstance(send, Send)
    assert client.read(send.data) == client.LoginAnswer(Code.VERSION, 0, 0, "versions 1 to 1 are spoken here", TIME)
    assert close == Close("version")


def test_many_are_as_one_after_the_other() -> None:
    """And what came before a bad frame is not lost."""
    frames = [LOGIN, *(client.data(DEVICES, sequence=number, wants_ack=True) for number in range(1, 9))]
    one, many = codec(), codec()
    events = [event for frame in frames for event in one.decode(frame)]
    assert many.decode_many(frames) == events
    with pytest.raises(BadBatch) as bad:
        codec().decode_many([*frames, b"\x69", frames[1]])
    assert bad.value.events == events
    assert isinstance(bad.value.error, BadFrame) and bad.value.error.reason == "magic"


# -- frames that are none --------------------------------------------------------------------------------


def data_of(head: str, layout: bytes, tail: str, *, channels: int = 1) -> bytes:
    """A data frame by hand: sequence and flags, layout, values."""
    body = bytes.fromhex(head) + len(layout).to_bytes(2, "big") + layout + bytes.fromhex(tail)
    return wire.frame(TIME, channels, body)


def control(kind: int, body: str = "") -> bytes:
    """A control frame by hand."""
    return wire.frame(TIME, 0, bytes((kind,)) + bytes.fromhex(body))


SEVEN = "0000000000000007 00"
LAYOUT = client.layout_of(ONE)
VALUES = "41ac0000 01"
MANY: list[client.Reading] = [(f"t{number}", Type.BOOL, True) for number in range(255)]

BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "length"),
    "a header cut": (LOGIN[:9], "length"),
    "a control frame without kind": (wire.frame(TIME, 0, b""), "length"),
    "another magic": (b"\x69" + documented()["data"][1:], "magic"),
    "less data than the header says": (documented()["data"][:-1], "length"),
    "more data than the header says": (documented()["data"] + b"\0", "length"),
    "a length of 65535": (documented()["data"][:8] + b"\xff\xff" + documented()["data"][10:], "length"),
    "a length of 0": (documented()["data"][:8] + b"\0\0", "length"),
    "no flags": (wire.frame(TIME, 1, bytes(8)), "length"),
    "an unknown flag": (data_of("0000000000000007 08", LAYOUT, VALUES), "flags"),
    "a sequence too high": (data_of("0020000000000000 00", LAYOUT, VALUES), "sequence"),
    "an ack for no sequence": (data_of("0000000000000000 01", LAYOUT, VALUES), "sequence"),
    "a layout longer than the frame": (wire.frame(TIME, 1, bytes.fromhex(SEVEN) + b"\xff\xff" + LAYOUT), "length"),
    "a layout cut": (data_of(SEVEN, LAYOUT[:-1], VALUES), "length"),
    "a layout of fewer devices": (data_of(SEVEN, LAYOUT, VALUES, channels=2), "length"),
    "a layout of more devices": (data_of(SEVEN, LAYOUT + b"\1e\1\1a\1", VALUES), "length"),
    "a device twice": (data_of(SEVEN, b"\1d\1\1a\1\1d\1\1b\1", "01 01", channels=2), "layout"),
    "a tag twice": (data_of(SEVEN, b"\1d\2\1a\1\1a\1", "01 01"), "layout"),
    "no readings": (data_of(SEVEN, b"\1d\0", ""), "layout"),
    "too many readings": (
        data_of(SEVEN, b"".join(client.layout_of([(f"{number}", MANY)]) for number in range(17)), "", channels=17),
        "layout",
    ),
    "an unknown type": (data_of(SEVEN, b"\1d\1\1a\x0e", "01"), "layout"),
    "a number that was not declared": (wire.frame(TIME, 1, bytes.fromhex("0000000000000007 04 0009 01")), "layout"),
    "a device without name": (data_of(SEVEN, b"\0\1\1a\1", "01"), "text"),
    "a device with a slash": (data_of(SEVEN, b"\3a/b\1\1a\1", "01"), "text"),
    "a device too long": (data_of(SEVEN, b"\x41" + b"d" * 65 + b"\1\1a\1", "01"), "text"),
    "a tag without name": (data_of(SEVEN, b"\1d\1\0\1", "01"), "text"),
    "a tag with a line feed": (data_of(SEVEN, b"\1d\1\1\n\1", "01"), "text"),
    "a tag that is no UTF-8": (data_of(SEVEN, b"\1d\1\1\xff\1", "01"), "text"),
    "a string that is no UTF-8": (data_of(SEVEN, b"\1d\1\1a\x0c", "0001 ff"), "text"),
    "a string cut": (data_of(SEVEN, b"\1d\1\1a\x0c", "0005 61"), "length"),
    "values cut": (data_of(SEVEN, LAYOUT, "41ac0000"), "length"),
    "values left over": (data_of(SEVEN, LAYOUT, VALUES + "00"), "length"),
    "qualities missing": (data_of("0000000000000007 02", LAYOUT, VALUES), "length"),
    "an unknown quality": (data_of("0000000000000007 02", LAYOUT, VALUES + "0004"), "quality"),
    "a second login": (LOGIN, "kind"),
    "what a broker sends": (documented()["ack"], "kind"),
    "kind 0": (control(0), "kind"),
    "kind 10": (control(10), "kind"),
    "a heartbeat with more": (control(3, "00"), "length"),
    "an answer to command 0": (control(8, "00000000 01 00 00"), "answer"),
    "an answer with result 2": (control(8, "00000001 02 00 00"), "answer"),
    "an answer with more": (control(8, "00000001 01 00 00 00"), "length"),
    "a layout of no devices": (control(5, "0001 00"), "layout"),
    "a close without reason": (control(9), "length"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_frame_has_a_reason(name: str) -> None:
    """Also when the same layout was seen before."""
    frame, reason = BAD[name]
    assert refused(frame) == reason
    made = logged_in()
    made.decode(data_of(SEVEN, LAYOUT, VALUES))
    assert refused(frame, made) == reason


BEFORE: dict[str, tuple[bytes, str]] = {
    "data": (documented()["data"], "no_login"),
    "a heartbeat": (client.heartbeat(), "no_login"),
    "a close": (client.close(""), "no_login"),
    "version 0": (control(1, "00 01 0000 0167 00 0000"), "login"),
    "versions upside down": (control(1, "02 01 0000 0167 00 0000"), "login"),
    "no gateway": (control(1, "01 01 0000 00 00 0000"), "text"),
    "a gateway with a wildcard": (control(1, "01 01 0000 0123 00 0000"), "text"),
    "a secret cut": (control(1, "01 01 0000 0167 00 0002 61"), "length"),
    "more than version 1 has": (control(1, "01 01 0000 0167 00 0000 00"), "length"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_bad_beginning(name: str) -> None:
    """Nobody is logged in yet."""
    frame, reason = BEFORE[name]
    assert refused(frame, codec()) == reason


def test_a_number_keeps_its_layout() -> None:
    """Another one is refused, and so is more than a connection may declare."""
    made = logged_in()
    made.decode(client.declare(1, ONE))
    assert refused(client.declare(1, DEVICES), made) == "layout"
    assert refused(client.data(DEVICES, layout=1), made) == "layout"
    with pytest.raises(BadFrame, match="declared layouts of more than"):
        for number in range(2, 2000):
            made.decode(client.declare(number, ONE))
    assert len(made._declared) < 1000


# -- down ------------------------------------------------------------------------------------------------


def test_what_the_gateway_is_told() -> None:
    """As its own end reads it, cut anywhere."""
    made = codec()
    made.decode(LOGIN)
    wire_bytes = made.refuse("bad password") + made.welcome() + made.safe(wire.MAX_SEQUENCE)
    wire_bytes += made.encode(Command(7, "plc-1", {}, b"\x00raw", 99)) + made.refuse("drained")
    expected = [
        client.LoginAnswer(Code.REFUSED, 1, 30, "bad password", TIME),
        client.LoginAnswer(Code.WELCOME, 1, 30, "", TIME),
        client.Ack(wire.MAX_SEQUENCE),
        client.Ordered(7, 99, "plc-1", b"\x00raw"),
        client.Closed("drained"),
    ]
    for cut in range(len(wire_bytes)):
        inbox = client.Inbox()
        assert inbox.feed(wire_bytes[:cut]) + inbox.feed(wire_bytes[cut:]) == expected


def test_a_command_that_has_only_values() -> None:
    """They are its body."""
    message = client.read(logged_in().encode(Command(1, "d", {"a": 1}, b"")))
    assert message == client.Ordered(1, 0, "d", b'{"a":1}')


@pytest.mark.parametrize(
    "command",
    [
        Command(1, "a/b", {}, b""),
        Command(1, "", {}, b""),
        Command(1, "\U0001f600" * 64, {}, b""),
        Command(1, "d", {}, bytes(65_530)),
        Command(1, "d", {}, b"", -1),
        Command(1, "d", {}, b"", 1 << 48),
    ],
)
def test_what_cannot_be_told(command: Command) -> None:
    """Is the command's failure."""
    with pytest.raises(CannotEncode):
        logged_in().encode(command)


def test_the_longest_command_fits() -> None:
    """To the last byte."""
    frame = logged_in().encode(Command(1, "d", {}, bytes(0xFFFF - 1 - 4 - 6 - 2)))
    assert len(frame) == wire.HEADER + wire.MAX_DATA


# -- with the framer, and with anything ------------------------------------------------------------------


def test_cut_anywhere_and_glued_they_are_the_same() -> None:
    """The framer and the codec together."""
    frames = [LOGIN, *(documented()[name] for name in ("data", "qualities", "declare", "declared", "heartbeat"))]
    stream = b"".join(frames)
    expected = codec().decode_many(frames)
    for cut in range(len(stream)):
        framer = framer_of(GatewayCodec.framing)
        items = framer.feed(stream[:cut]) + framer.feed(stream[cut:])
        assert items == frames
    made = logged_in()
    glued = framer_of(GatewayCodec.framing).feed(documented()["data"] * 50)
    assert len(glued) == 50 and not any(isinstance(item, FrameError) for item in glued)
    assert made.decode_many([bytes(item) for item in glued if not isinstance(item, FrameError)]) == expected[1:4] * 50


def test_another_first_byte_ends_it() -> None:
    """At once: nobody waits for a length."""
    (error,) = framer_of(GatewayCodec.framing).feed(b"\x10")
    assert isinstance(error, FrameError) and error.reason == "magic"


def mutate(frame: bytes, rng: random.Random) -> bytes:
    """A few bytes of it changed, its length right or not."""
    changed = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        if not changed:
            break
        at = rng.randrange(len(changed))
        choice = rng.random()
        if choice < 0.6:
            changed[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif choice < 0.8:
            del changed[at : at + rng.randint(1, 9)]
        else:
            changed[at:at] = rng.randbytes(rng.randint(1, 9))
    if len(changed) >= wire.HEADER and rng.random() < 0.8:
        changed[8:10] = min(len(changed) - wire.HEADER, wire.MAX_DATA).to_bytes(2, "big")
    return bytes(changed)


def noise(rng: random.Random) -> bytes:
    """A header, and anything."""
    return wire.frame(rng.getrandbits(48), rng.choice((0, 0, 1, 1, 2, 255)), rng.randbytes(rng.randrange(60)))


REASONS = ["magic", "length", "no_login", "login", "kind", "flags", "sequence", "layout", "text", "quality", "answer"]


def fuzz(count: int, seed: int) -> dict[str, int]:
    """How often each reason came; anything but ``BadFrame`` is a fault and comes out."""
    rng = random.Random(seed)
    frames = [*documented().values(), client.data(ONE, sequence=3), client.data(ONE, layout=1, sequence=4)]
    outcome: dict[str, int] = {}
    made = logged_in()
    for number in range(count):
        if number % 500 == 0:
            made = logged_in() if number % 5000 else codec()
        frame = noise(rng) if rng.random() < 0.2 else mutate(rng.choice(frames), rng)
        try:
            events = made.decode(frame)
            for event in events:
                if isinstance(event, Readings):
                    assert isinstance(values(event), dict)
            reason = "good"
        except BadFrame as error:
            reason = error.reason
        outcome[reason] = outcome.get(reason, 0) + 1
    return outcome


def test_any_bytes_are_readings_or_a_bad_frame() -> None:
    """Nothing else is raised, and every reason is among those of the document."""
    outcome = fuzz(20_000, seed_of("gateway frames"))
    assert outcome.keys() <= {"good", *REASONS}
    assert outcome["good"] > 1000 and outcome["length"] > 1000


def test_commands_are_control_frames() -> None:
    """Whatever their body is, nobody takes them for readings."""
    frame = logged_in().encode(Command(1, "d", {}, bytes(range(256))))
    assert frame[7] == 0 and frame[10] == Kind.COMMAND
