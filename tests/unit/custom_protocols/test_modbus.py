"""Modbus: responses as values, writes as requests, frames of both forms, and what is refused."""

from __future__ import annotations

import json
import logging
import random
import struct
from pathlib import Path

import pytest
import yaml

from iot_mqtt.custom_protocols.modbus import ModbusRtu, ModbusTcp
from iot_mqtt.custom_protocols.modbus import codec as codec_module
from iot_mqtt.custom_protocols.modbus.settings import Config, Device, Poll, Register
from iot_mqtt.framing import framer_of
from iot_mqtt.sdk import (
    Answer,
    BadBatch,
    BadFrame,
    CannotEncode,
    Command,
    Heartbeat,
    Host,
    Login,
    Readings,
    checksum_of,
)
from iot_mqtt.sdk.config import BadConfig, config_from
from tests.seeds import seed_of

REGISTERS = (
    Register("temperature", 0, "i16", scale=0.1, unit="°C"),
    Register("energy", 1, "u32"),
    Register("power", 3, "f32", words="little"),
    Register("setpoint", 10, "i16", scale=0.1, writable=True),
    Register("limit", 11, "u32", writable=True),
    Register("speed", 20, "f32", words="little", writable=True),
    Register("running", 0, "bool", "coil", writable=True),
    Register("open", 9, "bool", "coil", writable=True),
    Register("closed", 10, "bool", "coil", writable=True),
    Register("door", 3, "bool", "discrete"),
    Register("pressure", 0, "u16", "input", slave=2),
)
POLLS = (Poll(1, 3, 0, 5), Poll(1, 1, 0, 11), Poll(1, 2, 0, 4), Poll(2, 4, 0, 1), Poll(2, 3, 0, 2))
CONFIG = Config(registers=REGISTERS, polls=POLLS, devices=(Device(1, "boiler"),), gateway="dtu-1")

#: 21.4, 70000, 1.5 of slave 1: what a slave says to function 3 from 0 on, for 5 registers.
HOLDING = bytes.fromhex("03 0a 00d6 00011170 0000 3fc0")
VALUES = {"temperature": 21.4, "energy": 70000, "power": 1.5}


def host(config: Config, counted: dict[str, int] | None = None) -> Host[Config]:
    """What the broker gives."""

    def count(name: str, by: int) -> None:
        if counted is not None:
            counted[name] = counted.get(name, 0) + by

    return Host(config, peer="10.0.0.7:502", log=logging.getLogger("test"), count=count, now=lambda: 0)


def tcp(config: Config = CONFIG, counted: dict[str, int] | None = None) -> ModbusTcp:
    return ModbusTcp(host(config, counted))


def rtu(counted: dict[str, int] | None = None, **changes: object) -> ModbusRtu:
    """With the registers of all, and other settings."""
    settings = {"registers": REGISTERS, "polls": POLLS, "devices": (Device(1, "boiler"),), **changes}
    return ModbusRtu(host(Config(**settings), counted))  # type: ignore[arg-type]


def mbap(body: bytes, transaction: int = 0) -> bytes:
    """Slave and what it says in a frame of Modbus TCP."""
    return struct.pack(">HHH", transaction, 0, len(body)) + body


def line(body: bytes) -> bytes:
    """The same as on the serial line."""
    return body + checksum_of("crc16-modbus")(body).to_bytes(2, "little")


def command(number: int = 1, device: str = "boiler", /, **values: object) -> Command:
    return Command(number, device, values, json.dumps(values).encode())


# -- responses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"\1" + HOLDING, Readings("boiler", VALUES)),
        (bytes.fromhex("01 01 02 0106"), Readings("boiler", {"running": True, "open": True, "closed": True})),
        (bytes.fromhex("01 01 02 0002"), Readings("boiler", {"running": False, "open": True, "closed": False})),
        (bytes.fromhex("01 02 01 08"), Readings("boiler", {"door": True})),
        (bytes.fromhex("02 04 02 ffff"), Readings("slave-2", {"pressure": 65535})),
        (bytes.fromhex("02 03 04 ff9c 0000"), Readings("slave-2", {"temperature": -10.0})),
        (
            bytes.fromhex("01 03 0a 00d6 00011170 0000 7fc0"),
            Readings("boiler", {**VALUES, "power": None}, quality={"power": "bad"}),
        ),
        (bytes.fromhex("02 84 02"), Readings("slave-2", {"pressure": None}, quality={"pressure": "bad"})),
        (bytes.fromhex("09 03 02 0000"), Heartbeat()),
        (bytes.fromhex("01 03 02 0000"), Heartbeat()),
        (bytes.fromhex("09 83 02"), Heartbeat()),
    ],
)
def test_responses(body: bytes, expected: object) -> None:
    """The same in Modbus TCP, in RTU inside of it, and on the line."""
    assert tcp().decode(mbap(body)) == [expected]
    assert tcp(Config(registers=REGISTERS, polls=POLLS, devices=CONFIG.devices, crc=True)).decode(mbap(line(body))) == [
        expected
    ]
    assert rtu().decode(line(body)) == [expected]


def test_the_checksum_is_that_of_modbus() -> None:
    """A frame that many manuals show: slave 1 is asked for ten registers from 0 on."""
    assert line(bytes.fromhex("01030000000a")) == bytes.fromhex("01030000000ac5cd")


def test_who_a_gateway_is() -> None:
    """As configured, as its address, or as it says first."""
    assert list(tcp().opened()) == [Login("dtu-1")]
    assert list(tcp(Config(user="u", password="p")).opened()) == [Login("modbus-10.0.0.7", "u", b"p")]
    made = rtu(registration=15)
    assert list(made.opened()) == []
    assert made.decode(b"86012345678901") == []
    assert made.decode(b"2" + line(b"\1" + HOLDING)) == [Login("860123456789012"), Readings("boiler", VALUES)]
    with pytest.raises(BadFrame, match="registration"):
        rtu(registration=4).decode(b"a/b+")


# -- writes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "pdu"),
    [
        ({"setpoint": 21.5}, "06 000a 00d7"),
        ({"setpoint": -1}, "06 000a fff6"),
        ({"limit": 70000}, "10 000b 0002 04 00011170"),
        ({"limit": 70000, "setpoint": 21.5}, "10 000a 0003 06 00d7 00011170"),
        ({"speed": 1.5}, "10 0014 0002 04 0000 3fc0"),
        ({"running": True}, "05 0000 ff00"),
        ({"running": False}, "05 0000 0000"),
        ({"open": True, "closed": False}, "0f 0009 0002 01 01"),
    ],
)
def test_writes(values: dict[str, object], pdu: str) -> None:
    """One register or coil with the short functions; the slave's echo is the answer."""
    body = b"\1" + bytes.fromhex(pdu)
    number = 0x10007
    made, serial = tcp(), rtu()
    assert made.encode(command(number, "boiler", **values)) == mbap(body, 7)
    assert serial.encode(command(number, "boiler", **values)) == line(body)
    assert made.decode(mbap(body[:6], 7)) == [Answer(number, ok=True)]
    assert serial.decode(line(body[:6])) == [Answer(number, ok=True)]


def test_a_slave_refuses() -> None:
    """With the number that the standard has for it."""
    counted: dict[str, int] = {}
    for made, wrap in ((tcp(counted=counted), lambda body: mbap(body, 1)), (rtu(counted), line)):
        made.encode(command(setpoint=1))
        assert made.decode(wrap(b"\1\x86\2")) == [Answer(1, ok=False, detail="exception 2: illegal data address")]
        assert made.decode(wrap(b"\1\x86\2")) == [Heartbeat()]
    assert counted["exceptions"] == 4


def test_an_answer_to_nothing() -> None:
    """Late ones, and ones of others, are counted."""
    counted: dict[str, int] = {}
    made = tcp(counted=counted)
    made.encode(command(1, setpoint=1))
    other = bytes.fromhex("01 06 000a 0063")
    assert made.decode(mbap(other, 1)) == made.decode(mbap(bytes.fromhex("01 06 000a 000a"), 2)) == [Heartbeat()]
    assert made.decode(mbap(bytes.fromhex("01 06 000a 000a"), 1)) == [Answer(1, ok=True)]
    assert counted == {"unknown_answers": 2}


def test_writes_that_nobody_answers_are_bounded() -> None:
    """The oldest is given up."""
    counted: dict[str, int] = {}
    made = tcp(counted=counted)
    for number in range(1, codec_module.MAX_PENDING + 11):
        made.encode(command(number, setpoint=1))
    assert len(made._pending) == codec_module.MAX_PENDING
    assert counted == {"unanswered_writes": 10}


@pytest.mark.parametrize(
    ("device", "values", "why"),
    [
        ("boiler", {}, "a command is"),
        ("boiler", {"nothing": 1}, "no tag"),
        ("boiler", {"temperature": 1}, "not writable"),
        ("boiler", {"setpoint": "hot"}, "a number"),
        ("boiler", {"setpoint": True}, "a number"),
        ("boiler", {"setpoint": None}, "a number"),
        ("boiler", {"setpoint": 4000}, "does not fit"),
        ("boiler", {"limit": -1}, "does not fit"),
        ("boiler", {"speed": 1e39}, "does not fit"),
        ("boiler", {"running": 1}, "true or false"),
        ("boiler", {"running": True, "closed": True}, "next to one another"),
        ("boiler", {"setpoint": 1, "speed": 1}, "next to one another"),
        ("boiler", {"setpoint": 1, "running": True}, "next to one another"),
        ("slave-1", {"setpoint": 1}, "no slave"),
        ("slave-0", {"setpoint": 1}, "no slave"),
        ("slave-248", {"setpoint": 1}, "no slave"),
        ("slave-02", {"setpoint": 1}, "no slave"),
        ("slave-²", {"setpoint": 1}, "no slave"),
        ("2", {"setpoint": 1}, "no slave"),
    ],
)
def test_what_cannot_be_written(device: str, values: dict[str, object], why: str) -> None:
    """Is the command's failure, with the reason."""
    with pytest.raises(CannotEncode, match=why):
        tcp().encode(command(1, device, **values))


def test_a_slave_without_name_can_be_written() -> None:
    """By its number."""
    assert tcp().encode(command(1, "slave-2", setpoint=1)) == mbap(bytes.fromhex("02 06 000a 000a"), 1)


# -- frames that are none --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "length"),
        (bytes(7), "length"),
        (mbap(b"\1"), "length"),
        (mbap(b"\1" + HOLDING)[:-1], "length"),
        (mbap(b"\1" + HOLDING[:-1]), "length"),
        (mbap(b"\1\3"), "length"),
        (mbap(b"\1" + HOLDING + b"\0"), "length"),
        (b"\0\0\0\1" + mbap(b"\1" + HOLDING)[4:], "protocol"),
        (mbap(bytes.fromhex("01 07 00")), "function"),
        (mbap(bytes.fromhex("01 06 000a")), "length"),
        (mbap(bytes.fromhex("01 83")), "length"),
        (mbap(bytes.fromhex("01 83 02 00")), "length"),
    ],
)
def test_a_bad_frame_has_a_reason(frame: bytes, reason: str) -> None:
    with pytest.raises(BadFrame) as bad:
        tcp().decode(frame)
    assert bad.value.reason == reason


def test_a_length_that_no_frame_can_have_is_known_with_the_header() -> None:
    """It is too long: nothing of it is waited for."""
    items = framer_of(ModbusTcp.framing).feed(struct.pack(">HHH", 1, 0, 3000))
    assert [item.reason for item in items if not isinstance(item, bytes)] == ["too_long"]


def test_a_wrong_checksum() -> None:
    """Closes the connection, or is passed over, as configured; what came before is not lost."""
    good = line(b"\1" + HOLDING)
    stream = good + good[:-1] + b"\0" + good
    with pytest.raises(BadBatch) as bad:
        rtu().decode_many([stream])
    assert bad.value.events == [Readings("boiler", VALUES)]
    assert isinstance(bad.value.error, BadFrame) and bad.value.error.reason == "checksum"
    with pytest.raises(BadFrame, match="checksum"):
        tcp(Config(crc=True)).decode(mbap(good[:-1] + b"\0"))
    counted: dict[str, int] = {}
    made = rtu(counted, resync="skip")
    assert made.decode_many([stream]) == [Readings("boiler", VALUES)] * 2
    assert counted["skipped_bytes"] == len(good)
    with pytest.raises(BadFrame):
        made.decode(bytes(2000))


@pytest.mark.parametrize("body", [b"\1" + HOLDING, bytes.fromhex("02 84 02"), bytes.fromhex("01 01 02 0106")])
def test_behind_a_bad_frame_each_good_one_is_taken_when_it_comes(body: bytes) -> None:
    """Whatever byte of it is wrong, and however that reads: as a length, for one. So is the echo of a write."""
    good, reading = line(b"\1" + HOLDING), [Readings("boiler", VALUES)]
    frame = line(body)
    for at in range(len(frame)):
        for wrong in range(1, 256):
            made = rtu(resync="skip")
            bad = bytearray(frame)
            bad[at] ^= wrong
            made.decode_many([bytes(bad)])
            assert made.decode_many([good]) == reading, bad.hex()
            echo = made.encode(command(setpoint=1))
            assert made.decode_many([echo]) == [Answer(1, ok=True)]
            assert made.decode_many([good]) == reading


def test_behind_a_bad_frame_only_what_can_come_is_waited_for() -> None:
    """What nobody asked for is counted if it is whole, and skipped if it is not."""
    counted: dict[str, int] = {}
    made = rtu(counted, resync="skip", heartbeat="feff")
    stranger = line(bytes.fromhex("07 03 04 00000000"))
    assert made.decode_many([stranger[:4]]) == [] and made.decode_many([stranger[4:]]) == [Heartbeat()]
    assert counted == {"unknown_responses": 1}
    noise = b"\x55\xaa\x55\xaa\x55"
    assert made.decode_many([noise + stranger]) == [Heartbeat()]
    assert counted == {"unknown_responses": 2, "skipped_bytes": 5}
    good = line(b"\1" + HOLDING)
    assert made.decode_many([noise + stranger[:5]]) == []
    assert made.decode_many([b"\xfe\xff" + good[:9]]) == [Heartbeat()]
    assert made.decode_many([good[9:]]) == [Readings("boiler", VALUES)]
    assert counted == {"unknown_responses": 2, "skipped_bytes": 15}


def test_an_unknown_function_on_the_line() -> None:
    """Nobody knows how long its frame is."""
    with pytest.raises(BadFrame, match="function 7"):
        rtu().decode(b"\1\7\0")


def test_cut_anywhere_and_glued_they_are_the_same() -> None:
    """With heartbeats between them; RTU frames as the framer gives them, byte by byte."""
    body = b"\1" + HOLDING
    parts = [line(body), b"www", line(bytes.fromhex("02 84 02")), b"www", line(body)]
    stream = b"".join(parts)
    expected = rtu(heartbeat="777777").decode_many([stream])
    assert len(expected) == 5 and expected[1] == Heartbeat()
    for cut in range(len(stream)):
        made, framer = rtu(heartbeat="777777"), framer_of(ModbusRtu.framing)
        events = []
        for piece in (stream[:cut], stream[cut:]):
            events += made.decode_many([bytes(item) for item in framer.feed(piece) if isinstance(item, bytes)])
        assert events == expected
        tcp_framer = framer_of(ModbusTcp.framing)
        whole = mbap(body, 1) * 3
        assert tcp_framer.feed(whole[:cut]) + tcp_framer.feed(whole[cut:]) == [mbap(body, 1)] * 3
    assert rtu().decode_many([line(body) * 50]) == [Readings("boiler", VALUES)] * 50


def fuzz(count: int, seed: int) -> dict[str, int]:
    """Mutated and random bytes for both; anything but ``BadFrame`` comes out."""
    rng = random.Random(seed)
    bodies = [
        b"\1" + HOLDING,
        bytes.fromhex("01 01 02 0106"),
        bytes.fromhex("02 84 02"),
        bytes.fromhex("01 06 000a 000a"),
    ]
    outcome: dict[str, int] = {}
    for number in range(count):
        body = bytearray(rng.choice(bodies) if rng.random() < 0.8 else rng.randbytes(rng.randrange(1, 40)))
        if rng.random() < 0.7:
            body[rng.randrange(len(body))] = rng.randrange(256)
        if number % 2:
            made: ModbusTcp | ModbusRtu = tcp()
            frame = mbap(bytes(body), number & 0xFFFF) if rng.random() < 0.9 else bytes(body)
        else:
            made = rtu(resync=rng.choice(("close", "skip")), heartbeat=rng.choice(("", "0103")))
            frame = line(bytes(body)) + bytes(rng.choice((0, 1, 300)))
            if rng.random() < 0.6:
                frame = frame[:-1] + rng.randbytes(1)
        made.encode(command(number + 1, setpoint=1))
        try:
            made.decode(frame)
            reason = "good"
        except BadFrame as error:
            reason = error.reason
        outcome[reason] = outcome.get(reason, 0) + 1
    return outcome


def test_any_bytes_are_events_or_a_bad_frame() -> None:
    """Nothing else is raised."""
    outcome = fuzz(5_000, seed_of("modbus frames"))
    assert outcome.keys() <= {"good", "length", "checksum", "function", "protocol"}
    assert min(outcome["good"], outcome["length"], outcome["checksum"]) > 50


# -- configuration ---------------------------------------------------------------------------------------


def test_the_configuration_as_it_is_written() -> None:
    """Plain data in, the same settings."""
    written = {
        "registers": [{"tag": "temperature", "address": 0, "type": "i16", "scale": 0.1, "unit": "°C"}],
        "polls": [{"slave": 1, "function": 3, "start": 0, "count": 5}],
        "devices": [{"slave": 1, "id": "boiler"}],
    }
    read = config_from(Config, written)
    assert read == Config(registers=REGISTERS[:1], polls=POLLS[:1], devices=CONFIG.devices)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"registers": [{"tag": "", "address": 0}]}, "needs a tag"),
        ({"registers": [{"tag": "a", "address": 65535, "type": "u32"}]}, "address"),
        ({"registers": [{"tag": "a", "address": 0, "type": "bool"}]}, "of type bool"),
        ({"registers": [{"tag": "a", "address": 0, "table": "coil"}]}, "of type bool"),
        ({"registers": [{"tag": "a", "address": 0, "scale": 0}]}, "scale"),
        ({"registers": [{"tag": "a", "address": 0, "table": "input", "writable": True}]}, "written"),
        ({"registers": [{"tag": "a", "address": 0}, {"tag": "a", "address": 1}]}, "twice"),
        ({"polls": [{"slave": 0, "function": 3, "start": 0, "count": 5}]}, "slave 0"),
        ({"polls": [{"slave": 1, "function": 3, "start": 0, "count": 126}]}, "count 126"),
        ({"polls": [{"slave": 1, "function": 3, "start": 65535, "count": 2}]}, "end behind"),
        ({"polls": [{"slave": 1, "function": 3, "start": at, "count": 2} for at in (0, 9)]}, "same size"),
        ({"devices": [{"slave": 1, "id": "a"}, {"slave": 1, "id": "b"}]}, "two devices"),
        ({"devices": [{"slave": 1, "id": "a"}, {"slave": 2, "id": "a"}]}, "same device"),
        ({"devices": [{"slave": 0, "id": "a"}]}, "slave 0"),
        ({"devices": [{"slave": 1, "id": "a/b"}]}, "without /"),
        ({"gateway": "a/b"}, "without /"),
        ({"heartbeat": "ping"}, "hexadecimal"),
        ({"heartbeat": "00" * 65}, "64 bytes"),
        ({"registration": 65}, "registration"),
    ],
)
def test_a_configuration_that_cannot_be(written: dict[str, object], why: str) -> None:
    """Is refused with a sentence."""
    with pytest.raises(BadConfig, match=why):
        config_from(Config, written)


def test_the_configuration_of_the_document() -> None:
    """Can be used as it is shown."""
    text = (Path(__file__).parents[3] / "docs" / "modbus.md").read_text(encoding="utf-8")
    shown = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    read = config_from(Config, shown["plugins"]["modbus"]["config"])
    made = tcp(read)
    assert made.decode(mbap(b"\1" + HOLDING))[0] == Readings("boiler", VALUES)
    assert made.encode(command(setpoint=21.5)) == mbap(bytes.fromhex("01 06 000a 00d7"), 1)
