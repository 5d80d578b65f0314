"""A data directory that is taken away from a node that runs, or is not that of the node which starts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="it is about our own directory")

#: The exit code of a node whose directory is not its own any more.
GONE = 74


def _kept(broker: BrokerProcess, *payloads: bytes) -> None:
    """Have these acknowledged, for a session that is away."""
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("kept", clean=False, expiry=3600)
        client.subscribe(("t", 1))
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("")
        for packet_id, payload in enumerate(payloads, 1):
            client.publish("t", payload, qos=1, packet_id=packet_id)
            client.expect(wire.PUBACK)


def _found(broker: BrokerProcess, count: int) -> list[bytes]:
    with Plain(broker.ports["mqtt"], version=5) as client:
        assert client.connect("kept", clean=False, expiry=3600).body[0] == 1, "session present"
        return [client.expect_publication().payload for _ in range(count)]


def _ended(broker: BrokerProcess) -> int:
    """The exit code of a broker that ends by itself, within seconds."""
    assert broker.process is not None
    code = broker.process.wait(10)
    broker.process = None
    return code


def _refused(broker: BrokerProcess, *sets: str) -> str:
    """Why it does not start; ``sets``: settings of this attempt."""
    more = [part for one in sets for part in ("--set", one)]
    done = subprocess.run([*broker.command(), *more], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1].removeprefix("iot-mqtt: ")


def _move(data: Path) -> None:
    data.rename(data.with_name("away"))


def _move_grid(data: Path) -> None:
    (data / "grid").rename(data.with_name("away"))


def _empty_grid(data: Path) -> None:
    for path in (data / "grid").iterdir():
        path.unlink()


def _replace(data: Path) -> None:
    """By a copy, as a backup that is put back there would."""
    _move(data)
    shutil.copytree(data.with_name("away"), data)


@pytest.mark.parametrize("take", [_move, _replace, shutil.rmtree, _move_grid, _empty_grid])
def test_a_node_whose_directory_is_taken_away_ends_at_once(
    start_broker: StartBroker, take: Callable[[Path], object]
) -> None:
    """It says what to do, and writes nothing more, neither there nor where the directory was."""
    broker = start_broker()
    _kept(broker, b"1")
    grid, away = broker.data_dir / "grid", broker.data_dir.with_name("away")
    take(broker.data_dir)
    found = sorted(path for place in (grid, away) for path in place.rglob("*"))
    assert _ended(broker) == GONE
    assert f"{grid} is not the directory any more that this node has opened" in broker.log_text()
    assert "put it back" in broker.log_text()
    assert sorted(path for place in (grid, away) for path in place.rglob("*")) == found


def test_a_directory_that_was_moved_has_what_was_acknowledged(start_broker: StartBroker) -> None:
    """Put back, it is served on."""
    broker = start_broker()
    _kept(broker, b"1", b"2")
    _move(broker.data_dir)
    assert _ended(broker) == GONE
    broker.data_dir.with_name("away").rename(broker.data_dir)
    broker.start()
    assert _found(broker, 2) == [b"1", b"2"]


def test_a_stop_writes_nothing_into_another_directory(start_broker: StartBroker) -> None:
    """Whoever moves the directory and stops the node then finds both as they are."""
    broker = start_broker()
    _kept(broker, b"1")
    _replace(broker.data_dir)
    found = sorted(broker.data_dir.rglob("*"))
    assert broker.process is not None
    broker.process.terminate()
    assert _ended(broker) == GONE
    assert sorted(broker.data_dir.rglob("*")) == found


def test_a_removed_log_costs_nothing_that_was_acknowledged(start_broker: StartBroker) -> None:
    """What it had is in memory, too: the node writes that out, and goes on."""
    broker = start_broker()
    _kept(broker, b"1", b"2")
    before = list((broker.data_dir / "grid").glob("commits-*"))
    for path in before:
        path.unlink()
    wait_until(lambda: list((broker.data_dir / "grid").glob("commits-*")), 10)
    wait_until(lambda: "was removed" in broker.log_text(), 10)
    broker.restart(kill=True)
    assert _found(broker, 2) == [b"1", b"2"]


@pytest.mark.parametrize("take", [_move_grid, _empty_grid])
def test_a_node_whose_grid_is_gone_does_not_begin_anew(
    start_broker: StartBroker, take: Callable[[Path], object]
) -> None:
    """Unless it is told to: sessions, users and bans would be gone without a word."""
    broker = start_broker()
    _kept(broker, b"1")
    assert broker.terminate() == 0
    take(broker.data_dir)
    assert _refused(broker).startswith(f"{broker.data_dir}/grid has no grid")
    (broker.data_dir / "GRID").unlink()
    broker.start()


def test_a_node_by_itself_is_not_hidden_by_a_cluster(start_broker: StartBroker) -> None:
    """With the configuration of a cluster it does not start, and nothing says afterwards that it was in one."""
    broker = start_broker()
    _kept(broker, b"1")
    assert broker.terminate() == 0
    said = _refused(broker, "grid.kind=ignite", "grid.ignite.token=t", "registry.kind=zookeeper", "node.id=node-1")
    assert said.startswith(f"{broker.data_dir} is the data directory of a node by itself, and grid.kind is ignite")
    assert not (broker.data_dir / "ID").exists()
    broker.start()
    assert _found(broker, 1) == [b"1"]


def test_a_node_of_a_cluster_gets_no_grid_of_its_own(start_broker: StartBroker) -> None:
    """Where the configuration of the cluster was forgotten; nothing is made there."""
    broker = start_broker()
    assert broker.terminate() == 0
    shutil.rmtree(broker.data_dir / "grid")
    (broker.data_dir / "GRID").write_text("ignite\n")
    assert _refused(broker).startswith(f"{broker.data_dir} is the data directory of a node of a cluster")
    assert not (broker.data_dir / "grid").exists()
