"""Commands among several nodes: who decides, who learns of them, and what is nobody's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, succeed

from iot_mqtt.app.node.parts import make_accompanied
from iot_mqtt.broker.publishing.accompanying import Unaccompanied
from iot_mqtt.codec import Ack, PacketType
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.ports.devices import DeviceStore, State, StoredCommand, StoredDevice, replace
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.store import CommitOrder
from tests.unit.broker.harness import run
from tests.unit.devices.devicekit import DeviceNode, command_of, order, states, statuses


class Other:
    """Another node that is asked; what it answers is set."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[bytes], bytes]] = {}
        self.asked: list[tuple[str, bytes]] = []
        self.word: bytes | str = b""
        self.heard = True

    def all_heard(self) -> bool:
        return self.heard

    def ask_all(self, name: str, body: bytes) -> Awaitable[Mapping[int, bytes | str]]:
        self.asked.append((name, body))
        answered: Deferred[Mapping[int, bytes | str]] = succeed({2: self.word})
        return answered


def among_others(node: DeviceNode) -> Other:
    """From now on only clients with a session here are at home here."""
    other = Other()
    node.accompanied.join(other)
    return other


def test_a_target_that_nobody_knows_may_be_where_nobody_is_heard() -> None:
    """Its command waits for it. When all nodes have said what they have, there is nobody who would get it."""
    node = DeviceNode()
    other = among_others(node)
    sender = node.connect("sender")
    other.heard = False
    order(sender, "d9", id="c1")
    other.heard = True
    order(sender, "d9", id="c2")
    assert (node.state("c1"), node.state("c2")) == ("queued", "failed")


def test_what_was_taken_in_doubt_fails_when_its_target_is_nowhere() -> None:
    """Once all nodes are heard. A kept session on its way from one node to another is in the grid, and gets its own."""
    node = DeviceNode()
    other = among_others(node)
    listener = node.listener()
    node.device("d8").lose()
    node.broker.lifecycle.moving.hand_over(node.kept_session("d8"))
    sender = node.connect("sender")
    other.heard = False
    order(sender, "d8", id="c1")
    order(sender, "d9", id="c2")
    statuses(listener)
    node.pass_time(31)
    assert (node.state("c1"), node.state("c2")) == ("queued", "queued")
    other.heard = True
    swap_command, marks = node.kept.swap_command, []

    async def spy(before: StoredCommand, after: StoredCommand) -> bool:
        marks.append((before.untold, after.untold))
        return await swap_command(before, after)

    node.kept.swap_command = spy  # type: ignore[method-assign]
    node.pass_time(31)
    assert (node.state("c1"), node.state("c2")) == ("queued", "failed")
    (told,) = statuses(listener)
    assert (told["id"], told["state"]) == ("c2", "failed")
    assert "d9 has no session" in told["detail"]
    # Whoever ended it could die before it has told that.
    assert marks == [(False, True), (True, False)]


def put(node: DeviceNode, record: StoredCommand) -> None:
    """Another node accepted it."""
    batch = WriteBatch()
    node.kept.put_command(batch, record)
    run(node.grid.commit(batch))


def queued(id: str, target: str, at: float, **rest: Any) -> StoredCommand:
    return StoredCommand(id, target, State.QUEUED, at, times={"queued": at}, **rest)


def test_a_command_that_was_accepted_elsewhere_is_told_of() -> None:
    """The home of its target reads it at once, and keeps its deadline."""
    node = DeviceNode()
    other = among_others(node)
    other.heard = False
    node.device().lose()
    now = node.clock.wall()
    put(node, queued("c1", "d1", now, deadline=now + 5))
    put(node, queued("c2", "somebody", now, deadline=now + 5))
    other.answers["commands.accepted"](json.dumps([["d1", "c1"], ["somebody", "c2"]]).encode())
    node.turn()
    node.pass_time(5)
    assert (node.state("c1"), node.state("c2")) == ("expired", "queued")


class Meanwhile:
    """A store, and what happens while commands are read from it for the first time."""

    def __init__(self, store: DeviceStore, call: Callable[[], None]) -> None:
        self._store, self._calls = store, [call]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commands(self, owner: str | None = None) -> AsyncIterator[StoredCommand]:
        async for record in self._store.commands(owner):
            yield record
        if self._calls:
            self._calls.pop()()


def test_a_session_that_leaves_while_its_node_starts_takes_its_commands_along() -> None:
    """Another node may have sent them by now: what was read of them must not become what is true of them."""
    node = DeviceNode()
    node.device().lose()
    node.device("d2").lose()
    now = node.clock.wall()
    for name in ("d1", "d2"):
        put(node, queued(f"for-{name}", name, now, deadline=now + 5))
    node.broker.routing.accompaniment.by = Unaccompanied()
    del node.store._participants[CommitOrder.DEVICES]
    store = Meanwhile(node.kept, lambda: node.broker.lifecycle.moving.hand_over(node.kept_session("d1")))
    starting = make_accompanied(node.broker, cast(DeviceStore, store), node.accompanied.settings, node)
    starting.join(Other())
    run(starting.load(node.broker.routing.accompany))
    node.accompanied = starting
    node.pass_time(6)
    assert (node.state("for-d1"), node.state("for-d2")) == ("queued", "expired")


def test_what_nobody_told_of_is_found() -> None:
    """By the look through the store."""
    node = DeviceNode()
    among_others(node)
    node.device().lose()
    now = node.clock.wall()
    put(node, queued("c1", "d1", now, deadline=now + 40))
    node.pass_time(31)
    node.pass_time(9)
    assert node.state("c1") == "expired"


def untold(id: str, target: str, at: float) -> StoredCommand:
    """Its node was killed when it had committed this."""
    times = {"queued": at, "failed": at}
    return StoredCommand(id, target, State.FAILED, at, times=times, detail="no session", untold=True)


def test_what_a_dead_node_had_no_time_to_tell_is_told() -> None:
    """Of a target without a session, which has no successor; once, and not while the node may still do it."""
    node = DeviceNode()
    among_others(node)
    listener = node.listener()
    node.pass_time(31)
    put(node, untold("c1", "gone", node.clock.wall() - 20))
    put(node, untold("c2", "gone", node.clock.wall() + 29))
    node.pass_time(31)
    assert [one["id"] for one in statuses(listener)] == ["c1"]
    node.pass_time(31)
    assert [one["id"] for one in statuses(listener)] == ["c2"]
    node.pass_time(31)
    assert not statuses(listener)
    assert not node.record("c1").untold


def test_what_was_not_told_is_told_where_its_target_comes_to() -> None:
    """Its command is known there from then on, and not looked at any more."""
    node = DeviceNode()
    among_others(node)
    listener = node.listener()
    put(node, untold("c1", "d1", node.clock.wall()))
    node.device()
    node.pass_time(31)
    assert states(listener) == ["failed"]
    assert not node.record("c1").untold
    node.pass_time(31)
    assert not statuses(listener)


def test_what_a_node_fails_itself_is_marked_until_it_is_told() -> None:
    """In the same commit: for a target without a session, and for one whose session ends."""
    node = DeviceNode()
    among_others(node)
    listener = node.listener()
    device, sender = node.device(), node.connect("sender")
    marked: list[str] = []
    put_command = node.kept.put_command

    def spy(batch: WriteBatch, command: StoredCommand) -> None:
        if command.state.final:
            assert command.untold
            marked.append(command.id)
        put_command(batch, command)

    node.kept.put_command = spy  # type: ignore[method-assign]
    order(sender, "d9", id="c1")
    order(sender, "d1", id="c2")
    device.disconnect(session_expiry_interval=0)
    node.turn()
    assert marked == ["c1", "c2"]
    assert not any(node.record(id).untold for id in marked)
    assert {one["id"]: one["state"] for one in statuses(listener)} == {"c1": "failed", "c2": "uncertain"}


def test_what_is_nobodys_is_ended_by_one() -> None:
    """A minute after its time, when no home has done it, and a node that is not heard may be one."""
    node = DeviceNode()
    among_others(node).heard = False
    now = node.clock.wall()
    put(node, queued("c1", "gone", now, deadline=now + 5))
    put(node, queued("c2", "gone", now, deadline=now + 5, attempts=1))
    node.pass_time(40)
    assert node.state("c1") == "queued"
    node.pass_time(31)
    assert (node.state("c1"), node.state("c2")) == ("expired", "uncertain")


def test_a_session_that_comes_brings_its_commands() -> None:
    """And one that leaves takes them along: their deadlines are kept where they are at home."""
    node = DeviceNode()
    among_others(node)
    node.device().lose()
    now = node.clock.wall()
    put(node, queued("c1", "d1", now, deadline=now + 5))
    node.accompanied.session_came("d1", inherited=False)
    node.accompanied.session_left("d1")
    node.pass_time(6)
    assert node.state("c1") == "queued"
    node.accompanied.session_came("d1", inherited=False)
    node.pass_time(0.25)
    assert node.state("c1") == "expired"


@pytest.mark.parametrize("inherited", [False, True], ids=["moved", "inherited"])
def test_what_a_dead_node_has_not_told_is_told(*, inherited: bool) -> None:
    """It committed a state and died; one that handed the session over has told everything itself."""
    node = DeviceNode()
    listener = node.listener()
    among_others(node)
    node.device().lose()
    now = node.clock.wall()
    put(node, StoredCommand("c1", "d1", State.ACKED, now - 100, times={"queued": now - 100, "acked": now - 90}))
    put(node, StoredCommand("c2", "d1", State.ACKED, now - 50, times={"queued": now - 50, "acked": now - 49}))
    put(node, queued("c3", "d1", now - 1))
    node.accompanied.session_came("d1", inherited=inherited)
    node.turn()
    told = [(status["id"], status["state"]) for status in statuses(listener)]
    assert told == ([("c2", "acked")] if inherited else [])


def test_a_command_that_is_read_before_it_is_known_is_looked_up() -> None:
    """Its record decides: one that is over never leaves, one that was sent before neither."""
    node = DeviceNode()
    device = node.device()
    device.lose()
    sender = node.connect("s")
    for name in ("open", "over", "sent"):
        order(sender, "d1", id=name)
    node.accompanied.book.cancel("d1", "over")
    node.turn()
    among_others(node)
    book = node.accompanied.book
    sent = book.get("d1", "sent")
    assert sent is not None
    book.sent(sent)
    node.turn()
    node.accompanied.session_left("d1")
    device = node.connect("d1", clean=False, expiry=3600)
    assert [command_of(message) for message in device.messages()] == ["open"]
    assert (node.state("open"), node.state("sent")) == ("sent", "uncertain")


def test_the_home_is_asked_to_cancel() -> None:
    """And its word counts."""
    node = DeviceNode()
    other = among_others(node)
    put(node, record := queued("c1", "elsewhere", node.clock.wall()))
    other.word = b"the command is sent: only one that was never sent can be taken back"
    with pytest.raises(Refused, match="sent"):
        run(node.accompanied.commands.cancel(record))
    other.word = b"cancelled"
    run(node.accompanied.commands.cancel(record))
    assert other.asked[-1] == ("commands.cancel", b"c1\nelsewhere")
    node.device().lose()
    order(node.connect("s"), "d1", id="mine")
    answer = other.answers["commands.cancel"]
    assert [answer(body) for body in (b"mine\nd2", b"nobody\nd1", b"nobody")] == [b"", b"", b""]
    assert answer(b"mine\nd1") == b"cancelled"
    node.turn()
    assert node.state("mine") == "failed"


def test_a_node_of_an_earlier_release_asks_to_cancel_by_id() -> None:
    """Which is done where only one command has that id."""
    node = DeviceNode()
    other = among_others(node)
    for target in ("d1", "d2"):
        node.device(target).lose()
        order(node.connect("s"), target, id="both")
    order(node.connect("s"), "d1", id="one")
    answer = other.answers["commands.cancel"]
    assert (answer(b"both"), answer(b"one")) == (b"", b"cancelled")


def test_a_command_is_found_by_its_id_or_by_its_target_too() -> None:
    """Wherever it is at home."""
    node = DeviceNode()
    among_others(node)
    put(node, queued("c1", "d9/x", node.clock.wall()))
    node.device().lose()
    order(node.connect("s"), "d1", id="c1")
    named = node.accompanied.commands.named
    assert [one.target for one in run(named("c1"))] == ["d1", "d9/x"]
    for target, found in (("d1", ["d1"]), ("d9/x", ["d9/x"]), ("d9/y", []), ("d9", [])):
        assert [one.target for one in run(named("c1", target))] == found


def online(node: DeviceNode, gateway: str = "gw") -> bool:
    """What the store says."""
    record = run(node.accompanied.devices.find(gateway, ""))
    assert record is not None
    return record.online


def test_the_gateways_of_a_dead_node_are_offline() -> None:
    """Whoever adopts their sessions says so: the dead node cannot. One that is here already stays online."""
    node = DeviceNode()
    node.patient = True
    among_others(node)
    now = node.clock.wall()
    batch = WriteBatch()
    for name in ("gw", "here"):
        node.kept.put_device(batch, StoredDevice(name, "", now, now, online=True, codec="acme", logins=7))
        node.kept.put_device(batch, StoredDevice(name, "dev1", now, now))
    run(node.grid.commit(batch))
    node.device("gw").lose()
    node.accompanied.devices.known("here", lambda: None)
    node.accompanied.devices.login("here", codec="acme", version="1", peer="p1")
    node.device("here")
    assert online(node)
    for name in ("gw", "here"):
        node.accompanied.session_came(name, inherited=True)
    node.turn()
    assert (online(node), online(node, "here")) == (False, True)


def test_a_gateway_that_moves_is_online_where_it_is() -> None:
    """The node that it left writes so when the other has written already: the last word is that of its home."""
    node = DeviceNode()
    node.patient = True
    among_others(node)
    devices = node.accompanied.devices
    devices.login("gw", codec="acme", version="1", peer="p1")
    node.device("gw")
    (record,) = run(devices.page("gw", None, 10))
    batch = WriteBatch()
    node.kept.put_device(batch, replace(record, online=False, last_seen=record.last_seen + 1))
    run(node.grid.commit(batch))
    node.accompanied.session_came("gw", inherited=False)
    node.turn()
    (record,) = [one for one in run(_records(node)) if not one.device]
    assert record.online
    devices.left("gw", "p1")
    node.accompanied.session_left("gw")
    batch = WriteBatch()
    node.kept.put_device(batch, replace(record, online=True))
    node.turn()
    run(node.grid.commit(batch))
    assert online(node)


async def _records(node: DeviceNode) -> list[StoredDevice]:
    return [record async for record in node.kept.devices("gw")]


def test_a_command_that_another_node_accepted_is_not_accepted_again() -> None:
    """Its sender, which saw no PUBACK there, is told what has become of it."""
    node = DeviceNode()
    among_others(node)
    device = node.device("d1")
    sender = node.connect("sender")
    sender.subscribe("answers", qos=1)
    now = node.clock.wall()
    put(node, replace(queued("c1", "far", now), state=State.SENT, attempts=1, sender="sender"))
    order(sender, "far", id="c1", response_topic="answers")
    order(sender, "d1", id="c2")
    assert [status["state"] for status in statuses(sender)] == ["sent"]
    assert (node.state("c1"), node.record("c1").attempts) == ("sent", 1)
    assert [message.topic for message in device.messages()] == [b"down/d1"]
    assert node.count() == 2


def test_who_listens_here_is_not_taken_for_another_node() -> None:
    """A command to nobody fails at once, however many sessions here, kept ones too, want what is sent there."""
    node = DeviceNode()
    among_others(node)
    node.connect("brief").subscribe("down/#", qos=1)
    node.device("kept", filter="down/#")
    sender = node.connect("sender")
    (answer,) = sender.publish("down/ghost", b"{}", qos=1, user_properties=(("command-id", "c1"),))
    assert isinstance(answer, Ack)
    assert node.state("c1") == "failed"


def test_what_was_read_before_a_client_came_back_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was away meanwhile, and its command was done there; what is read since is the truth."""
    node = DeviceNode()
    other = among_others(node)
    node.device().lose()
    now = node.clock.wall()
    record = queued("c1", "d1", now, deadline=now + 5)
    put(node, record)
    read, slow = node.kept.command, Deferred[None]()

    async def slowly(owner: str, command_id: str) -> StoredCommand | None:
        found = await read(owner, command_id)
        await slow
        return found

    monkeypatch.setattr(node.kept, "command", slowly)
    other.answers["commands.accepted"](json.dumps([["d1", "c1"]]).encode())
    put(node, replace(record, state=State.ACKED, attempts=1))
    node.connect("d1", expiry=3600)
    slow.callback(None)
    node.pass_time(6)
    assert (node.state("c1"), node.record("c1").attempts) == ("acked", 1)


class Blind:
    """The grid does not answer while this is entered."""

    def __init__(self, node: DeviceNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self._node, self._monkeypatch = node, monkeypatch

    def __enter__(self) -> None:
        async def refused(*_: object) -> None:
            raise Unavailable("no answer")

        self._monkeypatch.setattr(self._node.grid, "get", refused)

    def __exit__(self, *_: object) -> None:
        self._monkeypatch.undo()


def test_a_sender_waits_while_nobody_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is not "no such command"; what came behind it stays behind it."""
    node = DeviceNode()
    among_others(node)
    device = node.device("d1")
    sender = node.connect("sender")
    with Blind(node, monkeypatch):
        assert not sender.publish("down/d1", b"1", qos=1, user_properties=(("command-id", "c1"),))
        assert not sender.publish("down/d1", b"2", qos=1)
        node.pass_time(5)
    node.pass_time(1)
    assert len(sender.acks(PacketType.PUBACK)) == 2
    assert device.payloads() == [b"1", b"2"]


def test_a_sender_that_leaves_meanwhile_has_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was acknowledged; it will send again, to whomever."""
    node = DeviceNode()
    among_others(node)
    device = node.device("d1")
    sender = node.connect("sender")
    with Blind(node, monkeypatch):
        sender.publish("down/d1", b"1", qos=1, user_properties=(("command-id", "c1"),))
        sender.lose()
    node.pass_time(1)
    assert node.count() == 0
    assert device.payloads() == []


def test_a_sole_node_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its book has everything."""
    node = DeviceNode()
    node.device("d1")
    sender = node.connect("sender")
    with Blind(node, monkeypatch):
        order(sender, "d1", id="c1")


def test_a_sequence_is_forgotten_on_all_nodes() -> None:
    """Whichever is asked; and not half, if one does not answer."""
    node = DeviceNode()
    other = among_others(node)
    devices = node.accompanied.devices
    devices.taken("gw", 7)
    node.turn()
    other.word = "no answer"
    with pytest.raises(Unavailable, match="node 2"):
        run(devices.forget_sequence("gw"))
    assert run(devices.sequence("gw")) is not None
    other.word = b""
    assert run(devices.forget_sequence("gw"))
    assert not run(devices.forget_sequence("gw"))
    devices.taken("gw", 7)
    ((name, body),) = set(other.asked)
    assert (other.answers[name](body), other.answers[name](body)) == (b"yes", b"")
    node.turn()
    assert (run(devices.sequence("gw")), devices.is_fresh("gw", 1)) == (None, True)
