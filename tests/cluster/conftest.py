"""Fixtures of the tests with real servers; those that are shared by all tests are in ``tests/conftest.py``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.enginekit.servers import Servers, running

# What the system tests stand on is used here too; pytest imports tests without their folder on the path.
sys.path.insert(0, str(Path(__file__).parent.parent / "system"))

from systemkit.access import password_of
from systemkit.cross import access_settings, prepare, set_rules
from systemkit.users import call

from iot_mqtt.auth.passwd import set_password
from tests.cluster.nodes import Nodes, cluster, eventually
from tests.otlp import Collector, collecting

#: Who may have a name at the nodes that all tests share.
USERS = ("alice", "bob")
#: Who is not in the table of cross-user cases may do everything.
EVERYBODY = "[all]\nallow all #\nallow all $SYS/#\nallow all $edge/#\n"

#: Whether the grid that the tests share is on disk, and outlives all of its servers.
ON_DISK = os.environ.get("CLUSTER_GRID") == "disk"

StartServers = Callable[..., Servers]


@pytest.fixture
def start_servers(tmp_path: Path) -> Iterator[StartServers]:
    """Servers for one test alone: ``start_servers(ignite=3, zookeeper=3)``, also ``kafka`` and ``persistence``."""
    with ExitStack() as stack:

        def start(**wanted: Any) -> Servers:
            folder = tmp_path / f"servers-{len(list(tmp_path.glob('servers-*'))) + 1}"
            return stack.enter_context(running(folder, **wanted))

        yield start


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """What the nodes of the tests stand on: two Ignite servers with each other's copies, and a ZooKeeper ensemble.

    ``CLUSTER_IGNITES`` makes it more, ``CLUSTER_GRID=disk`` puts the grid on disk.
    """
    ignites = int(os.environ.get("CLUSTER_IGNITES", "2"))
    with running(tmp_path_factory.mktemp("engines"), ignite=ignites, zookeeper=3, persistence=ON_DISK) as servers:
        yield servers


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Takes what the three nodes trace: clients whose ids begin with ``traced-``."""
    with collecting() as made:
        yield made


@pytest.fixture(scope="session")
def _three_nodes(engines: Servers, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("nodes")
    users = folder / "users"
    for user in USERS:
        set_password(str(users), user, password_of(user).encode())
    # Anonymous clients are let in as without users.
    settings = {
        "auth.users_file": users,
        **access_settings(folder, "file", "anonymous"),
        "telemetry.traces.enabled": "true",
        "telemetry.traces.endpoint": collector.url,
        "telemetry.traces.clients": '["traced-*"]',
    }
    with cluster(folder, engines, settings=settings) as nodes:
        prepare(nodes[0])
        set_rules(nodes[0], "public", EVERYBODY)
        assert eventually(lambda: all(call(node, "GET", "auth/rules/public")[0] == 200 for node in nodes))
        yield nodes


@pytest.fixture
def nodes(_three_nodes: Nodes) -> Iterator[Nodes]:
    """Three nodes that are one broker, all of them running; tests keep apart by client ids and topics.

    At the end each of them has to be able to say what became of all messages.
    """
    _three_nodes.mend()
    yield _three_nodes
    for node in _three_nodes:
        node.assert_explained()

    # A session may be on its way still. What was published for it is counted by who has it then. And a node may begin
    # a new life.
    def explained() -> bool:
        return bool(call(_three_nodes[0], "GET", "identity/cluster")[1].get("unexplained") == 0)

    assert eventually(explained, 60), call(_three_nodes[0], "GET", "identity/cluster")
