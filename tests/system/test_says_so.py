"""What the node says of itself and of its clients is so: accounts, refusals, ends, states, counts."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from systemkit import wire
from systemkit.identity import assert_balanced
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import brokers
from systemkit.waiting import wait_until

from iot_mqtt.admin.token import read_token
from iot_mqtt.app.ctl.cli import ctl

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="what ctl and the metrics of this broker say")

PASSWORD = "not-to-be-remembered"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with one user."""
    folder = tmp_path_factory.mktemp("says")
    users = folder / "users"
    subprocess.run(
        [*our_command(), "passwd", str(users), "alice", "--password-stdin"], input="secret\n", text=True, check=True
    )
    settings = {"auth.users_file": users, "auth.allow_anonymous": "true", "mqtt.sys_interval": 0.2}
    with brokers(folder) as start:
        yield start(settings=settings)


def _ctl(broker: BrokerProcess, *arguments: str, code: int = 0) -> str:
    """What the command says; in this process, for one of its own takes a second to start."""
    done = CliRunner().invoke(ctl, ["--data-dir", str(broker.data_dir), *arguments])
    assert done.exit_code == code, f"{done.exit_code}: {done.output}"
    return done.output


def _ask(broker: BrokerProcess, *arguments: str) -> Any:
    return json.loads(_ctl(broker, "--json", *arguments))


def _client(broker: BrokerProcess, client_id: str, *, expiry: int = 0) -> Plain:
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect(client_id, clean=False, expiry=expiry)
    return client


def test_the_loss_identity_holds_from_exported_figures_after_a_restart(broker: BrokerProcess) -> None:
    """What waited at the start is a figure of its own: in the log, under way, in a group; before and after delivery."""
    for name, filter in (("reader", "acc/#"), ("member", "$share/g/acc/#")):
        client = _client(broker, name, expiry=600)
        client.subscribe((filter, 1))
        client.disconnect()
    holder = _client(broker, "holder", expiry=600)
    passer = _client(broker, "passer")
    recorded = broker.data_dir / "recorder" / "packets.now"
    wait_until(lambda: recorded.exists() and b'"passer"' in recorded.read_bytes())
    holder.subscribe(("acc/1", 1))
    with Plain(broker.ports["mqtt"], version=5) as writer:
        writer.connect("writer")
        for number in range(1, 6):
            writer.publish("acc/1", b"x", qos=1, packet_id=number)
            writer.expect(wire.PUBACK)
    for _ in range(5):
        holder.expect(wire.PUBLISH)
    assert_balanced(broker.metrics())
    broker.restart()
    holder.sock.close()
    passer.sock.close()
    said = _ctl(broker, "why", "passer")
    assert said.startswith("1. the node was restarted (from 127.0.0.1:")
    assert "[node_restarted, " in said
    assert "CONNACK" in said
    assert_balanced(broker.metrics())
    wait_until(lambda: (broker.metrics() or {})["iot_mqtt_backlog_uncounted"] == 0)
    samples = broker.metrics() or {}
    assert_balanced(samples)
    assert (samples["iot_mqtt_messages_restored_total"], samples["iot_mqtt_messages_waiting"]) == (15, 15)
    for name in ("reader", "member", "holder"):
        client = _client(broker, name, expiry=600)
        for _ in range(5):
            client.send(wire.ack(wire.PUBACK, client.expect_publication().packet_id))
            assert_balanced(broker.metrics())
        client.ping()
        client.disconnect()
    samples = broker.metrics() or {}
    assert_balanced(samples)
    assert (samples["iot_mqtt_messages_delivered_total"], samples["iot_mqtt_messages_waiting"]) == (15, 0)
    (identity,) = json.loads(broker.http("/api/v1/identity", token=read_token(str(broker.data_dir))))["items"]
    assert (identity["delivered"], identity["unexplained"]) == (15, 0)
    assert (identity["account"]["lives"], identity["account"]["killed"]) == (2, 1)
    assert identity["account"]["delivered"] >= 15


def test_why_knows_clients_that_were_refused(broker: BrokerProcess) -> None:
    """When, why, who, from where; and never with what password."""
    for _ in range(2):
        with Plain(broker.ports["mqtt"], version=5) as client:
            client.send(wire.connect("stranger", version=5, user="alice", password=PASSWORD.encode()))
            assert client.expect(wire.CONNACK).reason() >= 0x80
            client.until_closed()
    said = _ctl(broker, "why", "stranger")
    assert "refused" in said
    assert "user name or password is wrong" in said
    assert "alice" in said
    assert "127.0.0.1:" in said
    found = _ask(broker, "why", "stranger")["attempts"]
    assert [(one["kind"], one["reason"], one["claimed_user"]) for one in found] == [
        ("refused", "bad_user_name_or_password", "alice")
    ] * 2
    assert abs(found[0]["at"] - time.time()) < 60
    assert PASSWORD not in said + json.dumps(found)


def test_why_knows_clients_that_are_gone(broker: BrokerProcess) -> None:
    """A session that ended with its connection."""
    _client(broker, "gone").disconnect()
    wait_until(lambda: "disconnected by the client" in _ctl(broker, "why", "gone"))
    assert "ended" in _ctl(broker, "why", "gone")


def test_why_has_words_for_clients_that_were_never_seen(broker: BrokerProcess) -> None:
    """An error, as of something that is not there."""
    assert "nobody of that name has been seen" in _ctl(broker, "why", "nobody-at-all", code=1)


def test_one_address_cannot_push_all_others_out_of_the_memory(broker: BrokerProcess) -> None:
    """3,000 refusals of one address: what another one did is still known."""
    _client(broker, "earlier").disconnect()
    password = PASSWORD.encode()
    for number in range(0, 1500, 50):
        socks = [
            Plain(broker.ports["mqtt"], version=5, sock=_from("127.0.0.2", broker.ports["mqtt"])) for _ in range(50)
        ]
        for at, client in enumerate(socks):
            # Refused without a hash: the client id is too long.
            client.send(wire.connect(f"{number + at}-" + "x" * 300, version=5, user="alice", password=password))
        for client in socks:
            client.until_closed()
            client.sock.close()
    assert "disconnected by the client" in _ctl(broker, "why", "earlier")


def _from(address: str, port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 5, source_address=(address, 0))


def test_a_normal_end_reads_as_one(broker: BrokerProcess) -> None:
    """The same words in why, in the lists and in the metrics; nothing says "success"."""
    _client(broker, "polite", expiry=60).disconnect()
    wait_until(lambda: "no, since" in _ctl(broker, "why", "polite"))
    text = "disconnected by the client"
    assert text in _ctl(broker, "why", "polite")
    assert text in _ctl(broker, "sessions", "show", "polite")
    listed = [line for line in _ctl(broker, "sessions", "list").splitlines() if line.startswith("polite")]
    assert text in listed[0]
    samples = broker.metrics() or {}
    assert 'iot_mqtt_disconnects_total{reason="success"}' not in samples
    assert samples['iot_mqtt_disconnects_total{reason="client_disconnected"}'] > 0


def test_retained_counts_what_the_list_shows(broker: BrokerProcess) -> None:
    """$SYS is retained, too, and is not what anybody asks for."""
    with Plain(broker.ports["mqtt"], version=5) as writer:
        writer.connect("keeper")
        for number in (1, 2):
            writer.publish(f"kept/{number}", b"x", qos=1, packet_id=number, retain=True)
            writer.expect(wire.PUBACK)
    time.sleep(0.3)
    listed = _ask(broker, "retained", "list")
    status = _ask(broker, "status")
    assert len(listed["items"] if isinstance(listed, dict) else listed) == status["retained"] == 2
    assert status["retained_system"] > 10
    assert "retained system" in _ctl(broker, "status")
    assert (broker.metrics() or {})["iot_mqtt_retained_messages"] == 2


def test_a_node_that_is_drained_is_not_ready(broker: BrokerProcess) -> None:
    """Neither in status, nor in /ready, nor in the metrics; and ready again afterwards."""
    assert _ask(broker, "status")["ready"] is True
    _ctl(broker, "node", "drain")
    try:
        wait_until(lambda: _ask(broker, "status")["state"] == "drained")
        status = _ask(broker, "status")
        assert status["ready"] is False
        assert (broker.metrics() or {})["iot_mqtt_ready"] == 0
        with pytest.raises(Exception, match="503"):
            broker.http("/ready")
    finally:
        _ctl(broker, "node", "resume")
    status = _ask(broker, "status")
    assert (status["ready"], status["state"]) == (True, "serving")
    assert broker.http("/ready")


def test_a_trace_shows_packets_as_they_come_and_go(broker: BrokerProcess) -> None:
    """Of a client, described and without its payloads; and of who is not let in."""
    over = threading.Event()

    def publish() -> None:
        with _client(broker, "traced") as client:
            for number in itertools.count(1):
                client.publish("hall/9/state", b"hidden-payload", qos=1, packet_id=number % 60_000 + 1)
                client.expect(wire.PUBACK)
                if over.wait(0.1):
                    return

    publishing = threading.Thread(target=publish)
    publishing.start()
    try:
        text = _ctl(broker, "trace", "traced", "--seconds", "2")
        one = json.loads(_ctl(broker, "trace", "--topic", "hall/+/state", "--seconds", "1", "--json").splitlines()[0])
    finally:
        over.set()
        publishing.join(20)
    assert "-> PUBLISH hall/9/state, QoS 1" in text
    assert "<- PUBACK" in text
    assert "[traced, node-1]" in text
    assert "hidden-payload" not in text
    assert (one["event"], one["client"], one["direction"]) == ("packet", "traced", "in")
    assert "give one of" in _ctl(broker, "trace", code=1)
