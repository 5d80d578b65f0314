"""``iot-mqtt import retained`` from a real mosquitto: as it runs, and from the file that it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.mosquitto import mosquitto, needed
from systemkit.plain import Plain
from systemkit.process import BrokerProcess

pytestmark = needed

#: More than mosquitto queues for a client at QoS 1 or 2.
MESSAGES = 1300


@contextmanager
def keeping(folder: Path) -> Iterator[int]:
    """A mosquitto's port. At its end it writes ``mosquitto.db``."""
    folder.mkdir()
    with mosquitto(folder, "persistence true", f"persistence_location {folder}/") as number:
        yield number


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and standard error of the import."""
    done = subprocess.run(
        [sys.executable, "-m", "iot_mqtt", "import", "retained", "--json", "--quiet-seconds", "1", *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def fill(port: int) -> None:
    with Plain(port, version=5, timeout=60) as client:
        client.connect("filler")
        for number in range(MESSAGES):
            client.publish(f"plant/{number}/ü", b"v%d" % number, qos=number % 2, packet_id=number + 1, retain=True)
        for _ in range(MESSAGES // 2):
            client.expect(wire.PUBACK)
        client.ping()
        raw = b"\x03\x00\x04text\x26\x00\x01k\x00\x01v\x02" + (90_000).to_bytes(4, "big")
        client.send(wire.publish("line/7", b"\x00\xff", qos=1, packet_id=1, retain=True, version=5, properties=raw))
        client.expect(wire.PUBACK)


def retained_of(broker: BrokerProcess) -> dict[str, tuple[bytes, int]]:
    """What the broker says itself that it keeps."""
    with Plain(broker.ports["mqtt"], version=4, timeout=60) as client:
        client.connect("reader")
        client.subscribe(("plant/#", 1), ("line/#", 1))
        client.send(b"\xc0\x00")
        found: dict[str, tuple[bytes, int]] = {}
        while len(found) < MESSAGES + 1:
            packet = client.receive()
            assert packet is not None
            if packet.kind == wire.PUBLISH:
                publication = wire.publication(packet, 4)
                assert publication.retain
                found[publication.topic] = (publication.payload, publication.qos)
                if publication.qos:
                    client.send(wire.ack(wire.PUBACK, publication.packet_id))
        return found


def test_all_of_it_is_taken_over(broker: BrokerProcess, tmp_path: Path) -> None:
    """More messages than mosquitto would queue for anybody, with QoS and properties; again from its file."""
    wanted = {f"plant/{number}/ü": (b"v%d" % number, number % 2) for number in range(MESSAGES)}
    wanted["line/7"] = (b"\x00\xff", 1)
    here = f"mqtt://127.0.0.1:{broker.ports['mqtt']}"
    with keeping(tmp_path / "old") as port:
        fill(port)
        code, report, errors = run("--from", f"mqtt://127.0.0.1:{port}", "--to", here)
        assert (code, report["found"], report["stored"]) == (0, MESSAGES + 1, MESSAGES + 1), (report, errors)
        assert retained_of(broker) == wanted
    with Plain(broker.ports["mqtt"], version=5, timeout=60) as client:
        client.connect("editor")
        for topic in ("plant/5/ü", "line/7"):
            client.publish(topic, b"newer" if topic != "line/7" else b"", qos=1, packet_id=1, retain=True)
            client.expect(wire.PUBACK)
    database = str(tmp_path / "old" / "mosquitto.db")
    code, report, errors = run("--file", database, "--to", here, "--keep")
    assert (code, report["kept"], report["stored"]) == (0, MESSAGES, 1), (report, errors)
    assert retained_of(broker) == wanted | {"plant/5/ü": (b"newer", 1)}
    with Plain(broker.ports["mqtt"], version=5, timeout=60) as client:
        client.connect("looker")
        client.send(wire.subscribe(1, [("line/7", 0)], version=5))
        client.expect(wire.SUBACK)
        body = client.expect(wire.PUBLISH).body
    assert b"\x03\x00\x04text" in body and b"\x26\x00\x01k\x00\x01v" in body and b"\x02\x00\x01" in body
    with Plain(broker.ports["mqtt"], version=5, timeout=60) as client:
        client.connect("session", clean=False, expiry=3600)
        # Nothing that is retained is sent for the subscription.
        client.send(wire.subscribe(1, [("plant/#", 1 | 2 << 4)], version=5))
        client.expect(wire.SUBACK)
        for same in (MESSAGES, MESSAGES + 1):
            code, report, errors = run("--file", database, "--to", here)
            assert (code, report["stored"], report["same"]) == (0, MESSAGES + 1, same), (report, errors)
            assert retained_of(broker) == wanted
        # The one that was newer here, once.
        assert client.expect_publication().topic == "plant/5/ü"
        client.expect_silence()
