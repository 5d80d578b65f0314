"""Real Ignite, ZooKeeper and Kafka servers for tests: what a test sees of them, and how they end with the session.

A test may kill, pause and restart servers; whatever it leaves broken is mended before the next test begins. The kernel
ends the servers if the test session is killed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iot_mqtt.app.engines import Cluster, KindName, Member, Places, Plan, snippet
from iot_mqtt.app.engines.life import Life
from tests.enginekit.memory import fill_heap

#: A server whose heap is full has ended by then.
OUT_OF_MEMORY_SECONDS = 60.0
#: What a JVM says last that was told to end by it.
OUT_OF_MEMORY = "Terminating due to java.lang.OutOfMemoryError"


class Server:
    """One server process. The signals return when their effect is there, ``start`` when the server works again."""

    def __init__(self, cluster: Cluster, member: Member) -> None:
        self._cluster = cluster
        self.member = member
        self.name = member.name
        self.touched = False

    @property
    def ports(self) -> dict[str, int]:
        """By use: ``client``, and ``gateway``, ``discovery``, ``communication`` of an Ignite server."""
        return dict(self.member.ports)

    @property
    def address(self) -> str:
        """``host:port`` for clients: thin clients of Ignite, kazoo, Kafka clients."""
        return self.member.at("client")

    @property
    def gateway(self) -> str:
        """``host:port`` of the messaging gateway of an Ignite server."""
        return self.member.at("gateway")

    @property
    def life(self) -> Life | None:
        return self._cluster.process(self.member).life()

    @property
    def alive(self) -> bool:
        return self.life is not None

    @property
    def pid(self) -> int:
        life = self.life
        assert life is not None, f"{self.name} does not run"
        return life.pid

    @property
    def token(self) -> str:
        """What the gateway of an Ignite server wants to hear."""
        return self._cluster.plan.token

    @property
    def role(self) -> str | None:
        """``leader``, ``follower`` or ``standalone`` of a ZooKeeper server; None if it does not answer."""
        state = next(status for status in self._cluster.status() if status.member.name == self.name)
        return state.role.name if state.role else None

    def broker_file(self, file: Path) -> Path:
        """The file for brokers that ``cluster up`` writes, written here."""
        snippet.write(file, self._cluster.plan)
        return file

    def log_text(self) -> str:
        """What the server has said in all of its lives."""
        return self._cluster.process(self.member).log.read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """SIGKILL, as a power switch would."""
        self._signal(signal.SIGKILL)

    def run_out_of_memory(self) -> None:
        """Something in it fills its heap; returns when it has ended by that."""
        self.touched = True
        life = self.life
        assert life is not None, f"{self.name} does not run"
        ended = self.log_text().count(OUT_OF_MEMORY)
        fill_heap(life.pid)
        deadline = time.monotonic() + OUT_OF_MEMORY_SECONDS
        while self.life == life:
            assert time.monotonic() < deadline, f"{self.name} lives on with a full heap"
            time.sleep(0.05)
        assert self.log_text().count(OUT_OF_MEMORY) == ended + 1, "it has ended by something else"

    def terminate(self) -> None:
        """SIGTERM, and wait for the end."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: alive for the kernel, dead for its peers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after ``pause``. An Ignite server that was given up meanwhile ends by itself."""
        self._signal(signal.SIGCONT)

    def start(self) -> None:
        """Start again on the same ports and data; returns when it works. Does nothing if it runs."""
        self._cluster.start([self.member])

    @property
    def copies_missing(self) -> int | None:
        """Partitions of the grid that lack copies, as this Ignite server says; None: it does not say."""
        state = next(status for status in self._cluster.status() if status.member.name == self.name)
        return state.role.copies_missing if state.role else None

    def end(self) -> None:
        """Kill it, unless it has ended by itself."""
        self.touched = True
        self._cluster.signal(self.member, signal.SIGKILL)

    def restart(self) -> None:
        """Kill and start."""
        self.kill()
        self.start()

    def _signal(self, number: signal.Signals) -> None:
        self.touched = True
        assert self._cluster.signal(self.member, number), f"{self.name} does not run"


class Servers:
    """The servers of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.all = [Server(cluster, member) for member in cluster.plan.members]

    def of(self, kind: KindName) -> list[Server]:
        return [server for server in self.all if server.member.kind == kind]

    @property
    def ignite(self) -> list[Server]:
        return self.of("ignite")

    def copied(self) -> bool:
        """Whether every Ignite server says that each entry has all of its copies: one of them may be lost now."""
        return all(server.copies_missing == 0 for server in self.ignite)

    @property
    def zookeeper(self) -> list[Server]:
        return self.of("zookeeper")

    @property
    def kafka(self) -> list[Server]:
        return self.of("kafka")

    @property
    def addresses(self) -> tuple[str, ...]:
        """``host:port`` for clients of every server."""
        return tuple(server.address for server in self.all)

    @property
    def gateways(self) -> tuple[str, ...]:
        """``host:port`` of the gateway of every Ignite server."""
        return tuple(server.gateway for server in self.ignite)

    @property
    def token(self) -> str:
        """What the gateways want to hear."""
        return self.cluster.plan.token

    @property
    def leader(self) -> Server:
        """The ZooKeeper server that leads, or is alone."""
        for server in self.zookeeper:
            if server.role in ("leader", "standalone"):
                return server
        raise AssertionError("no ZooKeeper server leads")

    def settings(self) -> dict[str, object]:
        """Dotted configuration keys of a broker that uses these servers."""
        return snippet.settings(self.cluster.plan)

    def heal(self) -> None:
        """Bring back what a test has killed or paused, if one did."""
        if not any(server.touched for server in self.all):
            return
        for server in self.all:
            if (life := server.life) is not None and life.paused:
                # It may have been given up by its peers, and would end in its own time: a fresh one is certain.
                server.kill()
        self.cluster.start(self.cluster.plan.members)
        for server in self.all:
            server.touched = False


#: What runs now, for ``heal_all``.
_running: list[Servers] = []


def heal_all() -> None:
    """Between two tests: the next one finds everything as the fixtures promise."""
    for servers in _running:
        servers.heal()


@contextmanager
def running(
    folder: Path, *, ignite: int = 0, zookeeper: int = 0, kafka: int = 0, persistence: bool = False
) -> Iterator[Servers]:
    """Start so many servers of each kind on free ports, and end them whatever happens. Call it in the main thread."""
    plan = Plan.make(ignite=ignite, zookeeper=zookeeper, kafka=kafka, persistence=persistence)
    with keeping(folder, Places.find(), plan) as servers:
        yield servers


@contextmanager
def keeping(folder: Path, places: Places, plan: Plan) -> Iterator[Servers]:
    """The same for a plan, from any places."""
    cluster = Cluster(folder, places, die_with_parent=True)
    try:
        cluster.up(plan)
        servers = Servers(cluster)
        _running.append(servers)
        try:
            yield servers
        finally:
            _running.remove(servers)
    finally:
        cluster.down(gently=False)
