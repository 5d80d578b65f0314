"""Retained messages of several nodes: the later one of two stands, wherever they meet."""

from __future__ import annotations

from twisted.internet.task import Clock as Reactor

from iot_mqtt.broker.cluster.retained_sync import SOON, RetainedSync
from iot_mqtt.broker.cluster.retained_versions import CLOCKS_APART, LATE, RetainedVersions
from iot_mqtt.broker.driving import RETRY_SECONDS
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.codec import Publish
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.clock import ManualClock, ReactorClock
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import Message
from tests.unit.broker.harness import Node, run


class Told:
    """What the peers are told; the part of ``ports.cluster.Peers`` that versions use."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard: list[tuple[bytes, Message | None, int]] = []

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        self.heard.append((topic, message, version))


def versions(number: int, clock: ManualClock) -> tuple[RetainedVersions, Told]:
    told = Told(number)
    return RetainedVersions(clock, told, Node().store), told  # type: ignore[arg-type]


def test_a_change_is_told_with_a_version_that_grows() -> None:
    """Even while the clock stands still, and beyond what was heard from a clock that is ahead."""
    own, told = versions(3, ManualClock())
    first = own.changed(b"t", Message(b"t", b"1", retain=True))
    second = own.changed(b"t", Message(b"t", b"2", retain=True))
    assert first < second and second & 0xFF == 3
    assert own.note(b"u", second + (1 << 40)) > 0
    assert own.changed(b"t", None) > second + (1 << 40)
    assert [entry[1] is None for entry in told.heard] == [False, False, True]


def test_of_two_nodes_both_find_the_same_one_later() -> None:
    """Whoever hears of an earlier one knows that his own stands."""
    clock = ManualClock()
    (one, _), (two, _) = versions(1, clock), versions(2, clock)
    first = one.changed(b"t", Message(b"t", b"1", retain=True))
    second = two.changed(b"t", Message(b"t", b"2", retain=True))
    assert one.note(b"t", second) == 1
    assert two.note(b"t", first) == -1
    assert one.of(b"t") == two.of(b"t") == second
    assert one.note(b"t", second) == 0


def test_a_removal_is_remembered() -> None:
    """An older message that comes late does not bring the topic back."""
    own, _ = versions(1, ManualClock())
    old = own.changed(b"t", Message(b"t", b"1", retain=True))
    own.changed(b"t", None)
    assert own.note(b"t", old) == -1


def test_what_is_not_in_the_store_was_removed_elsewhere() -> None:
    """Unless it is so new that it may not have been there yet."""
    clock, node = ManualClock(), Node()
    own = RetainedVersions(clock, Told(1), node.store)  # type: ignore[arg-type]
    for topic in (b"kept", b"removed"):
        own.changed(topic, Message(topic, b"1", retain=True))
    node.store.flush()
    clock.advance(CLOCKS_APART + 1)
    own.changed(b"new", Message(b"new", b"1", retain=True))
    own.committed()
    assert own.missing({b"kept"}, own.now()) == [b"removed"]
    assert own.of(b"removed") == 0 and own.of(b"kept") and own.of(b"new")


class Retaining:
    """A node among others, what it has of one topic, and what the grid has of it."""

    def __init__(self) -> None:
        self.node = Node()
        self.told = Told(1)
        broker, clock = self.node.broker, self.node.clock
        own = RetainedVersions(clock, self.told, self.node.store)  # type: ignore[arg-type]
        broker.publishing.retention.share(own)
        self.sync = RetainedSync(broker.publishing.retention, own, clock)
        broker.turn.at_commit += (self.sync.committed,)
        self.writer = self.node.connect("writer")

    def set(self, payload: bytes) -> int:
        """A client sets or removes it here; the version."""
        self.writer.publish("t", payload, qos=1, retain=True)
        return self.told.heard[-1][2]

    def hears(self, payload: bytes, version: int) -> None:
        """Another node has set or removed it, in its own memory and in the grid."""
        message = Message(b"t", payload, 1, retain=True) if payload else None
        if message is None:
            self.node.store.remove_retained(b"t")
        else:
            self.node.store.save_retained(message, version)
        self.node.broker.turn.plan()
        self.node.turn()
        self.node.broker.publishing.retention.heard(b"t", message, version)
        self.node.turn()

    def has(self) -> tuple[bytes | None, bytes | None]:
        """What a new subscriber gets, and what a node that starts would read."""

        async def stored() -> bytes | None:
            return next(iter([message.payload async for message, _ in self.node.store.retained()]), None)

        reader = self.node.connect("reader")
        reader.subscribe("t", qos=1)
        (seen, *_) = *reader.drain(), None
        assert self.node.records(CacheName.RETAINED) == int(seen is not None)
        return seen, run(stored())


def test_messages_that_come_together_have_a_version_each() -> None:
    """Others are told of the last one of each topic, and the store has it with that version."""
    it = Retaining()
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]
    it.writer.send(*(Publish(topic, payload, 1, True, False, it.writer.next_id()) for topic, payload in pairs))
    told = {topic: (message and message.payload, version) for topic, message, version in it.told.heard}
    assert [(topic, payload) for topic, (payload, _) in told.items()] == [(b"a", b"3"), (b"b", b"2"), (b"c", b"4")]
    assert len(it.told.heard) == len({version for _, version in told.values()}) == 3

    async def stored() -> dict[bytes, tuple[bytes | None, int]]:
        return {message.topic: (message.payload, version) async for message, version in it.node.store.retained()}

    assert run(stored()) == told


def test_a_later_message_of_another_node_stands() -> None:
    """New, instead of one, and as a removal; a client that subscribes gets it."""
    it = Retaining()
    version = it.set(b"mine") + (1 << 40)
    for number, payload in enumerate((b"yours", b"", b"again")):
        it.hears(payload, version + number)
        assert it.has() == (payload or None, payload or None)


def test_putting_right_undoes_no_later_message() -> None:
    """Of a link that was silent for long an earlier one comes first, and in the same breath the one that is stored."""
    it = Retaining()
    version = it.set(b"mine")
    later = Message(b"t", b"later", 1, retain=True)
    it.node.store.save_retained(later, version + (1 << 40))
    it.node.broker.turn.plan()
    it.node.turn()
    retention = it.node.broker.publishing.retention
    retention.heard(b"t", Message(b"t", b"earlier", 1, retain=True), version - 1)
    retention.heard(b"t", later, version + (1 << 40))
    it.node.turn()
    assert it.has() == (b"later", b"later")


def test_who_puts_right_tells_what_he_has_written() -> None:
    """Should somebody have a later one: then that was undone in the store, and he writes it again."""
    it, other = Retaining(), Retaining()
    version = it.set(b"mine")
    told = len(it.told.heard)
    for earlier in (3, 2, 1):
        it.node.broker.publishing.retention.heard(b"t", Message(b"t", b"earlier", 1, retain=True), version - earlier)
    (again,) = it.told.heard[told:]
    assert again[2] == version and again[1] is not None and again[1].payload == b"mine"
    other.hears(b"later", version + (1 << 40))
    # As the write of the first has left it.
    other.node.store.save_retained(again[1], again[2])
    other.node.broker.turn.plan()
    other.node.turn()
    other.node.broker.publishing.retention.heard(*again)
    other.node.turn()
    assert other.has() == (b"later", b"later")


def test_what_is_read_of_an_earlier_time_is_put_right() -> None:
    """By whoever reads it: the writer of the later one may have died."""
    it = Retaining()
    version = it.set(b"mine")
    it.hears(b"later", version + (1 << 40))
    it.node.store.save_retained(Message(b"t", b"mine", 1, retain=True), version)
    it.node.broker.turn.plan()
    it.node.turn()
    run(it.node.broker.publishing.retention.catch_up())
    it.node.turn()
    assert it.has() == (b"later", b"later")
    assert it.told.heard[-1][2] == version + (1 << 40)


def test_an_earlier_message_of_another_node_does_not_stand() -> None:
    """Neither here nor in the grid, which it has overwritten: whoever has the later one puts that right."""
    it = Retaining()
    version = it.set(b"mine")
    it.hears(b"yours", version - 1)
    assert it.has() == (b"mine", b"mine")
    it.hears(b"", version - 2)
    assert it.has() == (b"mine", b"mine")


def test_an_earlier_message_of_another_node_does_not_undo_a_removal() -> None:
    """Whoever knows of the removal removes it from the grid as well."""
    it = Retaining()
    it.set(b"mine")
    version = it.set(b"")
    it.hears(b"yours", version - 1)
    assert it.has() == (None, None)


def test_a_removal_by_another_node_is_remembered_as_one() -> None:
    """What was set before it and comes late is not taken, and is removed from the grid; also much later."""
    it = Retaining()
    version = it.set(b"mine") + (1 << 8)
    it.hears(b"", version)
    it.hears(b"late", version - 1)
    assert it.has() == (None, None)
    it.node.advance(CLOCKS_APART + 1)
    run(it.node.broker.publishing.retention.catch_up())
    it.hears(b"later", version - 1)
    assert it.has() == (None, None)


def test_what_is_not_committed_is_told_again_to_whom_a_link_begins_anew() -> None:
    """Whoever was not there when it was told does not find it in the store either."""
    it = Retaining()
    it.node.hold()
    first = it.set(b"1")
    second = it.set(b"2")
    it.told.heard.clear()
    it.sync.begins_anew()
    ((topic, message, version),) = it.told.heard
    assert (topic, message and message.payload, version) == (b"t", b"2", second)
    assert first < second
    it.node.release()
    it.node.turn()
    it.told.heard.clear()
    it.sync.begins_anew()
    assert it.told.heard == []


def test_a_removal_that_is_not_committed_is_told_again_too() -> None:
    it = Retaining()
    it.set(b"1")
    it.node.hold()
    version = it.set(b"")
    it.told.heard.clear()
    it.sync.begins_anew()
    assert it.told.heard == [(b"t", None, version)]


def test_what_is_committed_late_is_told_again() -> None:
    """Others that have read the store meanwhile have taken it for removed."""
    it = Retaining()
    it.node.hold()
    version = it.set(b"1")
    it.node.advance(LATE + 1)
    it.told.heard.clear()
    it.node.release()
    it.node.turn()
    assert [(topic, version) for topic, _, version in it.told.heard] == [(b"t", version)]
    it.set(b"2")
    assert len(it.told.heard) == 2, "what is in time is told once"


def test_reading_the_store_takes_nothing_of_what_is_not_committed() -> None:
    """However long that takes, and whether or not the store takes anything."""
    it = Retaining()
    it.node.fail()
    it.set(b"1")
    it.node.advance(CLOCKS_APART + 1)
    it.sync.missed()
    it.node.advance(SOON)
    reader = it.node.connect("reader")
    reader.subscribe("t", qos=1)
    assert reader.drain() == [b"1"]
    it.node.recover()
    it.node.advance(5.0)
    assert it.has() == (b"1", b"1")


def test_what_another_node_has_retained_is_read_although_nothing_can_be_committed_here() -> None:
    it = Retaining()
    other = Message(b"t", b"yours", 1, retain=True)
    it.node.store.save_retained(other, 1 << 60)
    it.node.broker.turn.plan()
    it.node.turn()
    it.node.fail()
    it.writer.publish("u", b"x", qos=1, retain=True)
    it.sync.missed()
    it.node.advance(SOON)
    reader = it.node.connect("reader")
    reader.subscribe("t", qos=1)
    assert reader.drain() == [b"yours"]


def test_what_was_told_during_the_start_is_later_than_what_is_read_then() -> None:
    """It may not be in the store yet, and is not put back by what is."""
    it = Retaining()
    version = it.set(b"old")
    own = RetainedVersions(it.node.clock, it.told, it.node.store)  # type: ignore[arg-type]
    starting = Retention(it.node.settings, it.node.store, it.node.broker.publishing.budget, it.node.broker.turn)
    starting.share(own)
    new = Message(b"t", b"new", 1, retain=True)
    starting.heard(b"t", new, version + 256)
    run(starting.load())
    assert starting.index.get(b"t") == new


class Away:
    """Retained messages whose store does not answer."""

    def __init__(self) -> None:
        self.tried = 0

    async def catch_up(self) -> None:
        """Nothing can be read."""
        self.tried += 1
        raise Unavailable("the grid is not open")


def test_whoever_cannot_read_the_store_tries_again_until_its_life_is_over() -> None:
    """The store of a life that is over never comes back."""
    reactor, away = Reactor(), Away()
    clock = ReactorClock(reactor)
    own = RetainedVersions(clock, Told(1), Node().store)  # type: ignore[arg-type]
    RetainedSync(away, own, clock).missed()  # type: ignore[arg-type]
    reactor.pump([SOON, RETRY_SECONDS, RETRY_SECONDS])
    assert away.tried == 3
    clock.end()
    reactor.pump([RETRY_SECONDS] * 3)
    assert away.tried == 3 and reactor.getDelayedCalls() == []
