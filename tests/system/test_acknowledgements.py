"""What has been answered is there after a power cut: ``docs/acknowledgements.md``, line by line.

One broker notes what its disk has synced (``systemkit.powercut``). Behind each answer its mark has to be in that, and
when all of them were given, the power is cut: what was not synced is gone, and the next start knows all of it.
"""

from __future__ import annotations

import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.powercut import Power
from systemkit.process import MOSQUITTO, BrokerProcess, Options
from systemkit.users import call

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="looks into the log of our own engine")

SETTINGS = {
    "auth.chain": "[grid, anonymous]",
    "log.record": "['recorded/#']",
    "uplink.rules": "[{filter: 'goes/up/#', to: iot.readings}]",
}


class Noting(BrokerProcess):
    """Its disk says what it has synced, until ``notes`` is None."""

    notes: Path | None = None

    def command(self) -> list[str]:
        words = super().command()
        if self.notes is None:
            return words
        script = Path(__file__).parent / "systemkit" / "powercut.py"
        return [sys.executable, str(script), str(self.notes), *words[words.index("serve") :]]


@contextmanager
def noting(folder: Path) -> Iterator[tuple[Noting, Power]]:
    """A broker that runs, and what a power cut would leave of it."""
    broker = Noting(folder / "broker", Options(settings=SETTINGS))
    broker.notes = folder / "synced"
    try:
        broker.start()
        yield broker, Power(broker.data_dir / "grid", broker.notes)
    except BaseException:
        broker.reap()
        raise
    broker.close()


class Answers:
    """Asks a broker, and looks behind each answer whether what it says is safe."""

    def __init__(self, broker: Noting, power: Power) -> None:
        self._broker = broker
        self._power = power
        self.early: list[str] = []

    def look(self, what: str, mark: bytes) -> None:
        """It was answered."""
        if not self._power.holds(mark):
            self.early.append(what)

    def api(self, method: str, path: str, body: object = None, *, mark: str = "") -> Any:
        status, answer = call(self._broker, method, path, body)
        assert status in (200, 201, 204), (path, status, answer)
        if mark:
            self.look(f"{method} {path}", mark.encode())
        return answer

    def client(self, name: str, *, will: tuple[str, bytes, int, bool] | None = None) -> Plain:
        """Of version 5, with a session that stays."""
        client = Plain(self._broker.ports["mqtt"], version=5)
        client.connect(name, clean=False, expiry=3600, will=will)
        self.look(f"CONNACK of {name}", name.encode())
        return client


def packets(ask: Answers) -> None:
    """Every answer of MQTT's."""
    reader = ask.client("reader-1", will=("wills/reader-1", b"the-will", 1, False))
    reader.subscribe(("kept/+/filter", 2), ("taken/away", 1))
    ask.look("SUBACK", b"kept/+/filter")
    writer = ask.client("writer-1")
    writer.publish("kept/one/filter", b"payload-puback", qos=1, packet_id=1)
    writer.expect(wire.PUBACK)
    ask.look("PUBACK", b"payload-puback")
    writer.publish("kept/two/filter", b"payload-pubrec", qos=2, packet_id=2)
    writer.expect(wire.PUBREC)
    ask.look("PUBREC", b"payload-pubrec")
    writer.send(wire.ack(wire.PUBREL, 2))
    writer.expect(wire.PUBCOMP)
    writer.publish("state/retained", b"payload-retained", qos=1, packet_id=3, retain=True)
    writer.expect(wire.PUBACK)
    ask.look("PUBACK of a retained message", b"payload-retained")
    writer.publish("goes/up/1", b"payload-uplink", qos=1, packet_id=4)
    writer.expect(wire.PUBACK)
    ask.look("PUBACK of what goes up", b"payload-uplink")
    writer.publish("recorded/1", b"payload-recorded", qos=1, packet_id=5)
    writer.expect(wire.PUBACK)
    ask.look("PUBACK of what is recorded", b"payload-recorded")
    reader.send(wire.unsubscribe(2, ["taken/away"], version=5))
    while (got := reader.receive()) is not None and got.kind != wire.UNSUBACK:
        assert got.kind == wire.PUBLISH


def api_answers(ask: Answers) -> None:
    """Every answer of the API's that changes what is kept."""
    ask.api("POST", "publish", {"topic": "state/by-api", "payload": "p-api", "qos": 1, "retain": True}, mark="p-api")
    ask.api("POST", "publish", {"topic": "state/goes", "payload": "short-lived", "qos": 1, "retain": True})
    ask.api("DELETE", "retained/" + urllib.parse.quote("state/goes", safe=""))
    ask.api("POST", "users", {"name": "user-kept", "password": "secret"}, mark="user-kept")
    ask.api("POST", "users/user-kept", {"groups": ["group-kept"]}, mark="group-kept")
    ask.api("POST", "users", {"name": "user-gone", "password": "secret"})
    ask.api("DELETE", "users/user-gone")
    ask.api("POST", "auth/rules/rules-kept", {"text": "[all]\nallow all #\n"}, mark="rules-kept")
    ask.api("POST", "limits/limits-kept", {"group": "plant", "sessions": 7}, mark="limits-kept")
    ask.api("POST", "bans", {"client": "banned-*", "reason": "ban-kept"}, mark="ban-kept")
    ask.api("POST", "admins", {"name": "admin-kept", "password": "a-long-one-1", "role": "viewer"}, mark="admin-kept")
    ask.api("POST", "tokens", {"name": "token-kept", "role": "viewer"}, mark="token-kept")
    ask.api("POST", "commands", {"target": "reader-1", "body": {"id-kept": 1}, "id": "command-kept"})
    ask.look("POST commands", b"command-kept")
    ask.api("POST", "shadows/reader-1", {"desired": {"mode-kept": "auto"}}, mark="mode-kept")
    ask.api("DELETE", "sessions/purged-1")


def test_what_was_answered_is_there_after_a_power_cut(tmp_path: Path) -> None:
    """Embedded grid: what each answer promises is synced when it comes, and is found by the next start."""
    with noting(tmp_path) as (broker, power):
        ask = Answers(broker, power)
        ask.client("purged-1").disconnect()
        packets(ask)
        device = ask.client("reader-1")
        device.send(wire.subscribe(1, [("down/reader-1", 1)], version=5))
        while (got := device.receive()) is not None and got.kind != wire.SUBACK:
            assert got.kind == wire.PUBLISH
        device.disconnect()
        api_answers(ask)
        assert not ask.early, f"answered before it was safe: {ask.early}"
        broker.kill()
        power.cut()
        broker.notes = None
        broker.start()
        found(broker)


def found(broker: BrokerProcess) -> None:
    """All of it, by the API and by a client that comes back."""

    def listed(path: str, key: str) -> list[str]:
        status, answer = call(broker, "GET", path)
        assert status == 200, answer
        return [str(item[key]) for item in answer["items"]]

    assert sorted(listed("retained", "topic")) == ["state/by-api", "state/retained"]
    assert [name for name in listed("users", "name") if name.startswith("user-")] == ["user-kept"]
    assert call(broker, "GET", "users/user-kept")[1]["groups"] == ["group-kept"]
    assert "rules-kept" in listed("auth/rules", "name")
    assert "limits-kept" in listed("limits", "name")
    assert "ban-kept" in listed("bans", "reason")
    assert "admin-kept" in listed("admins", "name")
    assert "token-kept" in listed("tokens", "name")
    assert call(broker, "GET", "commands/command-kept")[1]["state"] == "queued"
    assert call(broker, "GET", "shadows/reader-1")[1]["desired"]["values"] == {"mode-kept": "auto"}
    assert "purged-1" not in listed("sessions", "client_id")
    filters = listed("subscriptions?client_id=reader-1", "filter")
    assert sorted(filters) == ["down/reader-1", "kept/+/filter"]
    with Plain(broker.ports["mqtt"], version=5) as reader:
        assert reader.connect("reader-1", clean=False, expiry=3600).body[0] == 1, "session present"
        came = {reader.expect_publication().payload for _ in range(3)}
    assert {b"payload-puback", b"payload-pubrec"} < came
