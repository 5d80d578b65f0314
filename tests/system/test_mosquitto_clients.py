"""``mosquitto_pub`` and ``mosquitto_sub``: what a first user reaches for."""

from __future__ import annotations

import os
import select
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from systemkit.certificates import Authority
from systemkit.process import BrokerProcess

VERSIONS = ["mqttv31", "mqttv311", "mqttv5"]


@contextmanager
def _subscriber(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A mosquitto_sub that has its SUBACK: with -d it says so."""
    program = subprocess.Popen(
        ["stdbuf", "-oL", "mosquitto_sub", "-d", "-W", "40", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert program.stdout is not None
        seen = b""
        while b"Subscribed" not in seen:
            ready, _, _ = select.select([program.stdout], [], [], 10)
            chunk = os.read(program.stdout.fileno(), 4096) if ready else b""
            assert chunk, f"no SUBACK: {seen!r}"
            seen += chunk
        yield program
    finally:
        program.kill()
        program.wait()


@pytest.mark.parametrize("transport", ["tcp", "tls"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_round_trip(shared_broker: BrokerProcess, authority: Authority, transport: str, version: str, qos: int) -> None:
    """What mosquitto_pub sends, mosquitto_sub prints, at the QoS it was sent with."""
    name = uuid.uuid4().hex[:8]
    where = ["-h", "127.0.0.1", "-V", version, "-q", str(qos), "-t", f"mos/{name}"]
    if transport == "tls":
        where += ["-p", str(shared_broker.ports["mqtts"]), "--cafile", str(authority.file)]
    else:
        where += ["-p", str(shared_broker.ports["mqtt"])]
    with _subscriber([*where, "-i", f"s{name}", "-C", "1", "-F", "got %q %t %p"]) as subscriber:
        sent = subprocess.run(
            ["mosquitto_pub", *where, "-i", f"p{name}", "-m", f"hello {name}"],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert sent.returncode == 0, sent.stderr
        output, _ = subscriber.communicate(timeout=50)
    assert f"got {qos} mos/{name} hello {name}\n" in output.decode()
    assert subscriber.returncode == 0
