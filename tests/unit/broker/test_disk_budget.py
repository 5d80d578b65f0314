"""When room runs out: who is told, who waits, who goes on, and that everything does when there is room again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.publishing.fullness import DiskLevel
from iot_mqtt.broker.settings import BudgetSettings, LogUse
from iot_mqtt.codec import Ack, Connect, Packet, PacketType, Publish
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.values import Message, ProtocolVersion
from tests.doubles.rights import NoPublishing
from tests.unit.broker.harness import V5, V311, Client, Node, subscribe
from tests.unit.broker.logreaders import once_recorded

SUCCESS, NONE, QUOTA = ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.QUOTA_EXCEEDED
MIB = 1 << 20


@dataclass
class Disk:
    """A disk whose figures a test sets."""

    used: int = 0
    free: int = 1000 * MIB
    broken: bool = False
    passing: int = 0
    inodes: int = 0
    inodes_free: int = 0

    def __call__(self) -> DiskUse:
        if self.broken:
            raise OSError("no such directory")
        return DiskUse(self.used, self.free, self.passing, self.inodes, self.inodes_free)


def full_node(disk: Disk, **options: Any) -> Node:
    """A node at its limit of 100 MiB, with a durable session that is away and wants ``t``."""
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk, **options)
    reader = node.connect("reader", expiry=600)
    reader.subscribe("t", qos=2)
    reader.lose()
    fill(node, disk)
    return node


def fill(node: Node, disk: Disk, used: int = 100 * MIB) -> None:
    """The grid takes so much now, and the broker has looked."""
    disk.used = used
    node.broker.publishing.budget.measure()
    node.turn()


def reasons(packets: list[Packet]) -> list[ReasonCode]:
    """Of acknowledgements, in order."""
    return [packet.reason for packet in packets if isinstance(packet, Ack)]


def waiting(node: Node) -> list[bytes]:
    """What the reader finds when it comes back."""
    return node.connect("reader", clean=False, expiry=600).drain()


# The alarm.


@pytest.mark.parametrize(
    ("settings", "use", "kind", "said"),
    [
        (
            BudgetSettings(disk_reserve=100 * MIB),
            DiskUse(1, 20 * MIB, 5),
            AlarmKind.ROOM_OF_DISK,
            f"disk full: {20 * MIB} bytes free, and {100 * MIB + 5} have to stay free; the node itself takes 1",
        ),
        (
            BudgetSettings(disk_limit=100, disk_reserve=1),
            DiskUse(200, MIB, 0),
            AlarmKind.ROOM,
            "disk full: 200 of 100 bytes used (200 %)",
        ),
        (
            BudgetSettings(disk_reserve=0),
            DiskUse(200, 0, 0),
            AlarmKind.ROOM,
            "disk full: 200 of 200 bytes used (100 %)",
        ),
        (BudgetSettings(disk_reserve=1), DiskUse(90, 11, 0), AlarmKind.ROOM, "disk alarm: 90 of 100 bytes used (90 %)"),
    ],
)
def test_the_alarm_says_whether_the_file_system_is_full(
    settings: BudgetSettings, use: DiskUse, kind: AlarmKind, said: str
) -> None:
    """Then a share of what is left for the node would say nothing: others have filled it."""
    budget = Node(budget=settings, disk=Disk(use.used, use.free, passing=use.passing)).broker.publishing.budget
    budget.measure()
    assert budget.alarms == (Alarm(kind, said),)


@pytest.mark.parametrize(
    ("used", "level"),
    [(0, "none"), (79, "none"), (80, "alarm"), (99, "alarm"), (100, "full"), (130, "full")],
)
def test_the_level_follows_the_share_of_the_limit(used: int, level: str) -> None:
    """Alarm from 80 % on, full at the limit."""
    disk = Disk()
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk)
    fill(node, disk, used * MIB)
    assert node.broker.publishing.budget.level == level
    assert bool(node.broker.publishing.budget.alarms) == (level != "none")


def test_a_level_is_not_left_for_a_trifle() -> None:
    """Neither the alarm nor the stop flickers when files come and go."""
    disk, levels = Disk(), []
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk)
    for used in (79, 80, 79, 77, 100, 99, 97, 100, 96, 70):
        fill(node, disk, used * MIB)
        levels.append(node.broker.publishing.budget.level.value)
    assert levels == ["none", "alarm", "alarm", "none", "full", "full", "alarm", "full", "alarm", "none"]


@pytest.mark.parametrize(
    ("limit", "reserve", "used", "free", "level"),
    [
        (0, 0, 900, 300, DiskLevel.NONE),
        (0, 64, 20, 65, DiskLevel.ALARM),
        (0, 64, 20, 64, DiskLevel.FULL),
        (0, 64, 20, 10, DiskLevel.FULL),
        (1000, 64, 20, 64, DiskLevel.FULL),
        (0, 0, 100, 0, DiskLevel.FULL),
        (0, 64, 0, 10, DiskLevel.FULL),
    ],
)
def test_the_file_system_limits_as_well(limit: int, reserve: int, used: int, free: int, level: DiskLevel) -> None:
    """What others leave of it, less the reserve; whichever is less counts."""
    disk = Disk(used * MIB, free * MIB)
    node = Node(budget=BudgetSettings(disk_limit=limit * MIB, disk_reserve=reserve * MIB), disk=disk)
    node.broker.publishing.budget.measure()
    assert node.broker.publishing.budget.level is level


def test_inodes_run_out_as_bytes_do() -> None:
    """Some are kept for what is under way; the alarm says which of the two it is."""
    disk, levels = Disk(inodes=1032), []
    budget = Node(budget=BudgetSettings(disk_reserve=1), disk=disk).broker.publishing.budget
    for used in (100, 799, 800, 790, 779, 1000, 1032, 971, 969, 100):
        disk.inodes_free = 1032 - used
        budget.measure()
        levels.append(budget.level.value)
        if used == 1000:
            text = "disk full: 1000 of 1032 inodes used (96 %), 32 have to stay free"
            assert budget.alarms == (Alarm(AlarmKind.INODES, text),)
            assert budget.full and not budget.lacks_bytes, "a merge would need some"
    assert levels == ["none", "none", "alarm", "alarm", "none", "full", "full", "full", "alarm", "none"]


def test_a_file_system_that_counts_no_inodes_runs_out_of_none() -> None:
    """It says 0 of 0."""
    budget = Node(budget=BudgetSettings(disk_reserve=1), disk=Disk()).broker.publishing.budget
    budget.measure()
    assert (budget.level, budget.alarms) == (DiskLevel.NONE, ())


def test_the_fuller_of_bytes_and_inodes_counts() -> None:
    """And both are told."""
    disk = Disk(free=0, inodes=1032, inodes_free=200)
    budget = Node(budget=BudgetSettings(disk_reserve=1), disk=disk).broker.publishing.budget
    budget.measure()
    assert (budget.level, len(budget.alarms)) == (DiskLevel.FULL, 2)
    assert budget.lacks_bytes


@pytest.mark.parametrize(("reserve", "limit"), [(64, 236), (0, 500)])
def test_what_merging_needs_is_kept_free_beside_the_reserve(reserve: int, limit: int) -> None:
    """Or a database that may not merge gives no room back; who wants no reserve has none."""
    disk = Disk(300 * MIB, 200 * MIB, passing=200 * MIB)
    node = Node(budget=BudgetSettings(disk_reserve=reserve * MIB), disk=disk)
    node.broker.publishing.budget.measure()
    assert node.broker.publishing.budget.disk_limit == limit * MIB


def test_a_disk_that_cannot_be_measured_changes_nothing() -> None:
    """The last figures stay, and it is tried again."""
    disk = Disk()
    node = full_node(disk)
    disk.broken = True
    fill(node, disk, 0)
    assert node.broker.publishing.budget.full
    disk.broken = False
    fill(node, disk, 0)
    assert not node.broker.publishing.budget.full


def test_the_disk_is_looked_at_early_when_much_is_written() -> None:
    """A second is long for who writes fast: after a part of the room, nobody has to be asked."""
    disk = Disk()
    node = full_node(disk)
    fill(node, disk, 92 * MIB)
    disk.used = 100 * MIB
    writer = node.connect("writer")
    told = [reasons(writer.publish("t", b"x" * 300_000, qos=1)) for _ in range(6)]
    assert told == [[SUCCESS]] * 4 + [[QUOTA]] * 2


# At the limit.


@pytest.mark.parametrize("qos", [1, 2])
def test_a_v5_publisher_is_told_for_each_message(qos: int) -> None:
    """0x97, nothing is stored, its ids are free again, and it goes on when there is room."""
    disk = Disk()
    node = full_node(disk)
    writer = node.connect("writer", expiry=600)
    assert reasons(writer.publish("t", b"1", b"2", qos=qos)) == [QUOTA, QUOTA]
    assert not node.session("writer").inbound.received
    assert node.counters.messages_refused == {"disk_full": 2}
    assert node.counters.messages_received == 0
    fill(node, disk, 50 * MIB)
    assert reasons(writer.publish("t", b"3", qos=qos)) == [SUCCESS]
    assert waiting(node) == [b"3"]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize(("wants", "said"), [(True, "the disk is full"), (False, None)])
def test_a_v5_publisher_is_told_why_in_words_if_it_wants_them(qos: int, wants: bool, said: str | None) -> None:
    """0x97 alone might be a limit of its user as well."""
    node = full_node(Disk())
    writer = node.connect("writer", request_problem_information=wants)
    answers = [answer for answer in writer.publish("t", b"1", b"2", qos=qos) if isinstance(answer, Ack)]
    assert [(one.reason, one.properties.reason_string) for one in answers] == [(QUOTA, said)] * 2


@pytest.mark.parametrize("qos", [1, 2])
def test_a_3x_publisher_waits_and_loses_nothing(qos: int) -> None:
    """It is not read from; what it had sent is published in order when there is room."""
    disk = Disk()
    node = full_node(disk)
    writer = node.connect("writer", V311)
    assert writer.publish("t", b"1", b"2", qos=qos) == []
    assert not writer.wire.channel.reading
    assert node.broker.publishing.budget.paused_count == 1
    assert node.counters.publishers_paused == {"disk_full": 1}
    fill(node, disk, 99 * MIB)
    assert not writer.wire.channel.reading
    fill(node, disk, 50 * MIB)
    assert writer.wire.channel.reading
    assert len(writer.acks(PacketType.PUBACK if qos == 1 else PacketType.PUBREC)) == 2
    assert node.broker.publishing.budget.paused_count == 0
    assert waiting(node) == [b"1", b"2"]
    assert node.counters.packets_received["PUBLISH"] == 2


def test_what_came_behind_a_message_that_waits_waits_too() -> None:
    """One order for all that a client sends."""
    disk = Disk()
    node = full_node(disk)
    live = node.connect("live")
    live.subscribe("zero")
    writer = node.connect("writer", V311)
    writer.publish("t", b"1", qos=1)
    # Over TLS, bytes may still come after reading was switched off.
    writer.node.clients[-1].wire.channel.received(b"\x30\x07\x00\x04zero0")
    node.turn()
    assert live.payloads() == []
    fill(node, disk, 0)
    assert live.payloads() == [b"0"]
    assert len(writer.acks(PacketType.PUBACK)) == 1


def test_a_publisher_that_waits_is_not_closed_for_its_silence() -> None:
    """Its PINGREQ is there; nobody reads it."""
    disk = Disk()
    node = full_node(disk)
    writer = node.connect("writer", V311, keep_alive=10)
    writer.publish("t", b"1", qos=1)
    node.advance(100)
    assert not writer.closed
    fill(node, disk, 0)
    assert len(writer.acks(PacketType.PUBACK)) == 1
    node.advance(14)
    assert not writer.closed
    node.advance(16)
    assert writer.closed
    assert node.counters.errors == {"KEEP_ALIVE_TIMEOUT": 1}


def test_a_publisher_that_goes_away_while_it_waits_is_forgotten() -> None:
    """Nothing of it was acknowledged."""
    disk = Disk()
    node = full_node(disk)
    writer = node.connect("writer", V311)
    writer.publish("t", b"1", qos=1)
    writer.lose()
    assert node.broker.publishing.budget.paused_count == 0
    fill(node, disk, 0)
    assert waiting(node) == []


def test_who_may_not_publish_does_not_wait() -> None:
    """It is closed, as ever."""
    node = full_node(Disk(), authorizer=NoPublishing())
    writer = node.connect("writer", V311)
    writer.publish("t", b"1", qos=1)
    assert writer.closed


@pytest.mark.parametrize("version", [V311, V5])
def test_what_is_not_stored_goes_on(version: ProtocolVersion) -> None:
    """QoS 0, and QoS 1 to receivers whose sessions are not kept, or to nobody."""
    node = full_node(Disk())
    live = node.connect("live")
    live.subscribe("t", qos=0)
    live.subscribe("u", qos=1)
    writer = node.connect("writer", version)
    writer.publish("t", b"0")
    assert len(writer.publish("u", b"1", qos=1)) == 1
    assert len(writer.publish("nobody", b"2", qos=1)) == 1
    assert live.payloads() == [b"0", b"1"]
    assert node.broker.publishing.budget.paused_count == 0


@pytest.mark.parametrize(
    ("filter", "topic"), [("$share/g/s", "s"), ("$replay/0/r", "r"), ("q", "q")], ids=["group", "replay", "session"]
)
def test_each_kind_of_reader_of_the_log_counts(filter: str, topic: str) -> None:
    """Whoever would have it stored."""
    disk = Disk()
    node = full_node(disk)
    fill(node, disk, 0)
    once_recorded(node, "r")
    assert node.connect("another", expiry=600).subscribe(filter, qos=1).reasons == (1,)
    fill(node, disk)
    assert reasons(node.connect("writer").publish(topic, b"1", qos=1)) == [QUOTA]


def test_recorded_topics_count_as_stored() -> None:
    """QoS 1 is refused; QoS 0 is delivered, not recorded, and counted."""
    node = full_node(Disk(), log_use=LogUse(record=("rec/#",)))
    live = node.connect("live")
    live.subscribe("rec/a", qos=1)
    writer = node.connect("writer")
    assert reasons(writer.publish("rec/a", b"1", qos=1)) == [QUOTA]
    before = node.log.end
    writer.publish("rec/a", b"0")
    assert live.payloads() == [b"0"]
    assert node.log.end == before
    assert node.counters.messages_refused == {"disk_full": 2}


def test_retained_messages_are_not_replaced_but_may_be_removed() -> None:
    """QoS 1 is refused; QoS 0 goes to its receivers only; removing makes room."""
    disk = Disk()
    node = full_node(disk)
    fill(node, disk, 0)
    writer = node.connect("writer")
    writer.publish("kept", b"old", qos=1, retain=True)
    fill(node, disk)
    assert reasons(writer.publish("kept", b"new", qos=1, retain=True)) == [QUOTA]
    writer.publish("kept", b"new", retain=True)
    assert [message.payload for message in node.view.retained()] == [b"old"]
    assert node.counters.messages_refused == {"disk_full": 2}
    noted = [(one.code, one.topic, one.count) for _, one in node.counters.recent.latest()]
    assert noted == [("unretained_disk_full", "kept", 1), ("refused_disk_full", "kept", 1)]
    assert reasons(writer.publish("kept", b"", qos=1, retain=True)) == [NONE]
    assert node.view.retained() == []


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("topics", [1, 10])
def test_what_is_confirmed_is_retained_though_room_runs_out_meanwhile(topics: int, qos: int) -> None:
    """The look at the disk may come due within messages that are served together: they were taken as one."""
    disk = Disk()
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk)
    fill(node, disk, 92 * MIB)
    writer = node.connect("writer")
    disk.used = 100 * MIB
    packets = [
        Publish(b"t/%d" % (number % topics), b"%d" % number + b"x" * 300_000, qos, True, False, number)
        for number in range(1, 11)
    ]
    writer.send(*packets)
    taken = {answer.packet_id for answer in writer.take(Ack) if answer.reason is not QUOTA}
    assert taken
    last = {packet.topic: packet.payload for packet in packets if packet.packet_id in taken}
    assert {message.topic: message.payload for message in node.view.retained()} == last
    assert node.counters.messages_refused["disk_full"] == 10 - len(taken)


def test_qos_0_for_a_replay_is_counted_as_dropped() -> None:
    """Only the log could have brought it."""
    disk = Disk()
    node = full_node(disk)
    fill(node, disk, 0)
    once_recorded(node, "r")
    replay = node.connect("another", expiry=600)
    replay.subscribe(f"$replay/{node.log.end}/r", qos=0)
    fill(node, disk)
    node.connect("writer").publish("r", b"0", b"1")
    assert replay.payloads() == []
    assert node.dropped() == {"disk_full": 2}


def test_the_api_is_told_as_well() -> None:
    """The node's own publishes are no exception."""
    node = full_node(Disk())
    failures: list[BaseException] = []
    drive(node.view.publish(Message(b"t", b"1", 1)), lambda _: None, failures.append)
    assert [type(one) for one in failures] == [Refused]
    assert isinstance(failures[0], Refused) and failures[0].reason is QUOTA


def test_a_full_disk_still_delivers_what_is_stored() -> None:
    """Draining is what makes room."""
    disk = Disk()
    node = full_node(disk)
    fill(node, disk, 0)
    node.connect("writer").publish("t", b"1", b"2", qos=1)
    fill(node, disk)
    assert waiting(node) == [b"1", b"2"]


# Commits that do not come back.


def crowded_node(**limits: Any) -> Node:
    """A node that lets little wait for a commit."""
    node = Node(budget=BudgetSettings(**limits))
    reader = node.connect("reader", expiry=600)
    reader.subscribe("t", qos=2)
    reader.lose()
    return node


def publish_until_paused(writer: Client, qos: int = 1) -> int:
    """Publish one by one as long as the broker reads; how many it took."""
    for number in range(1000):
        if not writer.wire.channel.reading:
            return number
        writer.publish("t", b"%d" % number + b"x" * 100, qos=qos)
    raise AssertionError("the broker takes everything")


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("trouble", ["hold", "fail"])
def test_publishers_wait_while_commits_do(version: ProtocolVersion, trouble: str) -> None:
    """What gathers in memory is bounded; every version waits, and everything is acknowledged in the end."""
    node = crowded_node(uncommitted_bytes=2000)
    writer = node.connect("writer", version)
    getattr(node, trouble)()
    count = publish_until_paused(writer)
    assert 15 < count < 25
    assert node.broker.publishing.budget.uncommitted < 2300
    assert node.broker.publishing.budget.alarms
    assert node.counters.publishers_paused == {"uncommitted": 1}
    node.release() if trouble == "hold" else node.recover()
    assert writer.wire.channel.reading
    assert len(writer.acks(PacketType.PUBACK)) == count
    assert node.broker.publishing.budget.alarms == ()
    assert len(waiting(node)) == count


def test_operations_count_as_well() -> None:
    """Small things add up, too: subscriptions of a client that never stops."""
    node = crowded_node(uncommitted_operations=50)
    busy = node.connect("busy", expiry=600)
    node.hold()
    for number in range(1000):
        if not busy.wire.channel.reading:
            break
        busy.send(subscribe(number + 1, f"s/{number}"))
    assert 10 < number < 60
    node.release()
    assert busy.wire.channel.reading


def test_qos_0_that_is_retained_waits_with_the_others() -> None:
    """Nothing is acknowledged for it, but it waits for a commit all the same."""
    node = crowded_node(uncommitted_bytes=2000)
    writer = node.connect("writer", V311)
    node.hold()
    for number in range(1000):
        if not writer.wire.channel.reading:
            break
        writer.publish(f"kept/{number}", b"x" * 100, retain=True)
    assert 10 < number < 25
    node.release()
    assert writer.wire.channel.reading


def test_who_adds_nothing_is_read_on() -> None:
    """A slow disk is no reason to keep QoS 0 waiting."""
    node = crowded_node(uncommitted_bytes=2000)
    live, other = node.connect("live"), node.connect("other")
    live.subscribe("zero")
    writer = node.connect("writer")
    node.hold()
    publish_until_paused(writer)
    other.publish("zero", b"1")
    assert other.wire.channel.reading
    assert live.payloads() == [b"1"]


def test_a_flood_that_waits_goes_on_one_after_the_other() -> None:
    """Each may use up the room again; nobody is forgotten and nothing is lost."""
    node = crowded_node(uncommitted_bytes=2000)
    writers = [node.connect(f"w{number}", V311) for number in range(10)]
    node.hold()
    sent = 0
    while any(writer.wire.channel.reading for writer in writers):
        for writer in writers:
            if writer.wire.channel.reading:
                writer.publish("t", *[b"x" * 200] * 5, qos=1)
                sent += 5
    assert node.broker.publishing.budget.paused_count == 10
    node.release()
    assert all(writer.wire.channel.reading for writer in writers)
    assert sum(len(writer.acks(PacketType.PUBACK)) for writer in writers) == sent
    assert len(waiting(node)) == sent


def test_room_for_some_is_not_used_by_all() -> None:
    """What the first of them adds may be too much again: the others wait on."""
    node = crowded_node(uncommitted_bytes=2000)
    writers = [node.connect(f"w{number}", V311) for number in range(10)]
    node.hold()
    for writer in writers:
        publish_until_paused(writer)
        # Over TLS, bytes may still come after reading was switched off.
        writer.wire.channel.received(bytes.fromhex("32d50400017400ff") + b"x" * 592)
    # One commit is back; the next one takes its time.
    node.grid.release()
    node.grid.hold()
    node.turn()
    assert 0 < node.broker.publishing.budget.paused_count < 10
    assert node.broker.publishing.budget.uncommitted < 2000 + 600
    node.release()
    assert node.broker.publishing.budget.paused_count == 0


def test_a_client_that_connects_meanwhile_is_served_in_order() -> None:
    """Its CONNECT waits for a commit, and what it sends behind it waits for that, whoever else may go on."""
    node = crowded_node(uncommitted_bytes=2000)
    node.hold()
    node.connect("writer").publish("t", b"x" * 3000, qos=1)
    newcomer = node.open(V311)
    connect = Connect(V311, "newcomer", False)
    newcomer.send(connect, Publish(b"t", b"1", 1, packet_id=7), Publish(b"t", b"2", 1, packet_id=8))
    # The writer's commit is back, the newcomer's is under way.
    batch, done = node.grid._waiting.popleft()
    node.grid._apply(batch)
    done(None)
    node.turn()
    assert not node.broker.publishing.budget.crowded
    assert newcomer.take_all() == []
    node.release()
    assert [packet.type for packet in newcomer.take_all()] == [PacketType.CONNACK, PacketType.PUBACK, PacketType.PUBACK]
    assert newcomer.wire.channel.reading


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", [V311, V5])
def test_room_that_runs_out_in_the_middle_of_a_batch(
    version: ProtocolVersion, qos: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before is kept and confirmed; what is behind it is refused (v5), or waits and is kept in its order."""
    disk = Disk()
    node = Node(budget=BudgetSettings(disk_limit=100 * MIB), disk=disk)
    reader = node.connect("reader", expiry=600)
    reader.subscribe("t/#", qos=2)
    reader.lose()
    writer = node.connect("writer", version)
    append, count = node.log.append, 0

    def fills(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 4:
            disk.used = 100 * MIB
            node.broker.publishing.budget.measure()
        return append(*arguments)

    monkeypatch.setattr(node.log, "append", fills)
    # The next look at the disk is due before the end of the batch.
    monkeypatch.setattr(type(node.broker.publishing.budget), "takes", lambda budget, size: False)
    writer.send(*(Publish(b"t/%d" % n, b"%d" % n, qos, False, False, n) for n in range(1, 11)))
    taken, refused = [SUCCESS] * 4, [QUOTA] * (6 if version is V5 else 0)
    answers = writer.take(Ack)
    assert reasons(list(answers)) == taken + refused
    assert [answer.packet_id for answer in answers] == list(range(1, len(answers) + 1))
    fill(node, disk, 10 * MIB)
    kept = 4 if version is V5 else 10
    assert [answer.packet_id for answer in writer.take(Ack)] == list(range(5, kept + 1))
    assert waiting(node) == [b"%d" % n for n in range(1, kept + 1)]
    assert node.counters.messages_refused["disk_full"] == 10 - kept
    assert node.counters.packets_received["PUBLISH"] == 10
