"""Whose a session is: who knows another user's client id gets nothing of it, takes nothing away and fires no will."""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from systemkit import wire
from systemkit.access import ANONYMOUS, attempt, denied, enter, password_of
from systemkit.cross import unique
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers

from iot_mqtt.auth.passwd import set_password

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="rules and users are configured differently there")

NOT_AUTHORIZED, SESSION_TAKEN_OVER = 0x87, 0x8E
REFUSED_3X = 5
VERSIONS = pytest.mark.parametrize("version", [4, 5], ids=["v3.1.1", "v5"])
INTRUDERS = pytest.mark.parametrize("intruder", ["bob", ANONYMOUS], ids=["another-user", "nobody"])
STARTS = pytest.mark.parametrize("clean", [False, True], ids=["resuming", "clean"])
WAIT = 20.0
RULES = """\
[user alice]
allow all secret/#

[user bob]
allow all bob/#

[user feeder]
allow all #

[user plc]
allow client plc-*
allow all bob/#

[all]
deny client plc-*

[anonymous]
allow all public/#
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Users and rules, made once: hashing is slow on purpose."""
    folder = tmp_path_factory.mktemp("owners")
    for user in ("alice", "bob", "feeder", "plc"):
        set_password(str(folder / "users"), user, password_of(user).encode())
    (folder / "acl").write_text(RULES)
    return {"auth.users_file": folder / "users", "auth.acl_file": folder / "acl"}


@pytest.fixture(scope="module")
def guarded(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Users and rules in force, anonymous clients allowed."""
    with brokers(tmp_path_factory.mktemp("guarded")) as start:
        yield start(settings={**files, "auth.allow_anonymous": "true"})


@pytest.fixture(scope="module")
def cleaning(files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The same where another user begins anew."""
    settings = {**files, "auth.allow_anonymous": "true", "auth.session_of_another_user": "clean"}
    with brokers(tmp_path_factory.mktemp("cleaning")) as start:
        yield start(settings=settings)


def feed(broker: BrokerProcess, topic: str, payload: bytes) -> None:
    """Publish with QoS 1 as somebody who may."""
    with enter(broker, "feeder", unique("feeder")) as feeder:
        feeder.publish(topic, payload, qos=1, packet_id=1)
        feeder.expect(wire.PUBACK)


def leave(broker: BrokerProcess, client_id: str, topic: str, *, user: str = "alice", version: int = 5) -> None:
    """A session that waits, with one subscription."""
    with enter(broker, user, client_id, version=version, kept=True) as client:
        client.subscribe((topic, 1))
        client.disconnect()


def refused(broker: BrokerProcess, user: str, client_id: str, *, version: int = 5, clean: bool = False) -> None:
    """Asks for the id and is told no, in words that say nothing of whose it is."""
    client, answer = attempt(broker, user, client_id, version=version, clean=clean, expiry=60)
    with client:
        assert answer.reason() == (NOT_AUTHORIZED if version == 5 else REFUSED_3X), "somebody else got in"
        assert b"alice" not in answer.body
        assert client.until_closed() == []


def collect(client: Plain, topic: str) -> bytes:
    """The next message, which must be of this topic."""
    message = client.expect_publication()
    assert message.topic == topic
    client.send(wire.ack(wire.PUBACK, message.packet_id))
    return message.payload


@VERSIONS
@INTRUDERS
@STARTS
def test_what_waits_for_alice_waits_for_alice(guarded: BrokerProcess, version: int, intruder: str, clean: bool) -> None:
    """Another one with her client id is refused, clean start or not; she gets everything when she is back."""
    client_id, topic = unique("alice"), f"secret/{unique('t')}"
    leave(guarded, client_id, topic, version=version)
    feed(guarded, topic, b"for alice")
    refused(guarded, intruder, client_id, version=version, clean=clean)
    client, answer = attempt(guarded, "alice", client_id, version=version, clean=False, expiry=60)
    with client:
        assert answer.body[0] == 1, "her session is gone"
        assert collect(client, topic) == b"for alice"


@VERSIONS
@INTRUDERS
@STARTS
def test_a_live_connection_is_not_disturbed(guarded: BrokerProcess, version: int, intruder: str, clean: bool) -> None:
    """Nobody takes a connected client over but its own user, and live messages go on coming."""
    client_id, topic = unique("alice"), f"secret/{unique('t')}"
    with enter(guarded, "alice", client_id, version=version) as alice:
        alice.subscribe((topic, 1))
        refused(guarded, intruder, client_id, version=version, clean=clean)
        alice.ping()
        feed(guarded, topic, b"live")
        assert collect(alice, topic) == b"live"
        with enter(guarded, "alice", client_id, version=version):
            farewell = alice.until_closed()
            assert [one.reason() for one in farewell] == ([SESSION_TAKEN_OVER] if version == 5 else [])


@pytest.mark.parametrize("taker", ["alice", "bob"])
def test_what_nobody_began_is_nobodys(guarded: BrokerProcess, taker: str) -> None:
    """A named user does not get the session of an anonymous client; another anonymous one does, as ever."""
    client_id, topic = unique("public"), f"public/{unique('t')}"
    leave(guarded, client_id, topic, user=ANONYMOUS)
    refused(guarded, taker, client_id)
    feed(guarded, topic, b"for anybody")
    with enter(guarded, ANONYMOUS, client_id, kept=True) as client:
        assert collect(client, topic) == b"for anybody"


def test_a_foreign_connect_neither_fires_nor_cancels_nor_replaces_a_delayed_will(guarded: BrokerProcess) -> None:
    """The will comes once, when its delay is over, in its owner's words."""
    client_id, topic = unique("alice"), f"secret/{unique('will')}"
    with enter(guarded, "feeder", unique("feeder")) as watcher:
        watcher.subscribe((topic, 1), ("bob/#", 1))
        enter(
            guarded, "alice", client_id, will=(topic, b"alice is gone", 1, False), will_delay=1, kept=True
        ).sock.close()
        client, answer = attempt(
            guarded, "bob", client_id, version=5, will=("bob/x", b"not hers", 1, False), will_delay=5, clean=True
        )
        with client:
            assert answer.reason() == NOT_AUTHORIZED
        watcher.ping()
        assert collect(watcher, topic) == b"alice is gone"
        watcher.expect_silence(0.2)


def test_a_session_that_waits_in_the_store_is_still_its_owners(guarded: BrokerProcess) -> None:
    """After kill -9 its record says whose it is."""
    client_id, topic = unique("alice"), f"secret/{unique('t')}"
    leave(guarded, client_id, topic)
    feed(guarded, topic, b"kept")
    guarded.restart()
    refused(guarded, "bob", client_id)
    refused(guarded, ANONYMOUS, client_id, clean=True)
    with enter(guarded, "alice", client_id, kept=True) as alice:
        assert collect(alice, topic) == b"kept"


def test_the_attempt_is_counted_and_logged_with_user_and_address(guarded: BrokerProcess) -> None:
    """An operator sees who asked for what, and from where."""
    client_id = unique("alice")
    leave(guarded, client_id, "secret/x")
    before = denied(guarded, "session")
    refused(guarded, "bob", client_id)
    assert denied(guarded, "session") == before + 1
    lines = [line for line in guarded.log_text().splitlines() if client_id in line and "another user" in line]
    assert len(lines) == 1
    assert "bob" in lines[0]
    assert "127.0.0.1:" in lines[0]


def test_ids_can_be_kept_for_users(guarded: BrokerProcess) -> None:
    """Rules about client ids: who has a list may use no other, and others may not use what is denied to them."""
    enter(guarded, "plc", unique("plc")).disconnect()
    refused(guarded, "plc", unique("other"), clean=True)
    refused(guarded, "bob", unique("plc"), clean=True)
    refused(guarded, ANONYMOUS, unique("plc"), clean=True)
    enter(guarded, "bob", unique("other")).disconnect()


@INTRUDERS
def test_another_user_may_begin_with_nothing(cleaning: BrokerProcess, intruder: str) -> None:
    """auth.session_of_another_user: clean: the old session ends, its will goes out, and nothing of it is inherited."""
    client_id, topic = unique("alice"), f"secret/{unique('t')}"
    with enter(cleaning, "feeder", unique("feeder")) as watcher:
        watcher.subscribe((f"{topic}/will", 1))
        with enter(cleaning, "alice", client_id, will=(f"{topic}/will", b"gone", 1, False), kept=True) as alice:
            alice.subscribe((topic, 1))
            taker, answer = attempt(cleaning, intruder, client_id, version=5, clean=False, expiry=60)
            with taker:
                assert (answer.reason(), answer.body[0]) == (0, 0)
                assert [one.reason() for one in alice.until_closed()] == [SESSION_TAKEN_OVER]
                assert collect(watcher, f"{topic}/will") == b"gone"
                feed(cleaning, topic, b"not for you")
                taker.ping()


# --- with clients that nobody here wrote ------------------------------------------------------------------


def _paho(user: str, client_id: str, topic: str) -> tuple[paho.Client, queue.Queue[Any], queue.Queue[bytes]]:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv311, clean_session=False)
    verdicts: queue.Queue[Any] = queue.Queue()
    messages: queue.Queue[bytes] = queue.Queue()
    if user:
        client.username_pw_set(user, password_of(user))
    client.on_connect = lambda client, data, flags, reason, properties: verdicts.put(reason)
    client.on_message = lambda client, data, message: messages.put(bytes(message.payload))
    client.on_subscribe = lambda client, data, mid, reasons, properties: verdicts.put(reasons[0])
    return client, verdicts, messages


def test_paho_and_mosquitto_get_nothing_by_a_name_alone(guarded: BrokerProcess) -> None:
    """Her device is offline; bob's mosquitto_sub and an anonymous one borrow its id; then it is back."""
    client_id, topic = unique("device"), f"secret/{unique('t')}"
    port = guarded.ports["mqtt"]
    device, verdicts, messages = _paho("alice", client_id, topic)
    device.connect("127.0.0.1", port)
    device.loop_start()
    assert verdicts.get(timeout=WAIT) == 0
    device.subscribe(topic, qos=1)
    assert verdicts.get(timeout=WAIT) == 1
    device.disconnect()
    device.loop_stop()
    feed(guarded, topic, b"open the valve")
    for who in (["-u", "bob", "-P", password_of("bob")], []):
        thief = subprocess.run(
            [
                "mosquitto_sub",
                "-p",
                str(port),
                "-i",
                client_id,
                "-c",
                "-q",
                "1",
                "-t",
                "bob/x",
                "-C",
                "1",
                "-W",
                "30",
                *who,
            ],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert (thief.stdout, thief.returncode) == ("", REFUSED_3X), thief.stderr
    device.connect("127.0.0.1", port)
    device.loop_start()
    assert messages.get(timeout=WAIT) == b"open the valve"
    device.disconnect()
    device.loop_stop()
