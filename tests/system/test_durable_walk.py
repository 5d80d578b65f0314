"""The first walk of whoever tries durable sessions: subscribe, leave, let others publish, pull the plug, come back.

With the clients a user would take: ``mosquitto_sub`` and ``mosquitto_pub``, and paho, which does not subscribe again.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from systemkit.forking import clean_environment
from systemkit.process import BrokerProcess, our_command

COUNT = 200
WAIT = 20.0
NUMBERS = [str(number) for number in range(1, COUNT + 1)]

pytestmark = [
    pytest.mark.parametrize("qos", [1, 2]),
    pytest.mark.parametrize("version", [pytest.param(4, id="3.1.1"), pytest.param(5, id="5.0")]),
]


def _ctl(broker: BrokerProcess, *arguments: str) -> Any:
    """What ``iot-mqtt ctl`` says, as an operator would ask it."""
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _assert_known_and_away(broker: BrokerProcess, client_id: str) -> None:
    """After the restart and before anybody has connected: the session is there, nobody else is."""
    assert _ctl(broker, "status")["clients"] == 0
    (session,) = _ctl(broker, "sessions", "list")
    assert (session["client_id"], session["connected"], session["durable"]) == (client_id, False, True)
    assert session["state"] == "offline"
    assert session["disconnected_at"] is not None
    assert session["subscriptions"] == 1
    deadline = time.monotonic() + WAIT
    while (waiting := _ctl(broker, "sessions", "show", client_id)["backlog"]) is None:  # being counted
        assert time.monotonic() < deadline
    assert waiting == COUNT


def _mosquitto(program: str, broker: BrokerProcess, version: int, *arguments: str, given: str = "") -> str:
    where = ["-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-V", "mqttv5" if version == 5 else "mqttv311"]
    done = subprocess.run(
        [program, *where, *arguments], input=given, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, f"{program}: {done.stderr}"
    return done.stdout


def test_the_walk_with_mosquitto_clients(broker: BrokerProcess, version: int, qos: int) -> None:
    """All that was published meanwhile is printed, in order, by the same command as before the restart."""
    session = ["-i", "emqx_c", "-c", "-q", str(qos), "-t", "t/1"]
    if version == 5:
        session += ["-x", "3600"]
    _mosquitto("mosquitto_sub", broker, version, *session, "-E")
    lines = "".join(f"{number}\n" for number in NUMBERS)
    _mosquitto("mosquitto_pub", broker, version, "-i", "p", "-t", "t/1", "-q", str(qos), "-l", given=lines)
    broker.restart(kill=True)
    _assert_known_and_away(broker, "emqx_c")
    printed = _mosquitto("mosquitto_sub", broker, version, *session, "-C", str(COUNT), "-W", str(int(WAIT)))
    assert printed.split() == NUMBERS


class _Reader:
    """A paho client with a session of its own."""

    def __init__(self, broker: BrokerProcess, version: int, qos: int) -> None:
        self._broker, self._five, self._qos = broker, version == 5, qos
        plain: dict[str, Any] = {} if self._five else {"clean_session": False}
        protocol = paho.MQTTv5 if self._five else paho.MQTTv311
        self.client = paho.Client(CallbackAPIVersion.VERSION2, "paho-c", protocol=protocol, **plain)
        self.got: list[str] = []
        self._present = False
        self._connected, self._subscribed = threading.Event(), threading.Event()
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = self._on_message

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self._present = flags.session_present
        self._connected.set()

    def _on_message(self, client: Any, data: Any, message: paho.MQTTMessage) -> None:
        self.got.append(message.payload.decode())

    def enter(self) -> bool:
        """Connect; whether the broker had a session for it."""
        options: dict[str, Any] = {}
        if self._five:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = 3600
            options = {"clean_start": False, "properties": properties}
        self._connected.clear()
        self.client.connect("127.0.0.1", self._broker.ports["mqtt"], 60, **options)
        self.client.loop_start()
        assert self._connected.wait(WAIT)
        return self._present

    def subscribe(self) -> None:
        self.client.subscribe("t/1", qos=self._qos)
        assert self._subscribed.wait(WAIT)

    def wait_for(self, payload: str) -> None:
        deadline = time.monotonic() + WAIT
        while not self.got or self.got[-1] != payload:
            assert time.monotonic() < deadline, f"{payload!r} is not the last of {len(self.got)}"
            time.sleep(0.02)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def test_the_walk_with_paho(broker: BrokerProcess, version: int, qos: int) -> None:
    """The session remembers the subscription; what waited comes without asking for it again, each once."""
    reader = _Reader(broker, version, qos)
    assert not reader.enter(), "there was a session already"
    reader.subscribe()
    reader.leave()
    publish = ["-i", "p", "-t", "t/1", "-q", str(qos)]
    lines = "".join(f"{number}\n" for number in NUMBERS)
    _mosquitto("mosquitto_pub", broker, version, *publish, "-l", given=lines)
    broker.restart(kill=True)
    _assert_known_and_away(broker, "paho-c")
    assert reader.enter(), "the session is gone"
    try:
        reader.wait_for(NUMBERS[-1])
        _mosquitto("mosquitto_pub", broker, version, *publish, "-m", "live")
        reader.wait_for("live")
    finally:
        reader.leave()
    assert reader.got == [*NUMBERS, "live"]
