"""A cluster whose parts speak TLS to each other: brokers get in, and whoever shows no certificate of it does not."""

from __future__ import annotations

import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from iot_mqtt.app.engines import Places, Plan, probe
from iot_mqtt.app.engines.certificates import Pem, files_of, issue
from iot_mqtt.app.engines.kinds import KINDS
from iot_mqtt.app.engines.plan import BROKER
from iot_mqtt.app.engines.process import ServerProcess, wait_until
from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.zookeeper import ZooKeeperRegistry
from iot_mqtt.grid.ignite import NoServer
from iot_mqtt.pipeline.tls_client import ClientTls
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.contract import ignitekit
from tests.contract.driving import ReactorPump
from tests.contract.registrykit import TimedPump, member
from tests.enginekit.servers import Servers, keeping

#: Seconds in which a server that may join has joined several times over.
LONG_ENOUGH = 12.0
#: Connections that would take all the memory of a server that gave each what the system's socket buffers have.
STRANGERS = 800
#: Of the lobby of a port (``Lobby.MOST_OF_ONE``).
MOST_OF_ONE_ADDRESS = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For certificates, ours and others'."""
    return tmp_path_factory.mktemp("secure")


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[Servers]:
    """One Ignite and one ZooKeeper server."""
    plan = Plan.make(ignite=1, zookeeper=1, tls=str(folder / "tls"))
    with keeping(folder / "cluster", Places.find(), plan) as found:
        yield found


@pytest.fixture(scope="module")
def own(servers: Servers) -> Pem:
    """What a broker of this cluster shows."""
    found = servers.cluster.plan.pem(BROKER)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def strangers(folder: Path) -> Pem:
    """The same of another authority."""
    issue(folder / "strange", [BROKER, "ignite-2"], ["localhost", "127.0.0.1"])
    return files_of(folder / "strange", BROKER)


@pytest.fixture(params=["plain", "without", "stranger"])
def wrong(request: pytest.FixtureRequest, own: Pem, strangers: Pem) -> ClientTls | None:
    """No TLS at all, no certificate, one of somebody else; all of them believe the server."""
    ca = str(own.authority)
    return {
        "plain": None,
        "without": ClientTls(ca),
        "stranger": ClientTls(ca, str(strangers.certificate), str(strangers.key)),
    }[request.param]


def right(own: Pem) -> ClientTls:
    return ClientTls(str(own.authority), str(own.certificate), str(own.key))


def test_a_broker_writes_and_reads_through_tls(servers: Servers, own: Pem) -> None:
    """Through the gateway and the thin client; a value of several records, too."""
    pump = ReactorPump()
    grid = ignitekit.make(pump, servers.ignite, tls=right(own))
    pump.run(grid.open())
    large = bytes(range(256)) * 4096
    batch = WriteBatch()
    batch.put(CacheName.RETAINED, b"a", large)
    batch.put(CacheName.RETAINED, b"b", b"small")
    pump.run(grid.commit(batch))
    assert pump.run(grid.get_many(CacheName.RETAINED, [b"a", b"b"])) == [large, b"small"]
    pump.run(grid.close())


def test_a_gateway_gets_no_token_from_a_node_that_does_not_believe_it(servers: Servers, strangers: Pem) -> None:
    """Another authority's server, or a man between."""
    pump = ReactorPump()
    tls = ClientTls(str(strangers.authority), str(strangers.certificate), str(strangers.key))
    grid = ignitekit.make(pump, servers.ignite, tls=tls, open_timeout=2.0)
    with pytest.raises(NoServer, match=r"TLS: .*certificate|certificate verify failed"):
        pump.run(grid.open())
    pump.run(grid.close())


def test_a_node_without_credentials_is_refused(servers: Servers, wrong: ClientTls | None) -> None:
    """It knows the token, and that does not help."""
    pump = ReactorPump()
    grid = ignitekit.make(pump, servers.ignite, tls=wrong, open_timeout=2.0)
    with pytest.raises(NoServer):
        pump.run(grid.open())
    pump.run(grid.close())


def conversation(tls: ClientTls | None) -> ssl.SSLContext | None:
    return None if tls is None else tls.context()


def test_each_port_of_ignite_refuses_it(servers: Servers, own: Pem, wrong: ClientTls | None) -> None:
    """Asked in its own language, as who belongs to it is answered."""
    (server,) = servers.ignite
    ports, token = server.ports, server.token
    good = right(own).context()
    assert probe.gateway(ports["gateway"], token, tls=good).there == 1
    assert probe.ignite_active(ports["client"], tls=good)
    with pytest.raises(probe.NotThere):
        probe.gateway(ports["gateway"], token, tls=conversation(wrong))
    with pytest.raises(probe.NotThere):
        probe.ignite_active(ports["client"], tls=conversation(wrong))
    for port in ("discovery", "communication"):
        assert is_refused(ports[port], conversation(wrong)), port
        assert not is_refused(ports[port], good), port


def is_refused(port: int, tls: ssl.SSLContext | None) -> bool:
    """Whether the connection is ended; a server that lets somebody in waits for what he has to say."""
    try:
        with socket.create_connection(("127.0.0.1", port), 3) as plain:
            if tls is None:
                plain.sendall(bytes((0, 0, 0x47, 0x47)) + bytes(64))
            sock = plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1")
            sock.settimeout(2)
            return sock.recv(1000)[:1] in (b"", b"\x15")  # a TLS alert
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("first", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["silent", "half"])
@pytest.mark.parametrize("port", ["client", "communication"])
def test_strangers_at_a_port_of_ignite_are_bounded(servers: Servers, own: Pem, port: str, first: bytes) -> None:
    """Who shows no certificate makes room for the next one; the server goes on, and lets in who has one."""
    (server,) = servers.ignite
    good = right(own).context()
    with ExitStack() as stack:
        strangers = []
        for _ in range(STRANGERS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", server.ports[port]), 5))
            with suppress(ConnectionError):  # others have come
                sock.sendall(first)
            sock.setblocking(False)
            strangers.append(sock)
        assert wait_until(lambda: sum(map(is_open, strangers)) <= MOST_OF_ONE_ADDRESS, 8)
        assert probe.gateway(server.ports["gateway"], server.token, tls=good).there == 1
        assert probe.ignite_active(server.ports["client"], tls=good)
        assert not is_refused(server.ports[port], good)


def is_open(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_a_zookeeper_client_without_credentials_is_refused(servers: Servers, own: Pem, wrong: ClientTls | None) -> None:
    """And one that has them gets in."""
    port = servers.zookeeper[0].ports["client"]
    assert probe.zookeeper(port, tls=right(own).context()) == "standalone"
    with pytest.raises(probe.NotThere):
        probe.zookeeper(port, tls=conversation(wrong))


def test_the_registry_shows_a_node_by_tls_and_password(servers: Servers, own: Pem) -> None:
    """What it wrote is its user's: another one, though it has a certificate, may neither read nor change it."""
    pump = TimedPump()
    settings = ZooKeeperSettings(
        servers.zookeeper[0].address, username="iot-mqtt", password=servers.token, tls=right(own)
    )
    registry = ZooKeeperRegistry(settings, pump, pump.cross)
    pump.run(registry.register(member("a")))
    pem = {"ca": str(own.authority), "certfile": str(own.certificate), "keyfile": str(own.key)}
    other = KazooClient(servers.zookeeper[0].address, use_ssl=True, verify_certs=True, **pem)
    other.start(10)
    try:
        with pytest.raises(NoAuthError):
            other.get_children("/services/ignite")
        with pytest.raises(NoAuthError):
            other.create("/services/ignite/b", b"{}")
    finally:
        other.stop()
        other.close()
    pump.run(registry.close())


def has_tried(log: Path) -> bool:
    """Whether a server says that it cannot get in."""
    said = log.read_text(errors="replace") if log.exists() else ""
    return "Failed to connect to any address" in said or "SSLException" in said or "SSLHandshake" in said


def test_an_ignite_server_without_credentials_does_not_join(
    servers: Servers, own: Pem, strangers: Pem, folder: Path
) -> None:
    """In plain text, and with certificates of another authority; it knows token and addresses."""
    (secure,) = servers.ignite
    places, plan = Places.find(), servers.cluster.plan
    rogues = []
    for name, tls in (("rogue-plain", None), ("rogue-strange", str(folder / "strange"))):
        fresh = Plan.make(ignite=1).of("ignite")[0]
        rogue = replace(fresh, name="ignite-2", number=2)
        process = ServerProcess(name, folder / name, die_with_parent=True, again=())
        process.folder.mkdir()
        told = replace(plan, members=(*plan.members, rogue), tls=tls)
        process.spawn(KINDS["ignite"].prepare(told, rogue, process.folder, places))
        rogues.append(process)
    try:
        for process in rogues:
            wait_until(partial(has_tried, process.log), 60)
        until = time.monotonic() + LONG_ENOUGH
        while time.monotonic() < until:
            assert probe.gateway(secure.ports["gateway"], secure.token, tls=right(own).context()).there == 1
            time.sleep(1)
    finally:
        for process in rogues:
            process.signal(signal.SIGKILL)
            process.wait_gone(10)
