"""Devices whose frames crash or stall their codec, beside good ones of the same codec, at a real broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import partial

import pytest
from systemkit.forking import clean_environment
from systemkit.listener import Listener
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import brokers
from systemkit.vendors import Device, environment, installed, listeners, plugin, project_of
from systemkit.waiting import wait_until
from systemkit.why import named

from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto knows no plugins")

CODEC = """
import ctypes, time
from iot_mqtt.sdk import *


class Device(Codec):
    framing = Line()

    def decode(self, frame):
        word, _, rest = frame.decode().partition(" ")
        if word == "login":
            return [Login(rest)]
        if word == "crash":
            ctypes.string_at(8)
        if word == "stall":
            time.sleep(float(rest))
        return [Readings("d", {"n": rest})]

    def welcome(self):
        return b"hello"
"""
CODECS = ("tracker", "tracker-nat", "tracker-bug", "tracker-slow")
LIMITS = {"tracker-slow": {"stall": 0.03, "slow_frame": 0.01}}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a plugin for each test, as one that crashed for one test would be gone for another."""
    folder = tmp_path_factory.mktemp("crashing")
    for codec in CODECS:
        installed(folder / "site", project_of(folder / codec, codec, CODEC))
    settings = listeners({codec: free_port() for codec in CODECS})
    for codec, limits in LIMITS.items():
        settings |= {f"plugins.{codec}.limits.{key}": value for key, value in limits.items()}
    with environment(folder / "site"), brokers(folder) as start:
        yield start(settings=settings)


def ctl(broker: BrokerProcess, *words: str) -> str:
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), *words]
    done = subprocess.run(command, env=clean_environment(), check=True, capture_output=True, text=True, timeout=50)
    return done.stdout


class Good:
    """A device that posts, and connects again when it is closed."""

    def __init__(self, broker: BrokerProcess, codec: str, name: str, host: str) -> None:
        self._make = partial(Device, broker, codec, host)
        self.name = name
        self.logins = 0
        self._device: Device | None = None

    def post(self, number: int, listener: Listener) -> None:
        """Until the reading was published."""

        def published() -> bool:
            if self._device is None or self._device.is_closed():
                self._device = self._make()
                self._device.say(f"login {self.name}\nr {number}\n".encode())
                self.logins += bool(self._device.hear(5))
            return any(one["values"]["n"] == str(number) for one in listener.of(f"up/{self.name}/"))

        if self._device is not None and not self._device.is_closed():
            self._device.say(b"r %d\n" % number)
        wait_until(published)


def crash(broker: BrokerProcess, codec: str, name: str, host: str) -> None:
    """A device that logs in, sends what crashes the codec, and is closed."""
    bad = Device(broker, codec, host)
    bad.say(f"login {name}\ncrash\n".encode())
    bad.until_closed()
    bad.close()


@pytest.mark.parametrize(("codec", "host"), [("tracker", "127.0.0.5"), ("tracker-nat", "127.0.0.1")])
def test_a_device_that_crashes_the_codec_again_and_again_is_held_off_alone(
    codec: str, host: str, broker: BrokerProcess
) -> None:
    """It comes back at once, for as long as one likes; also from the address that the good devices have."""
    listener = Listener(broker, "up/#")
    goods = [Good(broker, codec, f"{codec}-good-{number}", "127.0.0.1") for number in range(3)]
    for number in range(6):
        crash(broker, codec, f"{codec}-bad", host)
        for good in goods:
            good.post(number, listener)
    told = plugin(broker, codec)
    assert told["state"] == "ready" and not told["quarantines"], told
    assert told["faults"]["died"] <= 2, told
    assert all(good.logins <= 1 + told["faults"]["died"] for good in goods)
    (held,) = told["held_off"]
    assert (held["kind"], held["name"]) == ("device", f"{codec}-bad") and held["seconds"] > 0
    if codec == "tracker":
        assert f"device {codec}-bad for" in ctl(broker, "plugins", "show", codec)
        assert "held off" in ctl(broker, "why", f"{codec}-bad")
    assert f"device {codec}-bad is held off" in broker.log_text()
    listener.close()


def test_what_several_show_is_the_plugins_fault(broker: BrokerProcess) -> None:
    """Three devices of three addresses: nobody else is let in, either."""
    for number in range(3):
        wait_until(lambda: plugin(broker, "tracker-bug")["state"] == "ready")
        crash(broker, "tracker-bug", f"bug-{number}", f"127.0.1.{number + 1}")
    wait_until(lambda: plugin(broker, "tracker-bug")["state"] == "quarantined")
    assert "died" in plugin(broker, "tracker-bug")["faults"]
    other = Device(broker, "tracker-bug", "127.0.1.9")
    assert other.until_closed() == b""
    for asked in ("bug-0", "127.0.1.9"):
        named(broker, asked, "codec_quarantined", "tracker-bug", "quarantine")


def stalled(broker: BrokerProcess, number: int) -> bool:
    return bool(plugin(broker, "tracker-slow")["slow"].get("stalled") == number)


def test_stalls_are_counted_and_whoever_causes_many_is_held_off(broker: BrokerProcess) -> None:
    """Each ends before the watchdog has noticed anything."""
    slow = Device(broker, "tracker-slow")
    slow.say(b"login snail\n", b"stall 0.015\n" * 3)
    for number in range(1, 6):
        slow.say(b"stall 0.05\n")
        wait_until(partial(stalled, broker, number))
    told = plugin(broker, "tracker-slow")
    assert told["slow"]["slow"] >= 5 and told["slowest"] >= 0.05 and told["faults"] == {"slow": 5}
    assert [one["name"] for one in told["held_off"]] == ["snail"]
    slow.until_closed()
    again = Device(broker, "tracker-slow")
    again.say(b"login snail\n")
    assert again.until_closed() == b""
    other = Device(broker, "tracker-slow")
    other.say(b"login hare\n")
    assert other.hear(5) == b"hello"
