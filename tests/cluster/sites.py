"""Sites with a network between them that can be cut: one Ignite server, one ZooKeeper server and one node in each.

Each site is a network namespace on a bridge; this process is on the bridge too and reaches all of them, as clients do
that are not in the same building. A cut is made in one direction: what a site sends to another goes to an address that
no network card has, so that it is lost without a word. Needs root and iproute2.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from systemkit.forking import Forked
from twisted.internet.endpoints import TCP4ClientEndpoint

from iot_mqtt.app.engines import Places, Plan, probe
from iot_mqtt.app.engines.kinds import KINDS, argument_file
from iot_mqtt.app.engines.places import java
from iot_mqtt.app.engines.plan import Member
from iot_mqtt.app.engines.ports import HOST
from iot_mqtt.grid.ignite import Address, IgniteGrid, IgniteSettings
from iot_mqtt.grid.log import FollowedLog, LogSettings
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.log import Damage
from tests.cluster.nodes import BrokerNode, broker_settings, eventually
from tests.contract.driving import ReactorPump

_NOWHERE = "02:00:00:00:fe:fe"
_DEVICE = "eth0"
_NUMBERS = itertools.count()


def unavailable() -> str | None:
    """Why there can be no namespaces here."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2"
    name = f"iotprobe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespaces here: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


class Network:
    """A bridge and the sites on it."""

    def __init__(self, count: int) -> None:
        # Another one each time: what a namespace has goes a while after it.
        mark = (os.getpid() + 1_009 * next(_NUMBERS)) % 10_000
        self._net = f"10.{100 + mark % 100}.{mark // 100}"
        self._bridge = f"iotbr{mark}"
        self.names = [f"iot{mark}s{number}" for number in range(1, count + 1)]
        self.addresses = [f"{self._net}.{number}" for number in range(1, count + 1)]

    def make(self) -> None:
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for name, address in zip(self.names, self.addresses, strict=True):
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}o", "type", "veth", "peer", "name", _DEVICE, "netns", name)
            _ip("link", "set", f"{name}o", "master", self._bridge, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", _DEVICE)
            _ip("-n", name, "link", "set", _DEVICE, "up")

    def remove(self) -> None:
        for name in self.names:
            with suppress(AssertionError):
                _ip("netns", "del", name)
        with suppress(AssertionError):
            _ip("link", "del", self._bridge)

    def cut(self, sender: int, receiver: int) -> None:
        """What one site sends to the other is lost from now on."""
        _ip("-n", self.names[sender], *self._neighbour("replace", receiver), "lladdr", _NOWHERE, "nud", "permanent")

    def slow(self, site: int, rate: str = "1mbit") -> None:
        """What a site sends, to whomever, waits for its turn from now on, and is lost after a second of that."""
        words = ("qdisc", "replace", "dev", _DEVICE, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "1s")
        subprocess.run(["tc", "-n", self.names[site], *words], check=True, capture_output=True)

    def heal(self) -> None:
        """Nothing is lost any more, and nothing waits."""
        for index, name in enumerate(self.names):
            subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", _DEVICE, "root"], check=False, capture_output=True)
            for other in range(len(self.names)):
                if other != index and _NOWHERE in _ip("-n", name, "neigh", "show", self.addresses[other]):
                    _ip("-n", name, *self._neighbour("del", other))

    def _neighbour(self, what: str, other: int) -> list[str]:
        return ["neigh", what, self.addresses[other], "dev", _DEVICE]


class SiteNode(BrokerNode):
    """A node inside a namespace; ``host`` is where it is."""

    def __init__(self, folder: Path, name: str, settings: Mapping[str, object], namespace: str, host: str) -> None:
        super().__init__(folder, name, {**settings, "listeners.mqtt.host": host, "auth.allow_anonymous": "true"})
        self.host = host
        self._namespace = namespace

    def inside(self, command: Sequence[str]) -> list[str]:
        """A command that runs at this site, where its admin port is on loopback."""
        return ["ip", "netns", "exec", self._namespace, *command]

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes] | Forked:
        return super()._spawn(["setpriv", "--pdeathsig", "KILL", *self.inside(command)])


class SiteServer:
    """An Ignite or ZooKeeper server inside a namespace, started again by whoever looks after the site."""

    def __init__(self, folder: Path, plan: Plan, member: Member, sites: Sites) -> None:
        self.member = member
        self._folder, self._plan, self._sites = folder, plan, sites
        self._host = sites.network.addresses[member.number - 1]
        self._namespace = sites.network.names[member.number - 1]
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        folder.mkdir(parents=True)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it if it does not run; returns at once."""
        if self.running:
            return
        arguments = KINDS[self.member.kind].prepare(self._plan, self.member, self._folder, Places.find())
        arguments = [self._sites.placed(argument) for argument in arguments]
        if self.member.kind == "zookeeper":
            config = Path(arguments[-1])
            config.write_text(self._sites.placed(config.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            # Before the class and the file behind it. Nobody else is on the bridge, so there need be no TLS on it.
            arguments[-2:-2] = [f"-Diot.ignite.host={self._host}", "-Diot.tls.plain=true"]
            arguments = [
                argument.replace(f"gateway.host={HOST}", f"gateway.host={self._host}") for argument in arguments
            ]
        self.starts += 1
        file = self._folder / "java.args"
        file.touch(mode=0o600)
        file.write_text(argument_file(arguments), encoding="utf-8")
        command = ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self._namespace, java(), f"@{file}"]
        with (self._folder / "log").open("ab") as log:
            begin = partial(self._begin, command, log)
            self.process = self._sites.starter.submit(begin).result()

    def _begin(self, command: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder)

    def sees(self) -> int:
        """How many Ignite servers there are for it; 0 if it does not answer."""
        with suppress(OSError, probe.NotThere):
            return probe.gateway(self.member.ports["gateway"], self._plan.token, host=self._host).there
        return 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class Sites:
    """Everything."""

    def __init__(self, folder: Path, count: int, *, persistence: bool) -> None:
        self.network = Network(count)
        #: Its thread begins all servers: each ends with the thread that began it.
        self.starter = ThreadPoolExecutor(1)
        self.plan = Plan.make(ignite=count, zookeeper=count, standard_ports=True, persistence=persistence)
        self.servers = [SiteServer(folder / member.name, self.plan, member, self) for member in self.plan.members]
        told = {key: self.placed(value) for key, value in broker_settings(self.plan).items()}
        self.nodes = [
            SiteNode(folder / f"site-{index + 1}", f"site-{index + 1}", told, name, address)
            for index, (name, address) in enumerate(
                zip(self.network.names, self.network.addresses, strict=True),
            )
        ]

    @property
    def ignite(self) -> list[SiteServer]:
        return [server for server in self.servers if server.member.kind == "ignite"]

    def placed(self, text: object) -> str:
        """The plan speaks of one machine; here every server has an address of its own."""
        placed = str(text)
        for member in self.plan.members:
            for port in member.ports.values():
                placed = placed.replace(f"{HOST}:{port}", f"{self.network.addresses[member.number - 1]}:{port}")
        return placed

    def damage(self) -> list[Damage]:
        """What the log of any node lacks, or has wrong, in the grid."""
        pump = ReactorPump()

        def reach(address: Address, timeout: float) -> TCP4ClientEndpoint:
            return TCP4ClientEndpoint(pump.reactor, address.host, address.port, timeout)

        def at(port: str) -> tuple[Address, ...]:
            return tuple(
                Address(host, server.member.ports[port])
                for host, server in zip(self.network.addresses, self.ignite, strict=True)
            )

        settings = IgniteSettings(gateways=at("gateway"), addresses=at("client"), token=self.plan.token)
        grid = IgniteGrid(settings, pump.cross, reach, ReactorClock(pump.reactor))

        async def look() -> list[Damage]:
            await grid.open()
            found: list[Damage] = []
            for number in range(1, len(self.nodes) + 1):
                log = FollowedLog(grid, LogSettings(), number)
                await log.open()
                found += [damage async for damage in log.verify()]
            await grid.close()
            return found

        return pump.run(look())

    def mended(self) -> bool:
        """Start the servers that have ended, as whoever looks after them does: a grid that is alone stops itself."""
        for server in self.servers:
            server.start()
        return True

    def whole(self, seconds: float = 60) -> None:
        """Start what does not run, and what ends meanwhile as it was cut off, until the grid servers are one grid."""
        count = len(self.ignite)

        def is_whole() -> bool:
            return self.mended() and all(server.sees() == count for server in self.ignite)

        assert eventually(is_whole, seconds), f"not one grid: they see {[one.sees() for one in self.ignite]} servers"


@contextmanager
def sites(folder: Path, count: int = 3, *, persistence: bool = False) -> Iterator[Sites]:
    """So many sites; everything is gone at the end, namespaces included."""
    places = Sites(folder, count, persistence=persistence)
    with ExitStack() as stack:
        stack.callback(places.starter.shutdown)
        stack.callback(places.network.remove)
        places.network.make()
        for server in places.servers:
            stack.callback(server.stop)
        places.whole()
        for node in places.nodes:
            stack.callback(node.reap)
            node.start()
        yield places
        places.network.heal()
