"""The connection to the gateways: which one, how often, and what is told of it. Time is turned by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import Fenced, IgniteGrid, NoServer, RefusedByGateway
from iot_mqtt.grid.ignite.frames import VERSION, Op, Status
from iot_mqtt.ports.grid import CacheName, WriteBatch
from tests.unit.grid.ignite.fake_gateway import FakePump, make

CACHE = CacheName.QUEUE


@pytest.fixture
def pump() -> FakePump:
    return FakePump()


@pytest.fixture
def grid(pump: FakePump) -> IgniteGrid:
    grid = make(pump)
    pump.run(grid.open())
    return grid


def there(grid: IgniteGrid) -> bool:
    return grid.gateway.connected


# Opening.


def test_opening_without_a_server_says_what_to_do(pump: FakePump) -> None:
    """After the time that it was given, and nothing is left of it."""
    pump.servers.down.update(pump.servers.gateways)
    grid, before = make(pump, open_timeout=5.0), pump.clock.monotonic()
    with pytest.raises(NoServer, match=r"no Ignite server answers at gateway:0, gateway:1 .*refused.*cluster up"):
        pump.run(grid.open())
    assert 5.0 <= pump.clock.monotonic() - before < 6.0
    pump.clock.advance(60)
    assert not pump.servers.links
    with pytest.raises(Unavailable):
        pump.run(grid.commit(WriteBatch()))


def test_opening_waits_for_a_server(pump: FakePump, caplog: pytest.LogCaptureFixture) -> None:
    """One of two is enough, whenever it comes. That none was there is told once, when the first attempt has failed."""
    pump.servers.down.update(pump.servers.gateways)
    opening = pump.start(make(pump).open())
    for attempt in range(20):
        pump.clock.advance(0.5)
        pump.settle()
        assert attempt or "refused" in caplog.text
    assert not opening.called
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith("no Ignite server answers yet at gateway:0, gateway:1 (gateway:")
    pump.servers.down.discard(pump.servers.gateways[1])
    pump.until(lambda: opening.called)
    assert opening.result is None


@pytest.mark.parametrize(
    ("status", "hint"), [(Status.WRONG_TOKEN, "; check grid.ignite.token"), (Status.UNKNOWN_VERSION, "")]
)
def test_a_refusal_is_told_at_once(pump: FakePump, status: Status, hint: str) -> None:
    """It is for a person to put right."""
    pump.servers.refuse = (status, "not like this")
    before = pump.clock.monotonic()
    with pytest.raises(RefusedByGateway, match=rf"gateway:\d refuses this node: not like this{hint}$"):
        pump.run(make(pump).open())
    assert pump.clock.monotonic() - before < 1


def test_a_gateway_of_another_version_is_refused_by_the_node(pump: FakePump) -> None:
    """One that lets everybody in, too: what it says next would be nonsense."""
    pump.servers.version = VERSION + 1
    before = pump.clock.monotonic()
    with pytest.raises(RefusedByGateway, match=rf"it speaks version {VERSION + 1} of its protocol and this node "):
        pump.run(make(pump).open())
    assert pump.clock.monotonic() - before < 1


def test_a_wrong_token_is_refused(pump: FakePump) -> None:
    """By the gateway, in its words."""
    with pytest.raises(RefusedByGateway, match="wrong token"):
        pump.run(make(pump, token="guess").open())


# Connections.


def test_a_lost_connection_is_made_again_at_once(pump: FakePump, grid: IgniteGrid) -> None:
    """With the next gateway; each HELLO counts."""
    pump.clock.advance(10)
    first = pump.servers.links[0].address
    pump.servers.cut()
    assert not there(grid) and not grid.available
    pump.settle()
    assert there(grid) and grid.available
    assert pump.servers.links[0].address != first
    assert [hello[2] for hello in pump.servers.hellos] == [1, 2]
    assert (grid.gateway.connects, grid.gateway.losses) == (2, 1)


def test_an_outage_is_told_when_it_has_lasted(pump: FakePump, grid: IgniteGrid) -> None:
    """A new connection is there in less; what the last attempt met is told, for as long as there is none."""
    pump.servers.cut()
    assert grid.outage() is None
    pump.settle()
    pump.servers.down.update(pump.servers.gateways)
    pump.servers.cut()
    pump.clock.advance(1.0)
    pump.settle()
    assert grid.outage() is None
    pump.clock.advance(2.0)
    pump.settle()
    outage = grid.outage()
    assert outage is not None and outage.startswith("no connection to a gateway: ") and "refused" in outage
    pump.servers.down.clear()
    pump.until(lambda: there(grid))
    assert grid.outage() is None


def test_reads_that_fail_are_told_until_one_succeeds(
    pump: FakePump, grid: IgniteGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go another way than what is written. Whether a server refused them or none answers is all the same."""
    assert (grid.read_trouble, grid.read_failures) == (None, 0)

    async def refuse(cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        raise Unavailable("the grid cannot read: partitions are lost")

    with monkeypatch.context() as refusing:
        refusing.setattr(grid.reader, "get_many", refuse)
        with pytest.raises(Unavailable):
            pump.run(grid.get(CacheName.LOG, b"k"))
    assert (grid.read_trouble, grid.read_failures) == ("the grid cannot read: partitions are lost", 1)
    assert pump.run(grid.get(CacheName.LOG, b"k")) is None
    assert grid.read_trouble is None
    grid.reader.trouble = "thin:1: timed out"
    assert grid.read_trouble == "the grid cannot be reached: thin:1: timed out"


def test_reads_that_nobody_tries_again_are_no_trouble_for_ever(
    pump: FakePump, grid: IgniteGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants to read does so again and again; then nobody does any more."""

    async def refuse(cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        raise Unavailable("no")

    monkeypatch.setattr(grid.reader, "get_many", refuse)
    with pytest.raises(Unavailable):
        pump.run(grid.get(CacheName.LOG, b"k"))
    pump.clock.advance(29.0)
    assert grid.read_trouble == "no"
    pump.clock.advance(2.0)
    assert grid.read_trouble is None


def test_how_many_servers_there_are_is_known_while_one_says_so(pump: FakePump, grid: IgniteGrid) -> None:
    """Of servers that cannot be reached nobody knows."""
    assert grid.servers == len(pump.servers.gateways) == 2
    pump.servers.down.update(pump.servers.gateways)
    pump.servers.cut()
    assert grid.servers is None


def test_a_new_identity_is_no_loss(pump: FakePump, grid: IgniteGrid, caplog: pytest.LogCaptureFixture) -> None:
    """Every start of a node has one, and operators look for what was lost."""
    pump.run(grid.identify(3, 1))
    assert (grid.gateway.connects, grid.gateway.losses) == (2, 0)
    assert not caplog.records


def test_attempts_become_rarer(pump: FakePump, grid: IgniteGrid) -> None:
    """While nobody answers; and never rarer than agreed."""
    pump.servers.down.update(pump.servers.gateways)
    times: list[float] = []
    reach = grid.gateway._dialer._reach

    def counted(address: object, timeout: float) -> object:
        times.append(pump.clock.monotonic())
        return reach(address, timeout)  # type: ignore[arg-type]

    grid.gateway._dialer._reach = counted  # type: ignore[assignment]
    pump.servers.cut()
    for _ in range(600):
        pump.clock.advance(0.1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 30 <= len(times) <= 75
    assert all(1.0 <= gap <= 2.1 for gap in gaps[-20:])
    pump.servers.down.clear()
    pump.until(lambda: there(grid))


def test_a_connection_that_breaks_as_soon_as_it_is_there_is_no_success(pump: FakePump, grid: IgniteGrid) -> None:
    """Or two processes that take the same name for theirs would wear out the servers."""
    for _ in range(300):
        pump.clock.advance(0.1)
        pump.settle()
        pump.servers.cut()
    assert len(pump.servers.hellos) < 60


def test_silence_is_found_out(pump: FakePump, grid: IgniteGrid) -> None:
    """A PING after two seconds, five for its answer; then the next gateway."""
    pump.settle()
    pump.clock.advance(1)
    first = pump.servers.links[0]
    for _ in range(10):
        pump.clock.advance(0.5)
        pump.settle()
    assert pump.servers.seen.count(Op.PING) >= 2
    assert pump.servers.links[0] is first
    pump.servers.stalled = True
    for _ in range(16):
        pump.clock.advance(0.5)
        pump.settle()
    assert not there(grid)
    pump.servers.stalled = False
    pump.until(lambda: there(grid))
    assert pump.servers.links[0].address != first.address


def test_who_slept_himself_looks_again_first(pump: FakePump, grid: IgniteGrid) -> None:
    """The answer may be waiting: a paused process comes back to a connection that is fine."""
    pump.servers.stalled = True
    grid.commit_soon(WriteBatch(), lambda _: None)
    pump.clock._monotonic += 60  # Nothing ran meanwhile, not even a timer.
    pump.clock.advance(0.1)
    pump.servers.stalled = False
    pump.settle()
    assert there(grid) and len(pump.servers.hellos) == 1


def test_a_gateway_that_does_not_say_welcome_is_left(pump: FakePump) -> None:
    """Ten seconds, because it may have to wait for what an older connection began."""
    pump.servers.stalled = True
    opening = pump.start(make(pump).open())
    for _ in range(18):
        pump.clock.advance(0.5)
        pump.settle()
    first = pump.servers.links[0].address
    for _ in range(6):
        pump.clock.advance(0.5)
        pump.settle()
    assert pump.servers.links[0].address != first
    pump.servers.stalled = False
    pump.until(lambda: opening.called)


def test_nonsense_ends_the_connection(pump: FakePump, grid: IgniteGrid) -> None:
    """And the next one is made."""
    pump.clock.advance(10)
    pump.settle()
    pump.servers.links[0].outgoing.append(b"\xff\xff\xff\xff")
    pump.servers.run()
    assert not there(grid)
    pump.until(lambda: there(grid))


# Identity.


def test_an_identity_is_told_by_a_new_connection(pump: FakePump, grid: IgniteGrid) -> None:
    """Behind what was on its way; and by every later one."""
    done: list[BaseException | None] = []
    batch = WriteBatch()
    batch.put(CACHE, b"k", b"v")
    grid.commit_soon(batch, done.append)
    pump.run(grid.identify(7, 258))
    assert done == [None]
    pump.servers.cut()
    pump.until(lambda: there(grid))
    assert [hello[:2] for hello in pump.servers.hellos] == [(0, 0), (7, 258), (7, 258)]
    assert [hello[2] for hello in pump.servers.hellos] == [1, 2, 3]


def test_a_fenced_life_ends(pump: FakePump, grid: IgniteGrid) -> None:
    """Told once; everything fails from then on, nobody is asked any more, and another life goes on."""
    told: list[str] = []
    grid.on_fenced = told.append
    pump.run(grid.identify(7, 1))
    other = make(pump)
    pump.run(other.open())
    done: list[BaseException | None] = []
    pump.run(other.fence(7, 1))
    grid.commit_soon(WriteBatch(), done.append)
    pump.until(lambda: bool(told) and bool(done))
    (why,) = told
    assert why.startswith("node 7 is fenced up to boot 1: another process has started with node.id 'n7' (")
    hellos = len(pump.servers.hellos)
    with pytest.raises(Fenced):
        pump.run(grid.commit(WriteBatch()))
    with pytest.raises(Fenced):
        pump.run(grid.compare_and_set(CACHE, b"k", None, b"v"))
    pump.clock.advance(60)
    assert len(pump.servers.hellos) == hellos
    assert len(told) == 1
    pump.run(grid.identify(7, 2))
    pump.run(grid.commit(WriteBatch()))


def test_a_fenced_identity_is_refused(pump: FakePump, grid: IgniteGrid) -> None:
    """By whoever asks for it."""
    pump.run(grid.fence(7, 5))
    with pytest.raises(Fenced, match=r"node 7 .*: another process has started with node.id 'n7' \("):
        pump.run(grid.identify(7, 5))


def test_who_leaves_is_cut_off_and_nobody_worries(
    pump: FakePump, grid: IgniteGrid, caplog: pytest.LogCaptureFixture
) -> None:
    """The others fence a node that has left before its connection has ended; a later life worries again."""
    pump.run(grid.identify(7, 1))
    grid.gateway.leave()
    other = make(pump)
    pump.run(other.open())
    pump.run(other.fence(7, 1))
    pump.until(lambda: grid.gateway.fenced is not None)
    assert not caplog.records
    pump.run(grid.identify(7, 2))
    pump.servers.cut()
    assert "is lost" in caplog.text


# Messages.


def test_messages_come_in_order_to_who_listens(pump: FakePump, grid: IgniteGrid) -> None:
    """On this connection or another."""
    other = make(pump)
    pump.run(other.open())
    heard: list[bytes] = []
    pump.run(grid.gateway.messages.listen("links/1", heard.append))
    for number in range(100):
        assert other.gateway.messages.send("links/1", b"%d" % number)
        assert other.gateway.messages.send("links/2", b"nobody")
    pump.until(lambda: len(heard) == 100)
    assert heard == [b"%d" % number for number in range(100)]
    assert grid.gateway.messages.waiting == 0


def test_what_is_listened_to_is_listened_to_again(pump: FakePump, grid: IgniteGrid) -> None:
    """Before it is said that messages flow again."""
    flow: list[tuple[bool, bool]] = []
    heard: list[bytes] = []
    gateway = grid.gateway.messages
    gateway.on_flow = lambda flows: flow.append((flows, all(link.topics for link in pump.servers.links)))
    pump.run(gateway.listen("a", heard.append))
    pump.servers.cut()
    assert (gateway.flowing, gateway.send("a", b"lost")) == (False, False)
    listening = pump.start(gateway.listen("c", heard.append))
    pump.until(lambda: gateway.flowing)
    assert flow == [(False, True), (True, True)]
    assert listening.called
    assert pump.servers.links[0].topics == {"a", "c"}
    gateway.send("a", b"1")
    gateway.send("c", b"3")
    pump.until(lambda: len(heard) == 2)
    assert heard == [b"1", b"3"]


def test_a_listener_that_raises_hinders_nobody(pump: FakePump, grid: IgniteGrid) -> None:
    """It is logged, and the next message comes."""
    heard: list[bytes] = []

    def receive(payload: bytes) -> None:
        heard.append(payload)
        raise RuntimeError("a bug above")

    pump.run(grid.gateway.messages.listen("a", receive))
    grid.gateway.messages.send("a", b"1")
    grid.gateway.messages.send("a", b"2")
    pump.until(lambda: len(heard) == 2)


def test_what_waits_is_bounded(pump: FakePump) -> None:
    """A gateway that does not read: messages are dropped, and senders told so; nothing grows for ever."""
    grid = make(pump, waiting_limit=10_000)
    pump.run(grid.open())
    pump.servers.links[0].full = True
    taken = sum(grid.gateway.messages.send("t", b"x" * 1000) for _ in range(100))
    assert taken == 9
    assert 9000 < grid.gateway.messages.waiting <= 10_000
    pump.servers.links[0].full = False
    pump.servers.links[0].client.resumeProducing()
    pump.settle()
    assert grid.gateway.messages.waiting == 0
    assert grid.gateway.messages.send("t", b"x")


def test_closing_says_that_nothing_flows(pump: FakePump, grid: IgniteGrid) -> None:
    """And whoever waits for a listener to be there is told."""
    flow: list[bool] = []
    grid.gateway.messages.on_flow = flow.append
    pump.servers.stalled = True
    listening = pump.start(grid.gateway.messages.listen("a", lambda _: None))
    pump.run(grid.close())
    assert flow == [False]
    with pytest.raises(Unavailable):
        listening.result.raiseException()  # type: ignore[attr-defined]
    with pytest.raises(Unavailable):
        pump.run(grid.gateway.messages.listen("b", lambda _: None))
