"""The registry over real ZooKeeper servers: the contract, then what happens to servers, sessions and processes."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.zookeeper import ZooKeeperRegistry
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.registry import Lease, Registry
from tests.cluster.conftest import StartServers
from tests.cluster.registrykit import Line, child
from tests.contract.registry_suite import LeasingSuite
from tests.contract.registrykit import CONNECTED, LOST, SUSPENDED, Bench, TimedPump, member
from tests.enginekit.servers import Server

_paths = itertools.count(1)


class ZooKeeperBench(Bench):
    """Each node has a line of its own to the servers, and each bench a path."""

    session_timeout = 2.5

    def __init__(self, servers: str) -> None:
        self.pump = TimedPump()
        super().__init__(self.pump)
        self.servers = servers
        self.chroot = f"/bench-{next(_paths)}"
        self.path = f"{self.chroot}/services/ignite"
        self.lines: dict[str, Line] = {}

    def make(self, node_id: str) -> Registry:
        if node_id in self.lines:
            self.lines[node_id].close()
        line = self.lines[node_id] = Line(self.servers.split(",")[0])
        return self.registry(line.address)

    def registry(self, hosts: str, **more: Any) -> ZooKeeperRegistry:
        settings = ZooKeeperSettings(hosts + self.chroot, session_timeout=self.session_timeout, **more)
        return ZooKeeperRegistry(settings, self.pump, self.pump.cross)

    def suspend(self, node_id: str) -> None:
        self.lines[node_id].cut()

    def heal(self, node_id: str) -> None:
        self.lines[node_id].mend()

    def close(self) -> None:
        try:
            super().close()
        finally:
            for line in self.lines.values():
                line.close()


@pytest.fixture
def bench(zookeeper: Server) -> Iterator[ZooKeeperBench]:
    bench = ZooKeeperBench(zookeeper.address)
    yield bench
    bench.close()


class TestZooKeeperRegistry(LeasingSuite):
    """Against one real server."""

    @pytest.fixture
    def bench(self, zookeeper: Server) -> Iterator[Bench]:
        bench = ZooKeeperBench(zookeeper.address)
        yield bench
        bench.close()


@pytest.fixture
def client(zookeeper: Server) -> Iterator[KazooClient]:
    """Somebody else at the same server."""
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


def until_acquired(bench: Bench, acquire: Callable[[], Lease | None]) -> Lease:
    found: list[Lease] = []

    def attempt() -> bool:
        lease = acquire()
        if lease is not None:
            found.append(lease)
        return bool(found)

    bench.driver.until(attempt)
    return found[0]


# Servers in trouble.


@pytest.mark.alone
def test_a_server_that_stands_still_for_a_while_costs_nothing(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """Nobody gets an answer, so everybody is suspended; then all is as before, with no life lost."""
    a, b = bench.joined("a", "b")
    zookeeper.pause()
    a.until_state(SUSPENDED)
    b.until_state(SUSPENDED)
    assert a.acquire("x") is None
    zookeeper.resume()
    a.until_state(CONNECTED)
    b.until_state(CONNECTED)
    assert LOST not in a.states + b.states
    assert a.boots == b.boots == {"a": 1, "b": 1}


@pytest.mark.alone
def test_a_server_that_stands_still_for_longer_loses_everybody(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """By their own clocks; they register again while the entries of before may still be there."""
    a, b = bench.joined("a", "b")
    began = time.monotonic()
    zookeeper.pause()
    bench.driver.until(lambda: LOST in a.states and LOST in b.states)
    assert time.monotonic() - began < bench.session_timeout + 0.75
    zookeeper.resume()
    a.register(boot=2)
    b.register(boot=2)
    a.until_sees(a=2, b=2)
    b.until_sees(a=2, b=2)
    assert a.states == b.states == [CONNECTED, SUSPENDED, LOST, CONNECTED]


def test_a_server_that_is_killed_and_started_again_knows_the_sessions(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """Unless that takes longer than a session; on a machine with other things to do a server needs some seconds."""
    bench.session_timeout = 30.0
    a, b = bench.joined("a", "b")
    zookeeper.kill()
    a.until_state(SUSPENDED)
    zookeeper.start()
    a.until_state(CONNECTED)
    b.until_state(CONNECTED)
    assert LOST not in a.states + b.states
    b.registry.update(replace(member("b"), clients=3))
    bench.driver.until(lambda: a.registry.members["b"].clients == 3)


def test_a_network_that_swallows_everything_is_noticed(bench: ZooKeeperBench) -> None:
    """No connection breaks; there is no answer, which is as good."""
    a, b = bench.joined("a", "b")
    lease = b.acquire("x")
    assert lease is not None
    bench.lines["b"].stall()
    b.until_state(SUSPENDED)
    assert not lease.held
    b.until_state(LOST)
    a.until_sees(a=1)
    assert b.states[-1] is LOST


def test_an_answer_that_never_comes_costs_a_part_of_the_session(bench: ZooKeeperBench) -> None:
    """A server that starts takes connections before it answers, and may forget one: the next is made in time."""
    bench.session_timeout = 6.0
    a = bench.node("a")
    bench.lines["a"].stall()
    registering = bench.driver.start(a.registry.register(member("a")))
    bench.driver.pass_time(0.5)
    bench.lines["a"].forget()
    began = time.monotonic()
    bench.driver.until(lambda: bool(registering.called))
    assert time.monotonic() - began < bench.session_timeout * 0.75


def test_registering_waits_for_a_server_that_is_not_there_yet(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """And says meanwhile what it waits for."""
    zookeeper.kill()
    a = bench.node("a")
    registering = bench.driver.start(a.registry.register(member("a")))
    bench.driver.pass_time(bench.session_timeout * 1.5)
    assert not registering.called
    assert a.registry.trouble is not None
    assert "127.0.0.1" in a.registry.trouble
    zookeeper.start()
    bench.driver.until(lambda: bool(registering.called))
    assert a.registry.state is CONNECTED
    assert a.states == [CONNECTED]


def test_the_leader_of_three_servers_is_killed(start_servers: StartServers) -> None:
    """Nodes and leases outlive it: at most suspended for a moment; then a node joins with two servers."""
    servers = start_servers(zookeeper=3)
    bench = ZooKeeperBench(",".join(servers.addresses))
    bench.session_timeout = 8.0
    nodes = {}
    try:
        for node_id in "abc":
            registry = bench.registry(bench.servers)
            bench.make = lambda _node_id, registry=registry: registry  # type: ignore[method-assign,misc]
            nodes[node_id] = bench.node(node_id)
            nodes[node_id].register()
        servers.leader.kill()
        bench.driver.pass_time(1.0)
        for node in nodes.values():
            node.until_state(CONNECTED)
        bench.driver.run(nodes["c"].registry.close())
        nodes["a"].until_sees(a=1, b=1)
        nodes["b"].until_sees(a=1, b=1)
        assert LOST not in nodes["a"].states + nodes["b"].states
        lease = until_acquired(bench, lambda: nodes["a"].acquire("x"))
        assert lease.held
        assert nodes["b"].acquire("x") is None
    finally:
        bench.close()


# Processes in trouble.


def test_a_process_that_is_killed_is_gone_after_its_time(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """Its lease passes on, with a greater number."""
    b, c = bench.joined("b", "c")
    with child(zookeeper.address, bench.path, "a", 1, bench.session_timeout, "x") as process:
        number = process.told("lease", bench.driver)[-1]["lease"]
        b.until_sees(a=1, b=1, c=1)
        assert b.acquire("x") is None
        process.kill()
        first = until_acquired(bench, lambda: b.acquire("x"))
        b.until_sees(b=1, c=1)
        assert first.number > number
        first.release()
        second = until_acquired(bench, lambda: c.acquire("x"))
        assert second.number > first.number


def test_a_killed_process_is_back_before_its_session_is_over(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """The entry of the earlier life is replaced, and does not take the new one with it when it ends."""
    (b,) = bench.joined("b")
    with child(zookeeper.address, bench.path, "a", 1, 10.0) as process:
        process.told("registered", bench.driver)
        b.until_sees(a=1, b=1)
        process.kill()
    with child(zookeeper.address, bench.path, "a", 2, 10.0) as process:
        process.told("registered", bench.driver)
        b.until_sees(a=2, b=1)
        bench.driver.pass_time(10.5)  # by then the server has ended the session of the earlier life
        assert b.boots == {"a": 2, "b": 1}
        assert not [line for line in process.so_far(bench.driver) if "state" in line]
    assert [told for told in b.told if isinstance(told, dict) and "a" not in told] == [{"b": 1}]


def test_a_process_that_was_stopped_for_long_knows_before_it_acts(bench: ZooKeeperBench, zookeeper: Server) -> None:
    """SIGSTOP for three sessions: after SIGCONT it acts no more, and LOST is the first that it is told."""
    (b,) = bench.joined("b")
    with child(zookeeper.address, bench.path, "a", 1, bench.session_timeout, "x") as process:
        number = process.told("lease", bench.driver)[-1]["lease"]
        process.told("act", bench.driver)
        process.signal(signal.SIGSTOP)
        process.so_far(bench.driver)
        bench.driver.pass_time(3 * bench.session_timeout)
        assert b.boots == {"b": 1}
        lease = b.acquire("x")
        assert lease is not None and lease.number > number
        b.registry.update(replace(member("b"), clients=5))
        resumed = time.monotonic()
        process.signal(signal.SIGCONT)
        told = process.told("state", bench.driver)
        assert told[-1] == {"state": "lost"}
        assert not [line for line in told if "members" in line]
        told += process.so_far(bench.driver)
        assert not [line for line in told if line.get("act", 0.0) >= resumed]
        assert lease.held


def test_a_reactor_that_stood_still_for_long_counts_as_stopped(bench: ZooKeeperBench) -> None:
    """The session was kept alive by the library's threads; but nobody could have noticed its end."""
    a, b = bench.joined("a", "b")
    lease = a.acquire("x")
    assert lease is not None
    del a.told[:]
    time.sleep(bench.session_timeout + 0.1)
    assert not lease.held
    assert a.registry.state is LOST
    assert a.acquire("x") is None
    assert a.told == [LOST, {"b": 1}]
    bench.driver.until(lambda: b.registry.state is LOST)
    a.register(boot=2)
    b.register(boot=2)
    a.until_sees(a=2, b=2)


def test_a_session_that_the_server_ends_is_lost(bench: ZooKeeperBench) -> None:
    """Here by somebody who got hold of it; also by a server that was started without its data."""
    a, b = bench.joined("a", "b")
    life = _zookeeper(b.registry)._life
    assert life is not None
    thief = KazooClient(bench.servers, client_id=life._session._client.client_id)
    thief.start()
    thief.stop()
    thief.close()
    b.until_state(LOST)
    assert "expired" in (b.registry.trouble or "")
    a.until_sees(a=1)
    b.register(boot=2)
    a.until_sees(a=1, b=2)


# What others leave in ZooKeeper.


def test_entries_that_are_not_understood_are_left_out(bench: ZooKeeperBench, client: KazooClient) -> None:
    """And counted, and shown, and let in when they are mended."""
    a, b = bench.joined("a", "b")
    for name, data in {
        "binary": b"\xff\x00\xfe",
        "empty": b"",
        "large": b"[" * 100_000,
        "list": b"[]",
        "stranger": b'{"node_id":"other","number":1,"boot":1,"version":"1"}',
        "c": b'{"node_id":"c","number":0,"boot":1,"version":"1"}',
    }.items():
        client.create(f"{bench.path}/{name}", data)
    bench.driver.until(lambda: len(_zookeeper(a.registry).not_understood) == 6)
    bench.driver.until(lambda: b.registry.trouble is not None)
    assert a.registry.trouble is not None
    assert "binary" in a.registry.trouble
    assert a.boots == b.boots == {"a": 1, "b": 1}
    assert a.registry.state is CONNECTED
    client.set(f"{bench.path}/c", b'{"node_id":"c","number":3,"boot":4,"version":"9","later":{"x":[1]},"load":0}')
    a.until_sees(a=1, b=1, c=4)
    for name in ("binary", "empty", "large", "list", "stranger"):
        client.delete(f"{bench.path}/{name}")
    bench.driver.until(lambda: a.registry.trouble is None)


def test_what_lies_in_a_nodes_own_place_is_replaced(bench: ZooKeeperBench, client: KazooClient) -> None:
    """Rubbish, and an entry that belongs to no session and would never go away."""
    client.create(f"{bench.path}/a", b"rubbish", makepath=True)
    client.create(f"{bench.path}/b", b'{"node_id":"b","number":2,"boot":1,"version":"1"}')
    a, b = bench.joined("a", "b")
    bench.driver.run(b.registry.close())
    a.until_sees(a=1)
    assert client.get_children(bench.path) == ["a"]


def test_what_stands_there_can_be_read_by_a_person(bench: ZooKeeperBench, client: KazooClient) -> None:
    """Entries and leases, as JSON."""
    (a,) = bench.joined("a")
    assert a.acquire("adopt/7") is not None
    assert json.loads(client.get(f"{bench.path}/a")[0]) == {
        "node_id": "a",
        "number": 1,
        "boot": 1,
        "version": "1.2.3",
        "protocols": [1],
        "addresses": {"tcp": "a:1883"},
        "load": 0.0,
        "clients": 0,
        "draining": False,
    }
    assert json.loads(client.get(f"{bench.path}-leases/adopt%2F7")[0]) == {"node_id": "a", "boot": 1}


def test_a_node_whose_entry_was_removed_is_lost(bench: ZooKeeperBench, client: KazooClient) -> None:
    """The others saw it go, and take its place: so it has to go."""
    a, b = bench.joined("a", "b")
    client.delete(f"{bench.path}/b")
    bench.driver.until(lambda: b.states == [CONNECTED, LOST])
    assert "removed" in (b.registry.trouble or "")
    b.register(boot=2)
    a.until_sees(a=1, b=2)


def test_a_node_id_that_is_used_twice_loses_the_one_that_came_first(bench: ZooKeeperBench) -> None:
    """The later life stays; the earlier one is told, and refused when it tries again."""
    (a,) = bench.joined("a")
    other = bench.registry(bench.servers)
    bench.driver.run(other.register(member("a", 2)))
    bench.driver.until(lambda: a.states == [CONNECTED, LOST])
    with pytest.raises(Unavailable, match="used twice"):
        a.register(boot=1)
    assert other.state is CONNECTED
    bench.driver.run(other.close())


def test_what_others_wrote_into_our_entry_is_put_right(bench: ZooKeeperBench, client: KazooClient) -> None:
    """As long as the entry itself is still ours."""
    a, b = bench.joined("a", "b")
    client.set(f"{bench.path}/b", b"rubbish")
    bench.driver.until(lambda: b"rubbish" not in client.get(f"{bench.path}/b")[0])
    a.until_sees(a=1, b=1)
    b.until_sees(a=1, b=1)
    b.registry.update(replace(member("b"), clients=2))
    bench.driver.until(lambda: a.registry.members["b"].clients == 2)
    assert b.states == [CONNECTED]


def test_a_lease_that_was_taken_away_is_not_held(bench: ZooKeeperBench, client: KazooClient) -> None:
    """By a person with a ZooKeeper shell; to write into it does no harm."""
    a, b = bench.joined("a", "b")
    lease = a.acquire("x")
    assert lease is not None
    client.set(f"{bench.path}-leases/x", b"who was here?")
    bench.driver.pass_time(0.5)
    assert lease.held
    client.delete(f"{bench.path}-leases/x")
    bench.driver.until(lambda: not lease.held)
    assert b.acquire("x") is not None
    lease.release()
    assert client.exists(f"{bench.path}-leases/x")


# Rights.


def test_with_a_password_nobody_else_can_write(bench: ZooKeeperBench, client: KazooClient) -> None:
    """Neither entries nor leases; with the wrong one a node is refused, and says why."""
    good = bench.registry(bench.servers, username="iot", password="secret")
    bench.driver.run(good.register(member("a")))
    assert bench.driver.run(good.acquire("x")) is not None
    with pytest.raises(NoAuthError):
        client.delete(f"{bench.path}-leases/x")
    client.add_auth("digest", "iot:secret")
    acl, _ = client.get_acls(bench.path)
    assert acl == [make_digest_acl("iot", "secret", all=True)]
    bad = bench.registry(bench.servers, username="iot", password="guess")
    with pytest.raises(Unavailable, match="does not allow"):
        bench.driver.run(bad.register(member("b")))
    assert bad.trouble is not None
    assert "secret" not in repr(good._settings) + (bad.trouble or "")
    assert list(good.members) == ["a"]
    bench.driver.run(good.close())
    bench.driver.run(bad.close())


def _zookeeper(registry: Registry) -> ZooKeeperRegistry:
    assert isinstance(registry, ZooKeeperRegistry)
    return registry
