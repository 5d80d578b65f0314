"""What a node keeps is its owner's, what it prints has no secrets, and SIGHUP makes it look again, not end."""

from __future__ import annotations

import os
import signal
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.access import attempt, password_of, set_password
from systemkit.certificates import Authority
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, Options, ServerTls, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="it is about our own files")

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def careless() -> Iterator[None]:
    """An account whose new files everybody may write."""
    before = os.umask(0)
    yield
    os.umask(before)


def _use(broker: BrokerProcess) -> None:
    """Make it write: a session, its messages, a retained one, and records for the uplink."""
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("kept", clean=False, expiry=3600)
        client.subscribe(("up/#", 1))
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("sender")
        for packet_id in range(1, 20):
            client.publish("up/gw/press", b'{"t": 1}' * 100, qos=1, packet_id=packet_id, retain=True)
            assert client.expect(wire.PUBACK).reason() == 0
    wait_until(lambda: list((broker.data_dir / "uplink").rglob("*.json*")), 10)


def _open_to(bits: int, *places: Path) -> list[str]:
    """What lies there, itself included, that has one of these bits."""
    every = [path for place in places for path in (place, *place.rglob("*"))]
    assert every
    modes = [(path, stat.S_IMODE(path.lstat().st_mode)) for path in every if not path.is_symlink()]
    return [f"{path} {mode:o}" for path, mode in modes if mode & bits]


@pytest.mark.usefixtures("careless")
def test_nobody_else_reads_what_a_node_keeps(start_broker: StartBroker, tmp_path: Path) -> None:
    """Directories 0700, files 0600, from the first byte on; what was wider before is narrowed and told."""
    data = tmp_path / "broker-1" / "data"
    (data / "uplink").mkdir(parents=True)
    log = tmp_path / "node.log"
    log.touch()
    broker = start_broker(settings={"log.file": log, "uplink.file.rotate_seconds": 0.2})
    _use(broker)
    assert _open_to(0o077, data, log) == []
    told = [line for line in log.read_text().splitlines() if "narrowed" in line]
    assert [any(str(path) in line for line in told) for path in (data, data / "uplink", log)] == [True] * 3


@pytest.mark.usefixtures("careless")
def test_a_group_may_read_what_is_for_others(start_broker: StartBroker) -> None:
    """node.readable_by: group opens the uplink's files, for Spark as another user, but no session, token or plugin."""
    broker = start_broker(settings={"node.readable_by": "group", "uplink.file.rotate_seconds": 0.2})
    _use(broker)
    data = broker.data_dir
    assert _open_to(0o027, data) == []
    assert data.stat().st_mode & 0o050 == 0o050
    finished = [path for path in (data / "uplink").rglob("*.json*") if path.is_file()]
    assert finished and all(path.stat().st_mode & 0o040 for path in finished)
    private = [data / "grid", data / "admin.token"]
    assert [path for path in private if path.stat().st_mode & 0o077] == []


SECRETS = ["hunter2", "MIIEvQIBADANBgkqhkiG9w0BAQ", "tok-3n", "jaas-9", "userinfo-5", "42424242"]


@pytest.fixture
def telling(tmp_path: Path) -> Path:
    """A configuration with a secret in every place that has one."""
    file = tmp_path / "application.yaml"
    key = KEY.replace("\n", "\\n")
    file.write_text(
        f"""
        grid: {{ignite: {{token: tok-3n}}}}
        registry: {{zookeeper: {{username: u, password: hunter2}}}}
        uplink:
          kind: kafka
          kafka:
            security: {{protocol: sasl_plaintext, username: u, password: hunter2}}
            options: {{ssl.key.pem: "{key}", ssl.key.password: 42424242, sasl.oauthbearer.config: "jaas-9",
                       client.rack: "http://me:userinfo-5@proxy.example"}}
        plugins:
          codecs: [{{name: vendor, config: {{up: {{api_key: hunter2, pin: "{key}"}}, passphrase: hunter2}}}}]
        """
    )
    return file


def _config(*arguments: str) -> str:
    """What the command prints on both streams."""
    done = subprocess.run(
        [*our_command(), "config", *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env=clean_environment(),
    )
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_no_command_prints_a_secret(telling: Path) -> None:
    """Not as configured, not explained, not in what is wrong with it."""
    said = [_config("show", "--config", str(telling))]
    assert "client.rack" in said[0] and "vendor" in said[0] and "ssl.key.pem" in said[0]
    options = ["--set", "uplink.kafka.options={ssl.key.password: other}"]
    said.append(_config("explain", "uplink.kafka.options", "--config", str(telling), *options))
    wrong = telling.with_name("wrong.yaml")
    wrong.write_text("registry: {zookeeper: {password: 42424242}}\nuplink: {kafka: {options: {acks: hunter2}}}\n")
    said.append(_config("check", "--config", str(wrong)))
    assert "registry.zookeeper.password" in said[-1]
    for secret in SECRETS:
        assert [text for text in said if secret in text] == [], secret


def test_sighup_makes_a_node_look_again(start_broker: StartBroker, tmp_path: Path, authority: Authority) -> None:
    """Users, rules, certificates and the log file are taken anew; clients stay, and so does the process."""
    users, acl, log = tmp_path / "users", tmp_path / "acl", tmp_path / "node.log"
    set_password(users, "alice", password_of("alice"))
    acl.write_text("[all]\nallow publish old/#\n")
    cert, key = authority.server("first")
    served = ServerTls(tmp_path / "cert.pem", tmp_path / "key.pem", authority.file)
    served.cert.write_bytes(cert.read_bytes())
    served.key.write_bytes(key.read_bytes())
    settings = {
        "auth.users_file": users,
        "auth.acl_file": acl,
        "auth.reload_seconds": 0,
        "log.file": log,
    }
    broker = start_broker(tls=served, settings=settings)
    client, answer = attempt(broker, "alice", "stays", version=5)
    assert answer.reason() == 0
    before = _certificate(broker)

    set_password(users, "bob", password_of("bob"))
    acl.write_text("[all]\nallow publish new/#\n")
    cert, key = authority.server("second")
    served.cert.write_bytes(cert.read_bytes())
    served.key.write_bytes(key.read_bytes())
    log.rename(tmp_path / "node.log.1")
    os.kill(broker.pid, signal.SIGHUP)

    wait_until(lambda: _gets_in(broker, "bob"))
    wait_until(lambda: _certificate(broker) != before)
    wait_until(lambda: log.exists() and "read again" in log.read_text())
    client.publish("new/x", b"", qos=1, packet_id=1)
    assert client.expect(wire.PUBACK).reason() in (0, 0x10)
    client.sock.close()

    served.cert.write_text("nonsense")
    acl.write_text("nonsense\n")
    os.kill(broker.pid, signal.SIGHUP)
    wait_until(lambda: "cert.pem" in log.read_text() and f"{acl}:1:" in log.read_text())
    assert _gets_in(broker, "bob") and _certificate(broker) != before


def test_sighup_at_any_moment_ends_nothing(tmp_path: Path) -> None:
    """Also before the node is ready, and many of them."""
    broker = BrokerProcess(tmp_path / "early", Options())
    broker.folder.mkdir()
    broker.process = broker._spawn(broker.command())
    try:
        wait_until(lambda: _hears_hangups(broker.pid), 10)
        deadline = time.monotonic() + 20
        while not broker._is_ready() and time.monotonic() < deadline:
            assert broker.process.poll() is None, broker.log_text()
            os.kill(broker.pid, signal.SIGHUP)
            time.sleep(0.02)
        for _ in range(20):
            os.kill(broker.pid, signal.SIGHUP)
        assert _gets_in(broker, "")
    finally:
        broker.close()


def _hears_hangups(pid: int) -> bool:
    """Whether the signal is ignored or caught: while Python itself starts it is not."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigIgn", "SigCgt"))]
    return any(mask & 1 << signal.SIGHUP - 1 for mask in masks)


def _gets_in(broker: BrokerProcess, user: str) -> bool:
    client, answer = attempt(broker, user, f"as-{user}", version=5)
    client.sock.close()
    return answer.reason() == 0


def _certificate(broker: BrokerProcess) -> str:
    return ssl.get_server_certificate(("127.0.0.1", broker.ports["mqtts"]), timeout=5)
