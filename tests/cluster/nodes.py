"""The nodes of one cluster as real processes on real servers: started together, killed, paused, brought back."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError

from systemkit.process import BrokerProcess, Options, our_command

from iot_mqtt.admin.token import read_token
from iot_mqtt.app.engines import Plan
from iot_mqtt.app.engines.snippet import settings as settings_of
from iot_mqtt.cluster.channels import Home, read
from iot_mqtt.cluster.joining import known_nodes, note_cleaned
from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract.driving import ReactorPump
from tests.contract.ignitekit import make
from tests.enginekit.servers import Servers

#: A dead node is out of the list of members after so many seconds (the default, which production has too).
SESSION_SECONDS = 5.0


def eventually(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it comes true in time. A node between two lives answers nobody: what is asked of it is not true yet."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        try:
            if true():
                return True
        except URLError:
            if late:
                raise
        if late:
            return False
        time.sleep(0.02)


def broker_settings(plan: Plan) -> dict[str, object]:
    """What every node of a cluster on these servers is told, as for a command line."""
    shared = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings_of(plan).items()}
    timeout = {"registry.zookeeper.session_timeout": SESSION_SECONDS} if plan.count("zookeeper") else {}
    return {**shared, "mqtt.sys_interval": 0, **timeout}


class BrokerNode(BrokerProcess):
    """One node. ``running`` is false between ``kill`` and ``start``."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, object]) -> None:
        super().__init__(folder, Options(settings={"node.id": name, **settings}))
        self.name = name
        #: Where the package lies that it runs; None: this one.
        self.source: Path | None = None

    def command(self) -> list[str]:
        """The command line that starts it."""
        command = super().command()
        if self.source is None:
            return command
        return [sys.executable, "-m", "iot_mqtt", *command[len(our_command()) :]]

    def environment(self) -> dict[str, str]:
        """With another release in front of the installed one. Nothing of it is compiled."""
        kept = super().environment()
        return kept if self.source is None else kept | {"PYTHONPATH": str(self.source), "IOT_MQTT_NATIVE": "off"}

    @property
    def running(self) -> bool:
        return self.process is not None

    @property
    def port(self) -> int:
        return self.ports["mqtt"]

    def with_more(self, settings: Mapping[str, object]) -> Options:
        """Its options, with these settings as well."""
        return replace(self.options, settings={**self.options.settings, **settings})

    def pause(self) -> None:
        """SIGSTOP: its connections stay, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def assert_undamaged(self) -> None:
        """It has found everything in the logs of others that their writers say is there."""
        damage = [line for line in self.log_text(whole=True).splitlines() if "the log is damaged" in line]
        # Earlier releases say so of one stream, without a cause.
        assert not [line for line in damage if "has no stream " not in line], damage[:10]

    def api(self, path: str) -> Any:
        """What ``/api/v1`` says."""
        return json.loads(self.http(f"/api/v1/{path}", token=read_token(str(self.data_dir))))

    def has_client(self, client_id: str) -> bool:
        """Whether it is connected here."""
        return any(
            client["client_id"] == client_id for client in self.api(f"clients?limit=1000&node={self.name}")["items"]
        )

    def has_session(self, client_id: str) -> bool:
        """Whether its session is at home here, connected or not."""
        return any(
            session["client_id"] == client_id for session in self.api(f"sessions?limit=1000&node={self.name}")["items"]
        )


class Nodes:
    """The nodes of one cluster."""

    def __init__(self, folder: Path, servers: Servers, count: int, settings: Mapping[str, object]) -> None:
        self.servers = servers
        self.settings = {**broker_settings(servers.cluster.plan), **settings}
        self.all = [
            BrokerNode(folder / name, name, self.settings) for name in map("node-{}".format, range(1, count + 1))
        ]

    def __getitem__(self, index: int) -> BrokerNode:
        return self.all[index]

    def __iter__(self) -> Iterator[BrokerNode]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    @contextmanager
    def told(self, settings: Mapping[str, object], own: Callable[[], Mapping[str, object]] = dict) -> Iterator[None]:
        """Meanwhile they have more settings, with which they are started again, and ``own`` ones, made for each."""
        before = {node.name: node.options for node in self.all}
        try:
            self._start_again({node.name: node.with_more({**settings, **own()}) for node in self.all})
            yield
        finally:
            self._start_again(before)

    def _start_again(self, options: Mapping[str, Options]) -> None:
        """At once: each of them takes seconds."""

        def again(node: BrokerNode) -> None:
            node.close()
            node.options = options[node.name]
            node.start()

        with ThreadPoolExecutor(len(self.all)) as threads:
            list(threads.map(again, self.all))

    @property
    def ports(self) -> list[int]:
        """Where clients may try their luck, those of dead nodes included."""
        return [node.port for node in self.all]

    def mend(self) -> None:
        """Start what does not run."""
        for node in self.all:
            if not node.running:
                node.start()

    def homes(self) -> dict[str, Home]:
        """Client id → the life that owns its session, as the grid has it."""
        with self.opened_grid() as (pump, grid):
            found = pump.run(grid.page(CacheName.CHANNELS, b"", None, 10_000))
            return {key.decode(): read(value) for key, value in found}

    def note_cleaned(self, name: str) -> None:
        """A node that is gone has been cleaned up after, as its adopter notes half a minute after it has taken over."""
        with self.opened_grid() as (pump, grid):
            (known,) = [known for known in pump.run(known_nodes(grid)) if known.node_id == name]
            pump.run(note_cleaned(grid, known.number, known.boot))

    def set_format(self, record: bytes) -> None:
        """What the grid says of its format."""
        with self.opened_grid() as (pump, grid):
            batch = WriteBatch()
            batch.put(CacheName.META, b"format", record)
            pump.run(grid.commit(batch))

    @contextmanager
    def opened_grid(self) -> Iterator[tuple[ReactorPump, IgniteGrid]]:
        """The grid of these nodes, as nobody's."""
        pump = ReactorPump()
        grid = make(pump, [server for server in self.servers.ignite if server.alive])
        pump.run(grid.open())
        try:
            yield pump, grid
        finally:
            pump.run(grid.close())


@contextmanager
def cluster(
    folder: Path, servers: Servers, count: int = 3, settings: Mapping[str, object] | None = None
) -> Iterator[Nodes]:
    """So many nodes on these servers; at the end each is closed, and has to end well."""
    nodes = Nodes(folder, servers, count, settings or {})
    try:
        for node in nodes:
            node.start()
        yield nodes
    except BaseException:
        for node in nodes:
            node.reap()
        raise
    with ExitStack() as ends:
        for node in nodes:
            ends.callback(node.assert_undamaged)
            ends.callback(node.close)
