"""Protocols in which the broker speaks first, by raw sockets: a codec says the same in both isolations."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from systemkit.access import set_password
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.vendors import EXAMPLES, VENDORS, Device, environment, installed, listeners
from systemkit.waiting import wait_until

from iot_mqtt.framing import framer_of
from iot_mqtt.sdk import BadFrame, Event, Host, Login, Readings, Send, WhenSafe
from iot_mqtt.sdk.event_json import values_of
from iot_mqtt.sdk.kit import Options, subject_of
from iot_mqtt.sdk.kit.conversation import Subject
from iot_mqtt.sdk.kit.finding import codec_named
from iot_mqtt.sdk.kit.vectors import Vector
from iot_mqtt.sdk.project import write_project
from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no plugins")

IEC104 = ("iec104", "iec104-inline")
TARGETS = {
    "iec104": "iec104_link.codec:Iec104",
    "acme-scale": "acme_scale.codec:AcmeScale",
    "acme-meter": "acme_meter.codec:AcmeMeter",
}
CODECS = tuple(f"{name}{kind}" for name in TARGETS for kind in ("", "-inline"))
PASSWORD = "of all stations"
STATION = {"password": PASSWORD, "silence": 0.4}
#: A gateway's numbers are its own: what one isolation took, the other would have to take for duplicates. So is its
#: name: the scale logs in with a user, the meter with none.
CONFIG: dict[str, dict[str, object]] = {
    "iec104": STATION,
    "iec104-inline": STATION,
    "acme-meter": {"gateway_prefix": "meter-"},
    "acme-meter-inline": {"gateway_prefix": "other-"},
}
STARTDT, STARTED = bytes.fromhex("680407000000"), bytes.fromhex("68040b000000")
TESTFR, TESTED = bytes.fromhex("680443000000"), bytes.fromhex("680483000000")
STOPDT = bytes.fromhex("680413000000")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has left each of them."""
    folder = tmp_path_factory.mktemp("foreign")
    write_project("acme-meter", folder / "acme-meter")
    for project in (VENDORS / "iec104", EXAMPLES / "vendor-plugin", folder / "acme-meter"):
        installed(folder / "site", project, also="-inline")
    return folder / "site"


@pytest.fixture(scope="module")
def broker(site: Path) -> Iterator[BrokerProcess]:
    """One for all, with each plugin in a worker process (the default) and inline."""
    users = site.parent / "users"
    for user, password in {"station-7": PASSWORD, "station-9": PASSWORD, "line-3": "secret"}.items():
        set_password(users, user, password)
    ports = {codec: free_port() for codec in CODECS}
    settings: dict[str, object] = {"auth.users_file": users, "auth.allow_anonymous": True, **listeners(ports)}
    for codec in CODECS:
        for key, value in CONFIG.get(codec, {}).items():
            settings[f"plugins.{codec}.config.{key}"] = value
        if codec.endswith("-inline"):
            settings[f"plugins.{codec}.isolation"] = "inline"
    with environment(site), brokers(site.parent) as start:
        yield start(settings=settings)


@pytest.fixture(scope="module")
def subjects(site: Path) -> Mapping[str, Subject]:
    """The codecs by name, with the configuration that the broker gives them, in this process."""
    sys.path.insert(0, str(site))
    try:
        found = {name: codec_named(target) for name, target in TARGETS.items()}
    finally:
        sys.path.remove(str(site))
    return {name: subject_of(found[name.removesuffix("-inline")], CONFIG.get(name), Options()) for name in CODECS}


@pytest.fixture
def device(broker: BrokerProcess) -> Iterator[Callable[[str], Device]]:
    """Makes connections that end with the test."""
    made: list[Device] = []

    def connect(codec: str) -> Device:
        made.append(Device(broker, codec))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def end_of_init(station: int) -> bytes:
    return bytes.fromhex("680e0000000046010400") + station.to_bytes(2, "little") + bytes(4)


def voltage(station: int, number: int) -> bytes:
    control = (number << 1).to_bytes(2, "little") + bytes(2)
    return (
        b"\x68\x12"
        + control
        + bytes.fromhex("0d010300")
        + station.to_bytes(2, "little")
        + bytes.fromhex("1400000000dc4300")
    )


@pytest.mark.parametrize("codec", IEC104)
def test_a_substation_hears_the_first_frame_and_tests(
    codec: str, broker: BrokerProcess, device: Callable[[str], Device]
) -> None:
    """It says nothing before STARTDT, and is asked when it is silent; its readings and its commands pass."""
    station = device(codec)
    assert station.hear(6, 5) == STARTDT, "a client that waits for the first frame waits for ever"
    listener = Listener(broker, "up/station-7/#")
    station.say(STARTED, end_of_init(7))
    interrogation = bytes.fromhex("680e0000020064010600070000000014")
    acknowledged = bytes.fromhex("680401000200")
    heard = station.hear(6 + len(interrogation) + len(acknowledged), 5)[6:]
    assert heard == interrogation + acknowledged
    station.say(voltage(7, 1))
    wait_until(lambda: listener.of("up/station-7/20"))
    assert listener.of("up/station-7/20")[0]["values"] == {"value": 440.0}
    listener.close()
    before = station.hear(34, 5)
    assert before[-6:] == bytes.fromhex("680401000400")
    assert station.hear(len(before) + 6, 5)[len(before) :] == TESTFR, "no test frame came"
    station.say(TESTED)


@pytest.mark.parametrize("codec", IEC104)
def test_what_came_before_bytes_that_are_no_frame_is_taken(
    codec: str, broker: BrokerProcess, device: Callable[[str], Device]
) -> None:
    """Also by a codec that reads it a moment later than the framing."""
    listener = Listener(broker, "up/station-7/#")
    station = device(codec)
    station.say(STARTED, end_of_init(7))
    station.hear(28)
    station.say(*(voltage(7, number) for number in range(1, 401)), b"\x69\x04")
    station.until_closed()
    wait_until(lambda: len(listener.of("up/station-7/20")) == 400)
    listener.close()


@pytest.mark.parametrize("codec", IEC104)
def test_a_substation_that_is_not_let_in_is_told_so(codec: str, device: Callable[[str], Device]) -> None:
    """The bytes of ``refuse`` come before the end: its password is wrong, or its name connects again."""
    stranger = device(codec)
    stranger.say(STARTED, end_of_init(8))
    assert stranger.until_closed() == STARTDT + STOPDT
    first, second = device(codec), device(codec)
    for one in (first, second):
        one.say(STARTED, end_of_init(9))
        one.hear(28)
    assert first.until_closed()[28:] == STOPDT
    assert not second.is_closed()


class Script:
    """A golden vector as a device plays it: each frame, and what it is to be told, by a codec without a broker."""

    def __init__(self, subject: Subject, vector: Vector) -> None:
        self.steps: list[tuple[bytes, bytes]] = []
        self.readings: list[dict[str, object]] = []
        self.gateway = ""
        self.ends = bool(vector.bad)
        host = Host(subject.config, peer="", log=logging.getLogger(), count=lambda *_: None, now=lambda: 0)
        self._codec = subject.codec(host)
        self._framer = framer_of(subject.codec.framing)
        self._step(b"", self._codec.opened())
        for one in (*subject.vectors.before(vector), vector):
            for frame in one.frames:
                self._step(frame, self._decoded(frame))

    def _decoded(self, frame: bytes) -> Iterator[Event]:
        for item in self._framer.feed(frame):
            if not isinstance(item, bytes):
                return
            try:
                yield from self._codec.decode(item)
            except BadFrame as error:
                # Who was let in is told.
                if self.gateway:
                    yield Send(self._codec.refuse(f"bad_frame: {error.reason}"))
                return

    def _step(self, frame: bytes, events: Iterable[Event]) -> None:
        told = b""
        for event in events:
            match event:
                case Send(data=data):
                    told += data
                case Login(gateway=gateway, username=user, secret=secret):
                    refused = user is not None and secret is None
                    told += self._codec.refuse("bad_user_name_or_password") if refused else self._codec.welcome()
                    self.gateway, self.ends = gateway, self.ends or refused
                case WhenSafe(token=token):
                    told += self._codec.safe(token)
                case Readings():
                    self.readings.append(values_of(event))
        self.steps.append((frame, told))

    def play(self, device: Device) -> None:
        expected = b""
        for frame, told in self.steps:
            device.say(frame)
            expected += told
            assert device.hear(len(expected)) == expected
        if self.ends:
            assert device.until_closed() == expected
        else:
            assert not device.is_closed() and device.heard == expected


@pytest.mark.parametrize("codec", CODECS)
def test_golden_frames_mean_the_same_in_both_isolations(
    codec: str, subjects: Mapping[str, Subject], broker: BrokerProcess, device: Callable[[str], Device]
) -> None:
    """Those of the examples, of a project that was just begun, and of a protocol that is harder."""
    listener = Listener(broker, "up/#")
    expected: list[object] = []
    for vector in subjects[codec].vectors.up():
        script = Script(subjects[codec], vector)
        script.play(device(codec))
        expected += script.readings
        wait_until(partial(listener.has, len(expected)))
    assert [told["values"] for told in listener.of("up/")] == expected and expected
    listener.close()
