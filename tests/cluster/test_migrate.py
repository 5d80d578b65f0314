"""From one node on the embedded grid to a cluster: nobody loses anything, and nobody gets anything twice."""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import gethostname

import pytest
from systemkit import wire
from systemkit.cross import set_rules
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import BrokerProcess, Options, our_command
from systemkit.users import call

from iot_mqtt.ports.filling import Filler, Mark
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.cluster.conftest import EVERYBODY, StartServers
from tests.cluster.nodes import Nodes, cluster, eventually

SINGLES = [b"one-%d" % number for number in range(300)]
SHARED = [b"shared-%d" % number for number in range(40)]
DOUBLES = [b"two-%d" % number for number in range(20)]
EXPIRY = 3600
UPLINK = {
    "uplink.kind": "file",
    "uplink.file.rotate_seconds": 0.2,
    "uplink.rules": '[{"filter": "one/#", "to": "ones"}]',
}


def migrate(nodes: Nodes, source: Path, *more: str) -> list[str]:
    """The command, with the configuration of the first node."""
    settings = {"node.id": nodes[0].name, "node.data_dir": nodes[0].data_dir, **nodes.settings}
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    nodes[0].folder.mkdir(parents=True, exist_ok=True)
    return [*our_command(), "migrate", str(source), *sets, *more]


def run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, env=clean_environment(), cwd=folder, capture_output=True, text=True, timeout=120
    )


def acknowledge(client: Plain, count: int) -> list[bytes]:
    """So many messages of QoS 1; then nothing."""
    found = []
    for _ in range(count):
        message = client.expect_publication()
        found.append(message.payload)
        client.send(wire.ack(wire.PUBACK, message.packet_id))
    client.expect_silence()
    return found


def live_alone(broker: BrokerProcess) -> tuple[int, list[wire.Publication]]:
    """What a sole node has done before it is killed. Returns the id of the message that was received and not released,
    and the messages that were sent and not received.
    """
    port = broker.ports["mqtt"]
    with Plain(port, version=5) as singles, Plain(port, version=5) as doubles, Plain(port, version=5) as sender:
        singles.connect("singles", clean=False, expiry=EXPIRY)
        singles.subscribe(("one/#", 1))
        singles.disconnect()
        for name, filter in (("member", "$share/g/shared/#"), ("device", "down/device")):
            with Plain(port, version=5) as client:
                client.connect(name, clean=False, expiry=EXPIRY)
                client.subscribe((filter, 1))
                client.disconnect()
        doubles.connect("doubles", clean=False, expiry=EXPIRY, receive_maximum=3)
        doubles.subscribe(("two/#", 2))
        sender.connect("sender", clean=False, expiry=EXPIRY)
        sender.publish("kept", b"value", qos=1, packet_id=1, retain=True)
        sender.expect(wire.PUBACK)
        for number, payload in enumerate(DOUBLES, 10):
            sender.publish("two/t", payload, qos=2, packet_id=number)
            sender.expect(wire.PUBREC)
            sender.send(wire.ack(wire.PUBREL, number))
            sender.expect(wire.PUBCOMP)
        first, second, third = (doubles.expect_publication() for _ in range(3))
        for message in (first, second):
            doubles.send(wire.ack(wire.PUBREC, message.packet_id))
            assert doubles.expect(wire.PUBREL).packet_id == message.packet_id
        doubles.send(wire.ack(wire.PUBCOMP, first.packet_id))
        fourth = doubles.expect_publication()
        assert [one.payload for one in (first, second, third, fourth)] == DOUBLES[:4]
        # The broker has taken it, and its sender has not released it.
        sender.publish("two/late", b"late", qos=2, packet_id=99)
        sender.expect(wire.PUBREC)
        for number, payload in enumerate(SINGLES, 100):
            sender.publish("one/t", payload, qos=1, packet_id=number)
            sender.expect(wire.PUBACK)
        for number, payload in enumerate(SHARED, 500):
            sender.publish("shared/t", payload, qos=1, packet_id=number)
            sender.expect(wire.PUBACK)
        command = b"\x26" + wire.text("command-id") + wire.text("open-valve")
        sender.send(wire.publish("down/device", b"open", qos=1, packet_id=9, version=5, properties=command))
        sender.expect(wire.PUBACK)
        doubles.ping()
        return second.packet_id, [third, fourth]


@pytest.fixture
def sole(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A node by itself, which cannot send up what it records for the platform. Not started."""
    sole = BrokerProcess(tmp_path / "sole", Options(settings=UPLINK))
    sole.data_dir.mkdir(parents=True)
    (sole.data_dir / "uplink").write_text("in the way")
    yield sole
    sole.reap()


def test_a_sole_node_becomes_a_cluster(start_servers: StartServers, sole: BrokerProcess, tmp_path: Path) -> None:
    """Sessions get what waits for them at any node, in order and once; QoS 2 exchanges of both directions go on where
    they were; what is retained is there. A target with something in it is refused, one that an interrupted attempt has
    filled is not served; and the source serves nobody any more.
    """
    servers = start_servers(ignite=1, zookeeper=1)
    nodes = Nodes(tmp_path, servers, 2, UPLINK)
    sole.start()
    released, sent = live_alone(sole)
    set_rules(sole, "plant", EVERYBODY)
    assert call(sole, "POST", "shadows/device", {"desired": {"valve": 1}})[0] == 200
    assert call(sole, "POST", "bans", {"client": "loud-*", "reason": "loud"})[0] < 300
    stranger = run(migrate(nodes, sole.data_dir), tmp_path)
    assert stranger.returncode == 1
    assert "stop the node" in stranger.stderr
    sole.kill()

    with nodes.opened_grid() as (pump, grid):
        batch = WriteBatch()
        batch.put(CacheName.RETAINED, b"of/others", b"")
        pump.run(grid.commit(batch))
        refused = run(migrate(nodes, sole.data_dir), tmp_path)
        assert refused.returncode == 1
        assert "the grid is not empty: there is something in retained" in refused.stderr
        # As an attempt leaves it that was killed.
        source = f"{gethostname()}:{sole.data_dir.resolve() / 'grid'}"
        pump.run(Mark(grid, Filler("iot-mqtt migrate", source), "earlier").begin())
    with pytest.raises(AssertionError, match="iot-mqtt migrate is filling this grid"):
        nodes[0].start()
    nodes[0].reap()
    done = run(migrate(nodes, sole.data_dir, "--json"), tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["sessions"], figures["again"]) == (5, True)
    with pytest.raises(AssertionError, match="everything in it has gone to"):
        sole.start()

    with cluster(tmp_path, servers, 2, UPLINK) as nodes:
        with Plain(nodes[0].port, version=5) as sender:
            assert sender.connect("sender", clean=False, expiry=EXPIRY).body[0] == 1, "session present"
            sender.send(wire.as_duplicate(wire.publish("two/late", b"late", qos=2, packet_id=99, version=5)))
            sender.expect(wire.PUBREC)
            sender.send(wire.ack(wire.PUBREL, 99))
            sender.expect(wire.PUBCOMP)
            sender.publish("one/t", b"new", qos=1, packet_id=7)
            sender.expect(wire.PUBACK)
        with Plain(nodes[1].port, version=5) as singles:
            assert singles.connect("singles", clean=False, expiry=EXPIRY).body[0] == 1, "session present"
            found = acknowledge(singles, len(SINGLES) + 1)
            # What was published at one node is in order.
            found.remove(b"new")
            assert found == SINGLES
        with Plain(nodes[0].port, version=5) as doubles:
            assert doubles.connect("doubles", clean=False, expiry=EXPIRY).body[0] == 1, "session present"
            found = receive_doubles(doubles, released, sent, len(DOUBLES) - 2 + 1)
            assert found == [*DOUBLES[2:], b"late"]
            doubles.expect_silence()
        with Plain(nodes[1].port, version=5) as member:
            member.connect("member", clean=False, expiry=EXPIRY)
            assert acknowledge(member, len(SHARED)) == SHARED
        assert nodes[0].api("commands/open-valve")["state"] == "queued"
        with Plain(nodes[0].port, version=5) as device:
            device.connect("device", clean=False, expiry=EXPIRY)
            assert acknowledge(device, 1) == [b"open"]
        assert eventually(lambda: nodes[1].api("commands/open-valve")["state"] == "acked")
        assert nodes[1].api("shadows/device")["desired"]["values"] == {"valve": 1}
        assert [ban["reason"] for ban in nodes[1].api("bans")["items"]] == ["loud"]
        assert nodes[1].api("auth/rules/plant")["text"] == EVERYBODY
        with Plain(nodes[1].port, version=5) as reader:
            reader.connect("reader")
            reader.subscribe(("kept", 0))
            message = reader.expect_publication()
            assert (message.payload, message.retain) == (b"value", True)
        nodes.note_cleaned("node-1 (migrated)")
        assert eventually(lambda: len(sent_up(nodes, "uplink-of-0")) >= len(SINGLES)), "nobody sends it up"
        assert sent_up(nodes, "uplink-of-0") == SINGLES
        assert call(nodes[0], "DELETE", "cluster/nodes/node-1%20(migrated)")[0] == 204
        assert call(nodes[0], "DELETE", "cluster/nodes/node-2")[0] == 409
        assert [(node.data_dir / "GRID").read_text() for node in nodes] == ["ignite\n", "ignite\n"]


def sent_up(nodes: Nodes, folder: str) -> list[bytes]:
    """What the files of this name have, of all nodes, in order."""
    found: list[bytes] = []
    for node in nodes:
        for path in sorted((node.data_dir / folder).glob("ones/*/*.jsonl")):
            found += [b64decode(json.loads(line)["payload_b64"]) for line in path.read_text().splitlines()]
    return found


def receive_doubles(client: Plain, released: int, sent: list[wire.Publication], count: int) -> list[bytes]:
    """All messages, to the end of their exchanges; those under way have to come as they stood."""
    found: list[bytes] = []
    resumed = [(wire.PUBREL, released), *((wire.PUBLISH, message.packet_id) for message in sent)]
    seen: list[tuple[int, int]] = []
    open_ids: set[int] = set()
    while len(found) < count or open_ids or len(seen) < len(resumed):
        got = client.receive()
        assert got is not None
        if got.kind == wire.PUBREL:
            packet_id = got.packet_id
            open_ids.discard(packet_id)
            client.send(wire.ack(wire.PUBCOMP, packet_id))
        else:
            message = wire.publication(got, 5)
            packet_id = message.packet_id
            found.append(message.payload)
            open_ids.add(packet_id)
            client.send(wire.ack(wire.PUBREC, packet_id))
        if (got.kind, packet_id) in resumed and (got.kind, packet_id) not in seen:
            seen.append((got.kind, packet_id))
    assert sorted(seen) == sorted(resumed)
    return found
