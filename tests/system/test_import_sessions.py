"""``iot-mqtt import sessions`` from the file of a real mosquitto: every session, and every message once, in order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.mosquitto import mosquitto, needed
from systemkit.plain import Plain
from systemkit.process import BrokerProcess

from tests.cases import mosquitto_files as db
from tests.enginekit.smalldisk import small_disk

pytestmark = needed

#: More than may be under way at once, and fewer than mosquitto queues.
MESSAGES = 300
MIB = 1024 * 1024


def run(database: Path, data_dir: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, report and standard error of the import."""
    command = ["import", "sessions", "--file", str(database), "--json", f"--set=node.data_dir={data_dir}"]
    done = subprocess.run(
        [sys.executable, "-m", "iot_mqtt", *command, *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def session(port: int, name: str, version: int = 4, *, present: bool) -> Plain:
    client = Plain(port, version=version, timeout=60)
    answer = client.connect(name, clean=False, expiry=3600 if version == 5 else 0)
    assert answer.body[0] == present, f"{name}: session present is {answer.body[0]}"
    return client


def publish(port: int, topic: str, *payloads: bytes, qos: int = 1, properties: bytes = b"") -> None:
    with Plain(port, version=5, timeout=60) as client:
        client.connect("publisher")
        for packet_id, payload in enumerate(payloads, 1):
            client.send(wire.publish(topic, payload, qos=qos, packet_id=packet_id, version=5, properties=properties))
            assert client.expect(wire.PUBACK if qos == 1 else wire.PUBREC).body[2:3] in (b"", b"\0")
            if qos == 2:
                client.send(wire.ack(wire.PUBREL, packet_id))
                client.expect(wire.PUBCOMP)


def fill(port: int) -> int:
    """Sessions of mosquitto, in all states; the packet id of the message that ``holder`` has not acknowledged."""
    with session(port, "reader", present=False) as reader:
        reader.subscribe(("plant/#", 2))
    with session(port, "logger", 5, present=False) as logger:
        # With an identifier, and without what it publishes itself.
        filters = b"\x02\x0b\x07" + wire.text("plant/+") + b"\x05"
        logger.send(wire.packet(0x82, b"\0\1" + filters))
        assert logger.expect(wire.SUBACK).body[-1] == 1
    with session(port, "holder", present=False) as holder:
        holder.subscribe(("hold", 2))
        publish(port, "hold", b"released", b"sent", qos=2)
        first, second = holder.expect_publication(), holder.expect_publication()
        holder.send(wire.ack(wire.PUBREC, first.packet_id))
        assert holder.expect(wire.PUBREL).packet_id == first.packet_id
    publish(port, "plant/a", *(b"%d" % number for number in range(MESSAGES)))
    publish(port, "plant/b", b"of 5", properties=b"\x03\x00\x04text\x02" + (90_000).to_bytes(4, "big"))
    with session(port, "sender", present=False) as sender:
        sender.publish("plant/c", b"accepted", qos=2, packet_id=9)
        sender.expect(wire.PUBREC)
    return second.packet_id


def drained(client: Plain, count: int) -> list[wire.Publication]:
    """So many messages, each acknowledged."""
    found: list[wire.Publication] = []
    released = 0
    while len(found) < count or released < sum(one.qos == 2 for one in found):
        packet = client.receive()
        assert packet is not None
        if packet.kind == wire.PUBREL:
            client.send(wire.ack(wire.PUBCOMP, packet.packet_id))
            released += 1
            continue
        found.append(wire.publication(packet, 4))
        client.send(wire.ack(wire.PUBACK if found[-1].qos == 1 else wire.PUBREC, found[-1].packet_id))
    return found


def test_sessions_go_on_where_they_were(broker: BrokerProcess, tmp_path: Path) -> None:
    """What waits comes once and in order, before what is published here afterwards; QoS 2 exchanges are finished."""
    here, old = broker.ports["mqtt"], tmp_path / "old"
    old.mkdir()
    session(here, "of before", present=False).subscribe(("plant/#", 1))
    publish(here, "plant/a", b"published here before")
    with mosquitto(old, "persistence true", f"persistence_location {old}/") as port:
        sent = fill(port)
    code, _, errors = run(old / "mosquitto.db", broker.data_dir)
    assert code == 1 and "stop the node" in errors, errors
    assert broker.terminate() == 0
    code, report, errors = run(old / "mosquitto.db", broker.data_dir)
    assert code == 0, errors
    counts = [report[name] for name in ("sessions", "subscriptions", "messages", "released")]
    assert counts == [4, 3, 2 * (MESSAGES + 2) + 1, 1], (report, errors)
    code, _, errors = run(old / "mosquitto.db", broker.data_dir)
    assert code == 1 and "4 sessions are there already" in errors, errors
    assert run(old / "mosquitto.db", broker.data_dir, "--keep")[1]["kept"] == 4
    broker.start()
    publish(here, "plant/a", b"new")
    wanted = [b"%d" % number for number in range(MESSAGES)] + [b"of 5", b"accepted", b"new"]
    with session(here, "reader", present=True) as reader:
        found = drained(reader, len(wanted))
        reader.expect_silence()
    assert [one.payload for one in found] == wanted
    assert not any(one.dup for one in found) and {one.qos for one in found} == {1, 2}
    with session(here, "logger", 5, present=True) as logger:
        packets = [logger.expect(wire.PUBLISH) for _ in wanted]
        logger.expect_silence()
    assert [packet.body[-len(payload) :] for packet, payload in zip(packets, wanted, strict=True)] == wanted
    assert all(b"\x0b\x07" in packet.body for packet in packets)
    assert b"\x03\x00\x04text" in packets[-3].body and b"\x02\x00\x01" in packets[-3].body
    with session(here, "holder", present=True) as holder:
        first, second = sorted([holder.receive(), holder.receive()], key=lambda packet: packet.kind)  # type: ignore[union-attr]
        again = wire.publication(first, 4)  # type: ignore[arg-type]
        assert (again.payload, again.packet_id, again.dup) == (b"sent", sent, True)
        assert second is not None and second.kind == wire.PUBREL
    with session(here, "sender", present=True) as sender:
        frame = wire.publish("plant/c", b"accepted", qos=2, packet_id=9)
        sender.send(wire.as_duplicate(frame) + wire.ack(wire.PUBREL, 9))
        assert [sender.expect(kind).packet_id for kind in (wire.PUBREC, wire.PUBCOMP)] == [9, 9]
    with session(here, "reader", present=True) as reader:
        reader.expect_silence()


def test_a_full_disk_ends_the_import(tmp_path: Path) -> None:
    """With the reason, and without a session; where there is room, the same command takes over all that there is."""
    database, disk, numbers = tmp_path / "mosquitto.db", tmp_path / "disk", range(1, 65)
    sent = [db.message(number, b"a", Random(number).randbytes(MIB)) for number in numbers]
    waiting = [db.client_message(b"c", number) for number in numbers]
    database.write_bytes(db.file(6, *sent, db.client(b"c"), db.subscription(b"c", b"a"), *waiting))
    with small_disk(disk, 48 * MIB):
        code, _, errors = run(database, disk / "data")
        assert code == 1 and "No space left on device" in errors and "no session was taken over" in errors, errors
        subprocess.run(["mount", "-o", f"remount,size={512 * MIB}", str(disk)], check=True)
        code, report, errors = run(database, disk / "data")
        assert code == 0 and (report["sessions"], report["messages"]) == (1, len(numbers)), (report, errors)
