"""A first user's hour: start, stop, start twice, get the configuration wrong."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import time
import urllib.error
import uuid
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import DRAIN_SECONDS, MOSQUITTO, BrokerProcess, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import AIR

ours_only = pytest.mark.skipif(MOSQUITTO, reason="a promise of our own command line")


def _serve(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run ``iot-mqtt`` to its end, which must come by itself."""
    return subprocess.run(
        [*our_command(), *arguments],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_takes_leave_of_everybody(broker: BrokerProcess, number: signal.Signals) -> None:
    """v5 clients are told 0x8B, all connections end, exit code 0 within node.drain_seconds."""
    port = broker.ports["mqtt"]
    with Plain(port, version=5) as five, Plain(port) as four, Plain(port) as silent:
        five.connect("five")
        five.subscribe(("a/#", 1))
        four.connect("four")
        silent.send(b"\x10")
        began = time.monotonic()
        os.kill(broker.pid, number)
        if not MOSQUITTO:  # 2.0.11 closes without a word
            assert five.expect(wire.DISCONNECT).reason() == 0x8B
        assert five.until_closed() == []
        assert four.until_closed() == []
        assert silent.until_closed() == []
        assert broker.process is not None
        assert broker.process.wait(DRAIN_SECONDS + 1 + AIR) == 0
        assert time.monotonic() - began < DRAIN_SECONDS + AIR
        broker.process = None
    with pytest.raises(ConnectionRefusedError):
        Plain(port)


@pytest.mark.alone
@ours_only
def test_ready_comes_quickly_and_says_where(tmp_path: Path, start_broker: StartBroker) -> None:
    """Port 0 everywhere: the line names the ports that were bound; /ready and /health say the same."""
    zero = {"listeners.mqtt.port": 0, "listeners.ws.port": 0, "listeners.gateway.port": 0, "admin.port": 0}
    broker = start_broker(settings=zero)
    print(f"ready in {broker.started_in:.2f} s")
    assert broker.started_in < 3
    assert all(broker.ports[name] > 0 for name in ("mqtt", "ws", "admin"))
    assert len(re.findall(r"^ready\b", broker.log_text(), re.MULTILINE)) == 1
    with Plain(broker.ports["mqtt"]) as client:
        client.connect("first")
    for path in ("/ready", "/health", "/metrics"):
        broker.http(path)


@ours_only
def test_the_api_wants_the_token(broker: BrokerProcess) -> None:
    """401 without it; with the one in admin.token, which nobody else may read, the clients are listed."""
    token_file = broker.data_dir / "admin.token"
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    for token in (None, "wrong"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            broker.http("/api/v1/clients", token=token)
        assert refused.value.code == 401
    with Plain(broker.ports["mqtt"]) as client:
        client.connect(name := f"listed-{uuid.uuid4().hex[:6]}")
        assert name in broker.http("/api/v1/clients", token=token_file.read_text().strip())


@ours_only
def test_the_token_survives_a_restart(broker: BrokerProcess) -> None:
    """Scripts that hold it go on working."""
    token = (broker.data_dir / "admin.token").read_text()
    broker.restart()
    assert (broker.data_dir / "admin.token").read_text() == token


@ours_only
def test_a_second_start_on_the_same_data_is_refused(broker: BrokerProcess, tmp_path: Path) -> None:
    """While the first runs; it says what is in the way, and the first takes no harm."""
    run = _serve(
        "serve",
        *("--set", f"node.data_dir={broker.data_dir}"),
        *("--set", "listeners.mqtt.port=0", "--set", "listeners.ws.port=0"),
        *("--set", "listeners.gateway.port=0", "--set", "admin.port=0"),
        cwd=tmp_path,
    )
    assert run.returncode not in (0, -signal.SIGKILL)
    assert str(broker.data_dir) in run.stderr + run.stdout
    assert "Traceback" not in run.stderr + run.stdout
    assert "ready mqtt" not in run.stdout
    with Plain(broker.ports["mqtt"]) as client:
        client.connect("still-here")


@ours_only
def test_a_taken_port_is_named(broker: BrokerProcess, tmp_path: Path) -> None:
    """Not ready, not zero, and the message has the port in it."""
    port = broker.ports["mqtt"]
    run = _serve(
        "serve",
        *("--set", f"node.data_dir={tmp_path / 'other'}", "--set", f"listeners.mqtt.port={port}"),
        *("--set", "listeners.ws.port=0", "--set", "listeners.gateway.port=0", "--set", "admin.port=0"),
        cwd=tmp_path,
    )
    assert run.returncode != 0
    assert str(port) in run.stderr + run.stdout
    assert "Traceback" not in run.stderr + run.stdout


@ours_only
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("mqtt:\n  recieve_maximum: 5\n", 2, ["recieve_maximum", "receive_maximum"]),
        ("node:\n  id: a\nmqtt:\n  max_qos: many\n", 4, ["max_qos", "many"]),
        ("mqtt:\n  max_qos: 7\n", 2, ["max_qos"]),
        ("listeners:\n  mqtt:\n    port: 99999\n", 3, ["port"]),
        ("mqtt: [\n", 2, []),
    ],
    ids=["unknown key", "ill-typed", "out of range", "no such port", "not YAML"],
)
def test_a_bad_configuration_is_refused_with_file_and_line(
    tmp_path: Path, text: str, line: int, words: list[str]
) -> None:
    """file:line, the key, and for a misspelt one the nearest that exists; nothing is started."""
    file = tmp_path / "application.yaml"
    file.write_text(text)
    for command in (["serve"], ["config", "check"]):
        run = _serve(*command, "--config", str(file), cwd=tmp_path)
        said = run.stderr + run.stdout
        assert run.returncode != 0
        assert "Traceback" not in said
        # YAML notices an unclosed bracket where the file ends, one line further or not.
        assert re.search(rf"application\.yaml\D{{1,8}}{line}\b", said) or (not words and "application.yaml" in said), (
            said
        )
        for word in words:
            assert word in said


@ours_only
def test_listening_to_the_world_without_authentication_is_refused(tmp_path: Path) -> None:
    """0.0.0.0 and anonymous access together have to be written out."""
    run = _serve(
        "serve",
        *("--set", f"node.data_dir={tmp_path / 'data'}", "--set", "listeners.mqtt.host=0.0.0.0"),
        *("--set", "listeners.mqtt.port=0", "--set", "listeners.ws.port=0"),
        *("--set", "listeners.gateway.port=0", "--set", "admin.port=0"),
        cwd=tmp_path,
    )
    assert run.returncode != 0
    assert "allow_anonymous" in run.stderr + run.stdout


@pytest.mark.skipif(MOSQUITTO, reason="mosquitto has other keys")
def test_keys_without_effect_are_refused(start_broker: StartBroker, tmp_path: Path) -> None:
    """Whoever writes a limit that nobody keeps is told, with file, line and what to do; nothing is started."""
    file = tmp_path / "application.yaml"
    file.write_text(
        "grid: {kind: memory}\nlog:\n  disk_limit: 1000000\nuplink:\n  kafka:\n    bootstrap_servers: [kafka:9092]\n"
    )
    with pytest.raises(AssertionError) as refused:
        start_broker(config=file)
    said = str(refused.value)
    assert f"{file}:3:3: log.disk_limit: has no effect with grid.kind: memory" in said
    assert f"{file}:6:5: uplink.kafka.bootstrap_servers: has no effect with uplink.kind: file; set uplink.kind" in said
