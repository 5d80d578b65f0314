"""A node that serves is copied, lost, and put back: `iot-mqtt backup` as an operator uses it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import BrokerProcess, our_command
from systemkit.starting import StartBroker

SECRET = "correct horse battery"


class Publishing(threading.Thread):
    """QoS 1, one after the other, until it is told to stop or the broker is gone."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.acknowledged = 0
        self.enough = threading.Event()

    def run(self) -> None:
        with Plain(self.port, version=5) as client:
            client.connect("publisher")
            while not self.enough.is_set():
                number = self.acknowledged
                client.publish("line/1", b"%d" % number, qos=1, packet_id=number % 60_000 + 1)
                client.expect(wire.PUBACK)
                self.acknowledged += 1


def backup(broker: BrokerProcess, *arguments: str, fails: bool = False) -> str:
    """Its output; of a failure, what it says on standard error."""
    command = [*our_command(), "backup", *arguments]
    if arguments[0] in ("make", "restore"):
        command += [f"--set=node.data_dir={broker.data_dir}", f"--set=admin.port={broker.ports['admin']}"]
    done = subprocess.run(
        command, check=False, env=clean_environment(), cwd=broker.folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_what_was_acknowledged_is_there_again(start_broker: StartBroker, tmp_path: Path) -> None:
    """Under load: nothing that was acknowledged before it began is missing, nothing is out of order; a retained
    message, and a session with its subscription, are there; and the file is of no use without its secret.
    """
    broker = start_broker()
    secret, file = tmp_path / "secret", tmp_path / "plant.imqb"
    secret.write_text(SECRET + "\n")
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("keeper", clean=False, expiry=3600)
        client.subscribe(("line/#", 1))
        client.publish("kept", b"value", qos=1, packet_id=1, retain=True)
        client.expect(wire.PUBACK)
    # A rehearsal opens no listener of the node's: the port of this one is taken until then.
    changed, taken = broker.data_dir / "changed.yaml", socket.create_server(("127.0.0.1", 0))
    changed.write_text(f"listeners: {{later: {{protocol: mqtt, port: {taken.getsockname()[1]}}}}}")
    publishing = Publishing(broker.ports["mqtt"])
    publishing.start()
    while publishing.acknowledged < 500:
        assert publishing.is_alive()
    before = publishing.acknowledged
    made = json.loads(backup(broker, "make", str(file), "--secret-file", str(secret), "--json"))
    after = publishing.acknowledged
    assert after > before, "nobody was served meanwhile"
    publishing.enough.set()
    publishing.join()
    assert not list((broker.data_dir / "copies").iterdir()), "the copy was left there"

    seen = json.loads(backup(broker, "rehearse", str(file), "--secret-file", str(secret), "--json"))
    taken.close()
    assert (seen["sessions"], seen["retained"], seen["damaged"]) == (1, 1, 0)
    assert before <= seen["messages"] <= after + 1

    assert "encrypted" in backup(broker, "check", str(file), fails=True)
    assert "stop the node" in backup(broker, "restore", str(file), "--secret-file", str(secret), fails=True)
    broker.kill()
    assert "not empty" in backup(broker, "restore", str(file), "--secret-file", str(secret), fails=True)
    shutil.rmtree(broker.data_dir)
    broker.data_dir.mkdir()
    (broker.data_dir / "GRID").write_text("ignite\n")
    assert "a node of a cluster" in backup(broker, "restore", str(file), "--secret-file", str(secret), fails=True)
    (broker.data_dir / "GRID").unlink()
    restored = json.loads(backup(broker, "restore", str(file), "--secret-file", str(secret), "--json"))
    assert restored == made
    assert "later" in changed.read_text()
    broker.start()
    with Plain(broker.ports["mqtt"], version=5) as client:
        assert client.connect("keeper", clean=False, expiry=3600).body[0] == 1, "session present"
        for number in range(seen["messages"]):
            message = client.expect_publication()
            assert int(message.payload) == number
            assert message.packet_id is not None
            client.send(wire.ack(wire.PUBACK, message.packet_id))
        client.expect_silence()
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("reader")
        client.subscribe(("kept", 0))
        message = client.expect_publication()
        assert (message.payload, message.retain) == (b"value", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_leaves_a_data_directory_with_its_owner(start_broker: StartBroker, tmp_path: Path) -> None:
    """What it restores there, and what it makes in it for a backup of a stopped node."""
    broker, owner, file = start_broker(), (12345, 12346), str(tmp_path / "plant.imqb")
    backup(broker, "make", file)
    broker.kill()
    shutil.rmtree(broker.data_dir)
    broker.data_dir.mkdir(mode=0o700)
    os.chown(broker.data_dir, *owner)
    for arguments in (("restore", file), ("make", str(tmp_path / "again.imqb"))):
        backup(broker, *arguments)
        found = {path: (path.stat().st_uid, path.stat().st_gid) for path in broker.data_dir.rglob("*")}
        assert len(found) > 5 and {*found.values()} == {owner}
