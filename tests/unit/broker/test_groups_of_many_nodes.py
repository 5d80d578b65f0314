"""Durable groups whose members are on several nodes: each message to one of them, whatever dies.

``GROUP_WALKS`` sets how many random walks are taken of either kind.
"""

from __future__ import annotations

import os

import pytest

from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Unsubscribe
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.endings import SESSION_EXPIRED
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.ports.log import Reference
from tests.seeds import seeds_of
from tests.simulation import brokers
from tests.simulation.clients import Subscriber
from tests.unit.broker.groupworld import FILTER, GroupWorld, Walk

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

QOS = pytest.mark.parametrize("qos", [1, 2])
WALKS = int(os.environ.get("GROUP_WALKS", "20"))
SHARES = (CacheName.SHARES, CacheName.SEGMENTS)


@QOS
def test_each_message_goes_to_one_member_on_any_node(qos: int) -> None:
    """Published on a node that has no member; then nothing is out, and nothing is kept of it."""
    world = GroupWorld()
    one, two = world.enter("m1", "b", qos=qos), world.enter("m2", "c", qos=qos)
    sent = world.publish("a", 20, qos)
    world.settle()
    assert sorted(one.got + two.got) == sorted(sent)
    assert len(one.got) == len(two.got) == 10
    world.wait(2.0)
    assert world.out() == 0
    assert not world.records(*SHARES)


@QOS
def test_members_that_are_away_hoard_nothing(qos: int) -> None:
    """All of it waits, for whoever comes first, wherever that is."""
    world = GroupWorld()
    one, two = world.enter("m1", "b", qos=qos), world.enter("m2", "c", qos=qos)
    one.leave()
    two.leave()
    world.wait(0.5)
    sent = world.publish("a", 30, qos)
    world.connect(two, "b")
    world.settle()
    assert two.got == sent and not one.got


@QOS
def test_a_full_member_takes_what_it_has_room_for(qos: int) -> None:
    """The other one gets the rest; the full one is remembered until it has room."""
    world = GroupWorld()
    slow, quick = world.enter("slow", "b", window=3, qos=qos), world.enter("quick", "c", qos=qos)
    slow.slow = True
    sent = world.publish("a", 40, qos)
    world.wait(2.0)
    assert len(slow.got) == 3 and len(quick.got) == 37
    slow.confirm()
    world.wait(0.5)
    more = world.publish("a", 6, qos)
    world.settle()
    assert sorted(slow.got + quick.got) == sorted(sent + more)
    assert len(slow.got) > 3


def test_what_a_vanished_member_had_at_qos_1() -> None:
    """It goes to the other one at once, before what is newer."""
    world = GroupWorld()
    gone, other = world.enter("m1", "b", window=4), world.enter("m2", "c", window=4)
    gone.slow = other.slow = True
    sent = world.publish("a", 12)
    world.wait(1.0)
    had = list(gone.got)
    assert len(had) == 4
    gone.leave()
    world.wait(0.5)
    other.confirm()
    world.wait(1.0)
    world.settle()
    assert sorted(other.got) == sorted(sent)
    assert other.got[4:8] == had


def test_what_a_vanished_member_had_begun_at_qos_2_waits_for_it() -> None:
    """[MQTT-4.8.2-4] It goes on with it at another node, and nobody else gets it."""
    world = GroupWorld()
    gone, other = world.enter("m1", "b", window=4), world.enter("m2", "c", window=4)
    gone.slow = True
    sent = world.publish("a", 12, 2)
    world.wait(1.0)
    had = list(gone.got)
    gone.leave()
    world.wait(8.0)
    assert sorted(other.got) == sorted(set(sent) - set(had))
    gone.confirm()
    world.connect(gone, "c")
    world.wait(3.0)
    assert world.came().most_common(1)[0][1] == 1
    assert world.out() == 0
    assert not world.records(*SHARES)


@QOS
@pytest.mark.parametrize("adopted", [False, True])
def test_two_of_three_members_die_with_their_nodes(qos: int, adopted: bool) -> None:
    """What they had is not lost; what was begun at QoS 2 comes to nobody else."""
    world = GroupWorld(names="abcd")
    members = [world.enter(f"m{name}", name, window=4, qos=qos) for name in "bcd"]
    members[0].slow = members[1].slow = True
    sent = world.publish("a", 30, qos)
    world.wait(1.0)
    assert len(members[0].got) == len(members[1].got) == 4
    world.kill("b")
    world.kill("c")
    if adopted:
        world.wait(25.0)
    members[0].confirm()
    members[1].confirm()
    more = world.publish("a", 10, qos)
    for member in members[:2]:
        world.connect(member, "a") if adopted else None
    if not adopted:
        world.start("b")
        world.start("c")
        assert world.until(lambda: len(world.running) == 4, 30.0)
        for member, name in zip(members, "cb", strict=False):
            world.connect(member, name)
    world.settle()
    world.wait(8.0)
    assert set(world.came()) == set(sent + more)
    if qos == 2:
        assert set(world.came().values()) == {1}
    assert world.out() == 0
    assert not world.records(*SHARES)


@QOS
@pytest.mark.parametrize("back", ["soon", "adopted", "adopted, then back"])
def test_the_node_that_gives_out_dies(qos: int, back: str) -> None:
    """It goes on where it was when it is back, or who adopts it does; then it has its own again."""
    world = GroupWorld()
    one, two = world.enter("m1", "b", window=3, qos=qos), world.enter("m2", "c", window=3, qos=qos)
    one.slow = two.slow = True
    sent = world.publish("a", 20, qos)
    world.wait(1.0)
    world.publisher.leave()
    place = world.lives["a"].place
    assert place is not None
    number = place.number
    world.kill("a")
    if back == "soon":
        world.wait(0.5)
        world.start("a")
    else:
        world.wait(25.0)
        assert world.givers(number) == 1
    one.confirm()
    two.confirm()
    if back != "adopted, then back":
        world.settle()
    else:
        world.start("a")
    if back != "adopted":
        assert world.until(lambda: len(world.running) == 3, 30.0)
        sent += world.publish("a", 10, qos)
    world.settle()
    world.wait(8.0)
    assert set(world.came()) == set(sent)
    if qos == 2:
        assert set(world.came().values()) == {1}
    assert world.out() == 0
    assert not world.records(*SHARES)


def test_what_a_member_still_has_it_is_not_given_again() -> None:
    """Its node knows what it has when the one that gives out has forgotten whom it gave it to."""
    world = GroupWorld()
    only = world.enter("m1", "b", window=3)
    only.slow = True
    sent = world.publish("a", 5)
    world.wait(1.0)
    had = list(only.got)
    world.publisher.leave()
    world.kill("a")
    world.start("a")
    world.wait(8.0)
    assert only.got == had
    only.confirm()
    world.settle()
    assert only.got == sent


@pytest.mark.parametrize("release", ["this", "earlier"])
def test_an_answer_counts_for_what_was_out_when_its_question_was_asked(release: str) -> None:
    """It may come when the same message is out anew. Earlier releases do not name the question."""
    world = GroupWorld(names="ab")
    world.enter("m1", "b").slow = True
    world.publish("a", 1, 2)
    leader, there = world.lives["a"].broker, world.lives["b"].place
    assert leader is not None and there is not None
    (lease,) = [one for cursor in leader.readers.groups.parts() for one in cursor.leases["m1"]]
    word = there.number, "returned", lease.origin.name, "m1", lease.left
    leader.readers.groups.told(*word, lease.after)
    assert lease.left
    leader.readers.groups.told(*word, lease.after + 1 if release == "this" else 0)
    assert not lease.left


def test_an_answer_names_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it says; what is said unasked names none."""
    world = GroupWorld(names="ab")
    has = world.enter("m1", "b")
    has.slow = True
    world.publish("a", 1, 2)
    leader, there = world.lives["a"], world.lives["b"]
    assert leader.broker is not None and leader.place is not None and there.broker is not None
    (lease,) = [one for cursor in leader.broker.readers.groups.parts() for one in cursor.leases["m1"]]
    said: list[tuple[str, str, int]] = []

    def tell_group(peer: int, kind: str, name: str, client_id: str, references: object, question: int) -> None:
        said.append((kind, client_id, question))

    monkeypatch.setattr(there.cluster, "tell_group", tell_group)
    (known,) = lease.left
    unknown = known._replace(position=known.position + 1)
    there.broker.readers.groups.told(leader.place.number, "ask", lease.origin.name, "m1", [known, unknown], 7)
    there.broker.readers.groups.told(leader.place.number, "ask", lease.origin.name, "m9", [known], 8)
    world.wait(0.5)
    assert said == [("held", "m1", 7), ("returned", "m1", 7), ("unknown", "m9", 8)]
    has.confirm()
    world.wait(0.5)
    assert said[3:] == [("done", "m1", 0)]


def test_words_of_an_adopter_may_be_late() -> None:
    """The node that writes a log gives it out again, and has said so: whoever had adopted it meanwhile does not. That
    holds as long as it lives.
    """
    world = GroupWorld()
    member = world.enter("m1", "c")
    (first,) = world.publish("a", 1, 2)
    world.wait(1.0)
    assert member.got == [first]
    lives = [world.lives[name] for name in "abc"]
    writer, adopter, _ = [life.place.number for life in lives if life.place is not None]
    broker = lives[2].broker
    assert broker is not None
    part = f"\0{chr(writer)}{FILTER}"
    reference = Reference(1, 0, 5, 1)
    said: list[tuple[int, str]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lives[2].cluster, "tell_group", lambda peer, kind, *_: said.append((peer, kind)))
        broker.readers.groups.told(adopter, "gives", f"\0{chr(writer)}", "", [], 0)
        broker.readers.groups.told(adopter, "ask", part, "m1", [reference], 7)
        world.wait(0.2)
        assert said == []
        broker.readers.groups.node_gone(writer)
        broker.readers.groups.told(adopter, "ask", part, "m1", [reference], 8)
        world.wait(0.2)
        assert said == [(adopter, "returned")]


def test_a_peer_that_is_not_heard_for_a_while() -> None:
    """What its members had at QoS 1 goes to others; they go on at QoS 2."""
    world = GroupWorld()
    parted, other = world.enter("m1", "b", window=4), world.enter("m2", "c", window=4)
    parted.slow = other.slow = True
    first = world.publish("a", 4, 1)
    second = world.publish("a", 4, 2)
    world.wait(1.0)
    world.network.part("a", "b")
    world.wait(3.0)
    other.confirm()
    world.wait(1.0)
    assert set(first) <= set(other.got)
    parted.confirm()
    world.wait(1.0)
    world.network.heal()
    world.wait(10.0)
    world.settle()
    assert all(world.came()[name] == 1 for name in second)
    world.wait(2.0)
    assert world.out() == 0


@pytest.mark.parametrize("seed", range(4))
def test_room_of_a_member_is_for_all_parts_of_its_group(seed: int) -> None:
    """What a dead node's log has for it waited when it was full with what another log has."""
    world = GroupWorld(seed)
    member = world.enter("m", "c", window=2)
    member.slow = True
    for node in "ba":
        world.publish(node, 4)
        world.wait(1.0)
    world.publisher.leave()
    world.kill("a")
    place = world.lives["a"].place
    assert place is not None
    assert world.until(lambda: world.givers(place.number) == 1, 40.0)
    world.wait(8.0)
    world.settle()


@QOS
def test_a_member_moves_to_the_node_that_gives_out_and_away(qos: int) -> None:
    """What it has begun it has wherever it is."""
    world = GroupWorld()
    roamer = world.enter("m1", "b", window=5, qos=qos)
    sent: list[bytes] = []
    for node in "abcaab":
        roamer.slow = True
        sent += world.publish("a", 8, qos)
        world.wait(0.5)
        roamer.slow = False
        roamer.kept_back.clear()
        world.connect(roamer, node)
        world.wait(1.0)
    world.settle()
    world.wait(8.0)
    assert set(roamer.got) == set(sent)
    if qos == 2:
        assert len(roamer.got) == len(sent)
    assert world.out() == 0
    assert not world.records(*SHARES)


def start_all_again(world: GroupWorld, wait: float) -> None:
    """All nodes are killed, and begin together after a while."""
    for name in world.names:
        world.kill(name)
    world.wait(wait)
    for name in world.names:
        world.again(name)
    assert world.until(lambda: len(world.running) == len(world.names), 20.0)


@pytest.mark.parametrize("wait", [0.5, 6.0, 20.0])
def test_what_a_node_that_is_gone_for_good_recorded_outlives_its_adopter(wait: float) -> None:
    """Those who are left start again, before it is adopted, after that, and when it was cleaned up after."""
    world = GroupWorld()
    member = world.enter("m1", "a")
    member.leave()
    sent = world.publish("b", 10)
    world.publisher.leave()
    world.names = ("a", "c")
    world.gone.add("b")
    world.kill("b")
    world.wait(wait)
    start_all_again(world, 1.0)
    world.connect(member, "c")
    world.settle()
    assert set(member.got) == set(sent)


@pytest.mark.parametrize("node", ["a", "c"])
def test_a_start_of_all_nodes_at_once_takes_nothing_from_a_group(node: str) -> None:
    """What its members want is known from the first word of the node that has their sessions."""
    world = GroupWorld(names="ac")
    member = world.enter("m1", "a")
    member.leave()
    sent = world.publish(node, 10)
    world.publisher.leave()
    start_all_again(world, 2.0)
    world.connect(member, "c")
    world.settle()
    assert set(member.got) == set(sent)


def test_a_new_group_gets_nothing_that_was_published_before() -> None:
    """From nodes that are there, that are away when it begins, and that come later."""
    world = GroupWorld()
    other = Subscriber(world, "other")
    world.clients.append(other)
    world.connect(other, "a")
    other.subscribe(("t/#", 2))
    world.wait(0.5)
    for node in "abc":
        world.publish(node, 5)
    world.publisher.leave()
    world.kill("b")
    world.wait(8.0)
    member = world.enter("m1", "c")
    world.again("b")
    assert world.until(lambda: len(world.running) == 3, 20.0)
    world.wait(3.0)
    new = [name for node in "abc" for name in world.publish(node, 2)]
    assert world.until(lambda: len(member.got) >= len(new), 20.0)
    world.wait(3.0)
    assert sorted(member.got) == sorted(new)


def test_a_group_that_nobody_keeps_is_no_more() -> None:
    """Its records are gone, on every node that had any."""
    world = GroupWorld()
    member = world.enter("m1", "b")
    for node in "abc":
        world.publish(node, 3)
    world.settle()
    assert len(world.records(CacheName.GROUPS)) == 3
    member.send(Unsubscribe(member.next_id(), (FILTER,)))
    world.wait(2.0)
    assert not world.records(CacheName.GROUPS, *SHARES)


def test_a_group_whose_last_session_ends_is_no_more() -> None:
    """On its own node, too: what stayed there would be in the way of the next one of that name."""
    world = GroupWorld(names="ab")
    world.enter("m1", "a")
    world.publish("b", 3)
    world.settle()
    broker = world.lives["a"].broker
    assert broker is not None
    session = broker.sessions.get("m1")
    assert session is not None
    broker.lifecycle.ending.end(session, ReasonCode.SUCCESS, SESSION_EXPIRED)
    world.wait(1.0)
    assert not broker.readers.groups.parts()
    assert not world.records(CacheName.GROUPS, *SHARES)


@pytest.mark.parametrize("policy", ["round_robin", "least_inflight", "sticky", "hash_client", "hash_topic"])
def test_policies_keep_their_promises(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One publisher and one topic: in order to one member, however slow it is; or to whoever has room."""
    monkeypatch.setattr(brokers, "SETTINGS", MqttSettings(shared_policy=policy))
    world = GroupWorld()
    members = [world.enter(f"m{node}", node, window=4) for node in "abc"]
    for member in members:
        member.slow = True
    sent = world.publish("a", 30)
    world.wait(1.0)
    counts = sorted(len(member.got) for member in members)
    assert counts == ([4, 4, 4] if policy in ("round_robin", "least_inflight") else [0, 0, 4])
    world.settle()
    if policy not in ("round_robin", "least_inflight"):
        assert [member.got for member in members if member.got] == [sent]


@pytest.mark.parametrize("seed", seeds_of("members", WALKS))
def test_members_come_and_go(seed: int) -> None:
    """On any node, again and again: everything comes, and what is of QoS 2 once, to anybody."""
    Walk(seed, troubled=False).run()


@pytest.mark.parametrize("seed", seeds_of("nodes and members", WALKS))
def test_nodes_come_and_go_as_well(seed: int) -> None:
    """Killed, parted, back: everything comes, and what is of QoS 2 never twice to one client."""
    Walk(seed, troubled=True).run()
