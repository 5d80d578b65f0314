"""Shared groups with a durable member: members pull, and what one does not finish the others get."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.broker.settings import LogUse, MqttSettings
from iot_mqtt.broker.shared_groups.cursor import GroupCursor
from iot_mqtt.codec import PacketType, Publish
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session.outbound import SENT_QOS1
from tests.unit.broker.harness import Client, Node
from tests.unit.broker.logreaders import NO_PAGES, SHORT, check, durable, forget_old, numbers, publish

FILTER = "$share/g/t"
PUBACK, PUBREC, PUBREL, PUBCOMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
QOS = pytest.mark.parametrize("qos", [1, 2])
ORDERED = ("sticky", "hash_client", "hash_topic")
POLICIES = pytest.mark.parametrize("policy", ["round_robin", "least_inflight", *ORDERED])


def member(node: Node, number: int, qos: int = 1, window: int | None = None) -> Client:
    """A durable member, new or again."""
    client = durable(node, f"m{number}", window)
    client.subscribe(FILTER, qos=qos)
    return client


def drain(*members: Client) -> list[bytes]:
    """Everything, in as many rounds as it takes."""
    found: list[bytes] = []
    while new := [payload for one in members for payload in one.drain()]:
        found += new
    return found


@POLICIES
@QOS
def test_each_message_goes_to_one_member(policy: str, qos: int) -> None:
    """Live, behind, with windows of different sizes."""
    node = Node(MqttSettings(shared_policy=policy), log_use=LogUse(batch_size=4))
    members = [member(node, number, qos, window) for number, window in enumerate((1, 3, 5))]
    publish(node, 0, 30, qos=qos)
    publish(node, 30, 40, qos=qos, together=False)
    assert sorted(drain(*members), key=int) == numbers(0, 40)
    check(node)


def test_a_member_that_is_away_hoards_nothing() -> None:
    """Nor does one whose window is full."""
    node = Node()
    away, slow, quick = (member(node, number, window=window) for number, window in enumerate((5, 2, 10)))
    away.lose()
    publish(node, 0, 20)
    got = quick.drain()
    assert len(slow.messages()) == 2
    assert len(got) == 18
    assert node.waiting == 2
    check(node)


def test_without_members_that_are_there_everything_waits() -> None:
    """In order, for whoever comes first; nothing is lost over a restart."""
    node = Node()
    for number in (0, 1):
        member(node, number).lose()
    publish(node, 0, 10)
    node.restart()
    before = node.waiting
    assert before == 10
    publish(node, 10, 12)
    assert durable(node, "m1", window=3).drain() == numbers(0, 12)
    check(node)


@POLICIES
def test_order_is_kept_where_the_policy_promises_it(policy: str) -> None:
    """One publisher and one topic: a full member is waited for, or the next one goes on."""
    node = Node(MqttSettings(shared_policy=policy))
    members = [member(node, number, window=2) for number in range(3)]
    publish(node, 0, 12)
    got = [[one.payload for one in client.messages()] for client in members]
    counts = sorted(len(part) for part in got)
    assert counts == ([0, 0, 2] if policy in ORDERED else [2, 2, 2])
    if policy in ORDERED:
        (chosen,) = [client for client, part in zip(members, got, strict=True) if part]
        chosen.ack(PUBACK, 1, 2)
        assert chosen.drain() == numbers(2, 12)
    else:
        for client in members[1:]:
            client.ack(PUBACK, 1, 2)
        assert sorted(drain(*members[1:]), key=int) == numbers(6, 12)


@pytest.mark.parametrize("phase", ["sent", "confirmed", "behind"])
def test_what_a_vanished_member_had_at_qos_1(phase: str) -> None:
    """[MQTT-4.8.2-4] It goes to the others at once, as new, before anything newer; what was confirmed does not."""
    node = Node()
    gone, other = member(node, 0, window=3), member(node, 1, window=3)
    publish(node, 0, 6, together=False)
    if phase == "behind":
        publish(node, 6, 10, together=False)
    had = [one.payload for one in gone.messages()]
    assert had == [b"0", b"2", b"4"]
    if phase == "confirmed":
        gone.ack(PUBACK, 2)
    gone.lose()
    rest = [one for one in had if phase != "confirmed" or one != b"2"]
    first = other.messages()
    assert [one.payload for one in first] == [b"1", b"3", b"5"]
    other.ack(PUBACK, *(one.packet_id for one in first))
    later = other.messages()
    assert [one.payload for one in later[: len(rest)]] == rest
    assert not any(one.dup for one in later)
    other.ack(PUBACK, *(one.packet_id for one in later))
    assert other.drain() == (numbers(6, 10) if phase == "behind" else [])
    assert durable(node, "m0").drain() == []
    assert node.waiting == 0
    check(node)


@pytest.mark.parametrize("restarted", [False, True], ids=["vanishes", "restart"])
@pytest.mark.parametrize("phase", ["sent", "received", "over"])
def test_what_a_vanished_member_had_at_qos_2(phase: str, restarted: bool) -> None:
    """[MQTT-4.8.2-4] An exchange that has begun waits for its member, whoever else is there."""
    node = Node()
    one = member(node, 0, 2)
    node.connect("writer").publish("t", b"x", qos=2)
    assert [message.packet_id for message in one.messages()] == [1]
    if phase != "sent":
        one.ack(PUBREC, 1)
    if phase == "over":
        one.ack(PUBCOMP, 1)
    if restarted:
        node.restart()
    else:
        one.lose()
    assert member(node, 1, 2).drain() == []
    back = durable(node, "m0")
    answers = [(packet.type, getattr(packet, "dup", None)) for packet in back.read()]
    publish_type = PacketType.PUBLISH
    assert answers == {"sent": [(publish_type, True)], "received": [(PUBREL, None)], "over": []}[phase]
    back.drain()
    assert node.waiting == 0
    assert node.records(CacheName.SEGMENTS, CacheName.SHARES, CacheName.PUBREL) == 0


@pytest.mark.parametrize("written", [None, False, True], ids=["vanishes", "restart", "restart, written"])
def test_what_had_not_left_when_its_member_vanished(written: bool | None) -> None:
    """It goes to the others; after a restart nobody knows whether it had left, so it waits."""
    node = Node()
    one = member(node, 0, 2)
    node.hold()
    node.connect("writer").publish("t", b"x", qos=2)
    if written is None:
        one.lose()
        node.release()
    else:
        node.restart(written=written)
    assert member(node, 1, 2).drain() == ([b"x"] if written is None else [])
    assert durable(node, "m0").drain() == ([b"x"] if written else [])
    assert node.waiting == 0


def test_what_comes_back_during_a_read_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What that read brings was published later."""
    node = Node(log_settings=NO_PAGES)
    gone, other = member(node, 0, window=2), member(node, 1, window=2)
    publish(node, 0, 8)
    had = gone.messages()
    assert len(other.messages()) == 2
    slow: Deferred[None] = Deferred()
    get_many = node.grid.get_many

    async def later(cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        await slow
        return await get_many(cache, keys)

    monkeypatch.setattr(node.grid, "get_many", later)
    other.ack(PUBACK, 1, 2)
    gone.lose()
    assert other.messages() == []
    slow.callback(None)
    node.turn()
    assert [one.payload for one in other.messages()] == [one.payload for one in had]


@QOS
def test_a_session_that_ends_in_mid_flow(qos: int) -> None:
    """[MQTT-4.8.2-5] [MQTT-4.8.2-6] At QoS 1 others get what it had; a QoS 2 exchange that began ends with it."""
    node = Node()
    gone, other = member(node, 0, qos, window=2), member(node, 1, qos, window=2)
    publish(node, 0, 8, qos=qos)
    had = [one.payload for one in gone.messages()]
    assert len(had) == 2
    gone.disconnect(session_expiry_interval=0)
    got = other.drain()
    assert Counter(got) == Counter(numbers(0, 8) if qos == 1 else [n for n in numbers(0, 8) if n not in had])
    assert node.dropped() == ({} if qos == 1 else {Drop.SESSION_ENDED: 2})
    assert node.records(CacheName.SEGMENTS, CacheName.SHARES) == 0
    check(node)


@QOS
def test_two_of_three_die_and_the_third_gets_everything(qos: int) -> None:
    """In mid flow, at different moments; at QoS 2 nothing twice."""
    node = Node()
    members = [member(node, number, qos, window=4) for number in range(3)]
    got: Counter[bytes] = Counter()
    publish(node, 0, 20, qos=qos)
    for dying in members[:2]:
        first = dying.messages()
        got.update(one.payload for one in first[:2])
        for kind in (PUBACK,) if qos == 1 else (PUBREC, PUBCOMP):
            dying.ack(kind, *(one.packet_id for one in first[:2]))
        dying.lose()
        publish(node, 20 + 5 * len(got), 25 + 5 * len(got), qos=qos)
    if qos == 2:
        # Two exchanges each had begun; they wait for their members.
        for number in (0, 1):
            got.update(durable(node, f"m{number}", window=4).drain())
    got.update(members[2].drain())
    assert all(count == 1 for count in got.values())
    assert len(got) == 30
    assert node.waiting == 0
    check(node)


@QOS
def test_a_restart_with_messages_under_way(qos: int) -> None:
    """QoS 1: the group's again; QoS 2: the member goes on under the same ids. Nothing is missing."""
    node = Node()
    members = [member(node, number, qos, window=3) for number in range(2)]
    publish(node, 0, 10, qos=qos)
    had = [[(one.packet_id, one.payload) for one in client.messages()] for client in members]
    node.restart()
    before = node.waiting
    assert before == 10
    back = [durable(node, f"m{number}", window=3) for number in range(2)]
    if qos == 2:
        for client, old in zip(back, had, strict=True):
            again = [(one.packet_id, one.payload) for one in client.read() if isinstance(one, Publish) and one.dup]
            assert again == old
    assert sorted(drain(*back), key=int) == numbers(0, 10)
    check(node)
    assert node.records(CacheName.SHARES, CacheName.SEGMENTS) == 0


@QOS
def test_an_ephemeral_member_over_a_restart(qos: int) -> None:
    """What it had was acknowledged to its publisher: the group has it again."""
    node = Node()
    kept = member(node, 0, qos, window=3)
    ephemeral = node.connect("ephemeral", receive_maximum=3)
    ephemeral.subscribe(FILTER, qos=qos)
    publish(node, 0, 6, qos=qos)
    had = [one.payload for one in ephemeral.messages()]
    assert len(had) == 3
    assert kept.drain()
    node.restart()
    assert durable(node, "m0").drain() == had
    check(node)


def test_a_member_at_qos_0_takes_its_share_and_nothing_twice() -> None:
    """What it was given is over, also when the node restarts then."""
    node = Node()
    zero, one = member(node, 0, 0), member(node, 1, 1)
    publish(node, 0, 6, together=False)
    got = zero.payloads()
    assert len(got) == 3
    one.lose()
    publish(node, 6, 8, together=False)
    got += zero.payloads()
    node.restart()
    got += durable(node, "m1").drain()
    assert sorted(got, key=int) == numbers(0, 8)


@pytest.mark.parametrize("leaves", ["unsubscribes", "ends"])
def test_the_last_member_leaves(leaves: str) -> None:
    """The group is no more: what waits is counted, and nothing of it stays in the grid."""
    node = Node()
    last = member(node, 0, window=2)
    publish(node, 0, 5)
    if leaves == "ends":
        last.disconnect(session_expiry_interval=0)
        assert node.dropped() == {Drop.NO_SHARED_MEMBER: 5}
    else:
        last.unsubscribe(FILTER)
        assert node.dropped() == {Drop.NO_SHARED_MEMBER: 3}
        assert last.drain() == numbers(0, 2)
    assert node.records(CacheName.GROUPS, CacheName.SHARES, CacheName.SEGMENTS) == 0
    check(node)
    publish(node, 5, 6)
    assert node.waiting == 0


@QOS
@pytest.mark.parametrize("restarted", [False, True], ids=["reconnect", "restart"])
def test_what_the_last_member_has_under_way_is_completed(qos: int, restarted: bool) -> None:
    """[MQTT-3.10.4-3] The group is gone, and the client comes back for it."""
    node = Node()
    last = member(node, 0, qos, window=2)
    publish(node, 0, 3, qos=qos)
    last.unsubscribe(FILTER)
    before = 0
    if restarted:
        node.restart()
        before = node.waiting
        assert before == 2
    else:
        last.lose()
    last = durable(node, "m0", window=2)
    again = [(one.packet_id, one.dup) for one in last.read() if isinstance(one, Publish)]
    assert again == [(1, True), (2, True)]
    assert last.drain() == numbers(0, 2)
    check(node)


def test_a_member_that_leaves_while_others_stay() -> None:
    """What it has it may finish; when it vanishes instead, the others get that."""
    node = Node()
    leaving, staying = member(node, 0, window=2), member(node, 1, window=9)
    publish(node, 0, 4, together=False)
    leaving.unsubscribe(FILTER)
    publish(node, 4, 6, together=False)
    assert leaving.payloads() == [b"0", b"2"]
    leaving.ack(PUBACK, 1)
    leaving.lose()
    assert sorted(staying.drain(), key=int) == [b"1", b"2", b"3", b"4", b"5"]
    assert durable(node, "m0").drain() == []
    check(node)


def test_retention_takes_what_was_returned_and_what_waits() -> None:
    """Counted, and the group goes on."""
    node = Node(log_settings=SHORT)
    one = member(node, 0, window=2)
    publish(node, 0, 5)
    one.lose()
    forget_old(node)
    publish(node, 5, 7)
    assert durable(node, "m0").drain() == numbers(5, 7)
    assert node.dropped() == {Drop.RETENTION: 5}
    check(node)


def test_a_group_that_is_gone_is_freed_without_the_collector() -> None:
    """Also where its last member had messages under way: what is old is collected rarely, and then all at once."""

    def groups() -> int:
        return sum(isinstance(one, GroupCursor) and one.filter == "$share/freed/t" for one in gc.get_objects())

    node = Node()
    client = durable(node, "m", 2)
    client.subscribe("$share/freed/t", qos=1)
    publish(node, 0, 10)
    gc.disable()
    try:
        assert groups() == 1
        assert len(client.payloads()) == 2
        client.lose()
        node.connect("m", clean=True).disconnect()
        node.clients.clear()
        assert groups() == 0
    finally:
        gc.enable()


def test_a_member_of_qos_0_learns_how_much_time_is_left() -> None:
    """[MQTT-3.3.2-6] Of what the group had to wait with until somebody came."""
    node = Node()
    member(node, 0).lose()
    node.connect("writer").publish("t", b"x", qos=1, message_expiry_interval=60)
    node.advance(10.4)
    reader = node.connect("reader")
    reader.subscribe(FILTER, qos=0)
    (message,) = reader.messages()
    assert message.properties.message_expiry_interval == 49


def sent_to(client: Client) -> list[tuple[bytes, int, bool]]:
    """What came to a client that confirms nothing: with its id, and whether with DUP."""
    return [(one.payload, one.packet_id, one.dup) for one in client.messages()]


def test_what_comes_to_the_same_member_again_has_dup_and_its_id() -> None:
    """[MQTT-4.4.0-1] [MQTT-3.3.1-1] Nobody else has taken it meanwhile; what had not left has no DUP."""
    node = Node()
    first = member(node, 0, window=3)
    publish(node, 0, 5)
    assert sent_to(first) == [(b"0", 1, False), (b"1", 2, False), (b"2", 3, False)]
    first.ack(PUBACK, 1)
    assert sent_to(first) == [(b"3", 4, False)]
    for _ in range(2):
        first.lose()
        first = durable(node, "m0", window=3)
        assert sent_to(first) == [(b"1", 2, True), (b"2", 3, True), (b"3", 4, True)]
    first.lose()
    first = durable(node, "m0", window=1)
    for payload, packet_id in ((b"1", 2), (b"2", 3), (b"3", 4)):
        assert sent_to(first) == [(payload, packet_id, True)]
        first.ack(PUBACK, packet_id)
    assert sent_to(first) == [(b"4", 5, False)]
    first.ack(PUBACK, 5)
    check(node)


def test_others_get_it_without_dup_and_the_same_member_with_it() -> None:
    """Also when it was with another one in between."""
    node = Node()
    first, other = member(node, 0), member(node, 1)
    other.lose()
    publish(node, 0, 2)
    assert sent_to(first) == [(b"0", 1, False), (b"1", 2, False)]
    first.lose()
    other = durable(node, "m1")
    assert sent_to(other) == [(b"0", 1, False), (b"1", 2, False)]
    other.lose()
    first = durable(node, "m0")
    assert sent_to(first) == [(b"0", 1, True), (b"1", 2, True)]
    first.ack(PUBACK, 1, 2)
    assert node.waiting == 0
    check(node)


def test_an_id_that_is_in_use_is_not_given_twice() -> None:
    """The message has a new one then, and DUP."""
    node = Node()
    first = member(node, 0)
    publish(node, 0, 2)
    first.messages()
    first.lose()
    outbound = node.session("m0").outbound
    outbound.entries[2] = SENT_QOS1
    first = durable(node, "m0")
    assert sent_to(first) == [(b"0", 3, True), (b"1", 4, True)]


def test_after_a_restart_nobody_knows_who_had_it() -> None:
    """So it has DUP, whoever gets it."""
    node = Node()
    first = member(node, 0)
    publish(node, 0, 2)
    first.messages()
    node.restart()
    assert [(payload, dup) for payload, _, dup in sent_to(durable(node, "m0"))] == [(b"0", True), (b"1", True)]


def test_who_had_what_is_forgotten_when_it_is_over() -> None:
    """Neither the group nor the session remembers more than may come again."""
    node = Node()
    first = member(node, 0, window=5)
    (cursor,) = node.broker.readers.groups
    for round in range(20):
        publish(node, round * 5, round * 5 + 5)
        first.messages()
        first.lose()
        first = durable(node, "m0", window=5)
        assert len(cursor.had) == 5
        assert len(first.drain()) == 5
    ids = node.broker.readers.groups._ids._by_client
    assert not ids
    publish(node, 100, 110)
    first.messages()
    first.lose()
    assert len(ids["m0"]) == 5
    durable(node, "m0").disconnect(session_expiry_interval=0)
    assert not ids


def test_what_had_not_left_comes_without_dup() -> None:
    """It waited for its commit when the member lost its connection."""
    node = Node()
    first = member(node, 0)
    node.hold()
    node.connect("writer").publish("t", b"x", qos=1)
    first.lose()
    node.release()
    assert sent_to(durable(node, "m0")) == [(b"x", 2, False)]
