"""The links of whole nodes on a simulated network: who is told what, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from iot_mqtt.cluster.links import (
    Condition,
    Item,
    Link,
    LinkError,
    Links,
    LinkSettings,
    Reply,
    Request,
    RoutesAck,
    items_v1,
    proto_v1,
)
from iot_mqtt.cluster.links.values import Head, Heartbeat
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.log import Reference
from tests.simulation.messaging import Weather
from tests.unit.cluster.links.linkskit import Cluster, member, numbered, publishes

SETTINGS = LinkSettings()


def ready(count: int = 2, settings: LinkSettings = SETTINGS) -> Cluster:
    """Nodes that hear each other."""
    cluster = Cluster(count, settings)
    cluster.pass_time(0.2)
    for diary in cluster.diaries.values():
        diary.entries.clear()
    return cluster


def test_a_node_is_started_and_then_up() -> None:
    cluster = Cluster(2)
    cluster.pass_time(0.1)
    assert cluster.diaries[1].told("started", "up", "down") == [("started", 2), ("up", 2)]
    assert cluster.links[1].is_up(2) and not cluster.links[1].is_up(1) and not cluster.links[1].is_up(9)


def test_what_is_sent_in_a_turn_leaves_in_one_datagram_for_each_peer() -> None:
    cluster = ready(3)
    one = cluster.links[1]
    one.send(2, numbered(1))
    one.broadcast(numbered(2))
    one.send_to((3, 9), numbered(3))
    one.flush(5)
    cluster.pass_time(0.01)
    assert cluster.diaries[2].told("received") == [("received", 1, (numbered(1), numbered(2)), 5)]
    assert cluster.diaries[3].told("received") == [("received", 1, (numbered(2), numbered(3)), 5)]
    assert one.links[2].figures.datagrams_sent == 1


def test_nothing_can_be_sent_to_one_who_is_no_member() -> None:
    cluster = ready()
    assert not cluster.links[1].send(1, numbered(1))
    assert not cluster.links[1].send(7, numbered(1))
    cluster.links[1].members([member(1)])
    assert not cluster.links[1].send(2, numbered(1))
    assert cluster.links[1].peers == ()


def test_a_turn_that_brings_much_is_split_and_only_the_last_part_tells_the_new_end() -> None:
    cluster = ready(2, replace(SETTINGS, datagram_bytes=100))
    for number in range(6):
        cluster.links[1].send(2, numbered(number))
    cluster.links[1].flush(9)
    cluster.pass_time(0.01)
    told = cluster.diaries[2].told("received")
    assert [len(items) for _, _, items, _ in told] == [3, 3]
    assert [end for *_, end in told] == [0, 9]


def test_a_long_run_is_divided() -> None:
    cluster = ready(2, replace(SETTINGS, datagram_bytes=1000))
    run = publishes(b"a/b", [b"%03d" % number + b"x" * 300 for number in range(10)], qos=1)
    cluster.links[1].send(2, Forwarded(run, b"a/b", "p", 1.0, Reference(1, 1, 100, 10)))
    cluster.links[1].flush(200)
    cluster.pass_time(0.01)
    items = [item for item in cluster.diaries[2].items(1) if isinstance(item, Forwarded)]
    assert [payload for item in items for payload in item.run.payloads()] == run.payloads()
    assert len(items) > 1 and all(len(item.run.wire) <= 1000 for item in items)
    assert [item.reference.position for item in items if item.reference] == [100, 102, 105, 107]


def test_many_runs_are_divided() -> None:
    cluster = ready(2, replace(SETTINGS, datagram_bytes=200))
    runs = tuple(publishes(b"t/%d" % number, [b"x" * 60]) for number in range(9))
    cluster.links[1].send(2, Forwarded(runs[0], b"t/0", "p", 1.0, more=runs[1:]))
    cluster.links[1].flush(1)
    cluster.pass_time(0.01)
    items = [item for item in cluster.diaries[2].items(1) if isinstance(item, Forwarded)]
    assert tuple(run for item in items for run in (item.run, *item.more)) == runs
    assert all(item.topic == item.run.topic for item in items) and len(items) == 5


def test_who_does_not_say_that_it_reads_several_runs_does_not_get_them() -> None:
    """A node of an earlier release, in the middle of an update."""
    link = Link(1, 1, 2, Condition(), SETTINGS, ManualClock().wall)
    link.meet(1, 0.0)
    head = Head(2, 1, 1, 1)
    for takes_more in (False, True):
        heartbeat = Heartbeat(1, 0, 1, takes_more=takes_more)
        link.receive(proto_v1.HEARTBEAT, head, proto_v1.write(head, heartbeat), 0.1)
        assert link.takes_more is takes_more
    link.meet(2, 0.2)
    assert not link.takes_more
    cluster = ready()
    assert cluster.links[1].takes_more(2)
    assert not cluster.links[1].takes_more(3)


def test_what_the_end_promises_is_never_ahead_of_what_was_sent() -> None:
    """Items that wait for the flush are not covered by a heartbeat in between."""
    cluster = ready()
    one, diary = cluster.links[1], cluster.diaries[2]
    one.flush(3)
    one.send(2, numbered(1))
    cluster.pass_time(1.0)
    assert max(entry[2] for entry in diary.told("end")) == 3
    one.flush(4)
    cluster.pass_time(1.0)
    assert max(entry[2] for entry in diary.told("end")) == 4


def test_the_end_moves_on_with_heartbeats_alone() -> None:
    cluster = ready()
    cluster.links[1].flush(17)
    cluster.pass_time(SETTINGS.heartbeat + 0.1)
    assert cluster.diaries[2].told("end")[-1] == ("end", 1, 17)


def test_heartbeats_tell_how_the_node_is() -> None:
    cluster = ready()
    condition = cluster.links[1].condition
    condition.routes_version, condition.routes_digest, condition.load, condition.draining = 7, 8, 0.25, True
    cluster.pass_time(SETTINGS.heartbeat + 0.1)
    heartbeat = cluster.diaries[2].told("heartbeat")[-1][2]
    assert isinstance(heartbeat, Heartbeat)
    assert (heartbeat.routes_version, heartbeat.routes_digest, heartbeat.load, heartbeat.draining) == (7, 8, 0.25, True)


def test_a_break_of_the_messaging_loses_nothing_that_the_ring_has() -> None:
    cluster = ready()
    one = cluster.links[1]
    cluster.ends[1].break_flow()
    for number in range(10):
        one.send(2, numbered(number))
        one.flush(0)
    assert one.links[2].figures.unsent >= 10
    cluster.pass_time(0.5)
    cluster.ends[1].restore_flow()
    cluster.pass_time(0.2)
    assert cluster.diaries[2].items(1) == [numbered(number) for number in range(10)]
    assert cluster.diaries[2].told("gap") == []


def test_who_has_nothing_to_do_looks_at_the_time_as_often_as_heartbeats_want_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And hardly more; heartbeats still come when they are due, and a hole is asked for as soon as ever."""
    looked: list[float] = []
    tick = Link.tick

    def look(link: Link, now: float) -> None:
        looked.append(now)
        tick(link, now)

    monkeypatch.setattr(Link, "tick", look)
    cluster = ready()
    cluster.pass_time(1.0)
    looked.clear()
    before = cluster.links[1].links[2].figures.datagrams_received
    cluster.pass_time(10.0)
    assert cluster.links[1].links[2].figures.datagrams_received - before >= 19
    assert len(looked) / 2 <= 60
    # One is lost while both rest, and the next shows that.
    cluster.ends[1].break_flow()
    cluster.links[1].send(2, numbered(1))
    cluster.links[1].flush(1)
    cluster.ends[1].restore_flow()
    cluster.pass_time(0.3)
    assert cluster.diaries[2].items(1) == [numbered(1)]


def test_a_peer_that_does_not_confirm_is_crowded_until_it_does() -> None:
    cluster = ready(2, replace(SETTINGS, crowded_bytes=1000))
    one = cluster.links[1]
    cluster.network.weather["n1", "n2"] = Weather(delay=(0.5, 0.5))
    for number in range(50):
        one.send(2, numbered(number))
    assert one.crowded(2)
    one.flush(0)
    assert one.crowded(2)
    cluster.pass_time(0.4)
    assert cluster.diaries[1].told("relieved") == []
    cluster.pass_time(0.5)
    assert cluster.diaries[1].told("relieved") == [("relieved", 2)]
    assert not one.crowded(2)


def test_a_peer_that_is_down_is_not_crowded() -> None:
    cluster = ready(2, replace(SETTINGS, crowded_bytes=1000))
    one = cluster.links[1]
    cluster.network.part("n1", "n2")
    for number in range(50):
        one.send(2, numbered(number))
    one.flush(0)
    assert one.crowded(2)
    cluster.pass_time(SETTINGS.silence + 0.5)
    assert cluster.diaries[1].told("relieved", "down") == [("down", 2), ("relieved", 2)]
    assert not one.crowded(2) and not one.crowded(9)


def test_messaging_that_holds_back_much_makes_everybody_crowded_and_keeps_the_rest_in_the_ring() -> None:
    cluster = ready(2, replace(SETTINGS, waiting_bytes=300, waiting_most=600))
    one = cluster.links[1]
    cluster.ends[1].stall()
    for number in range(30):
        one.send(2, numbered(number))
        one.flush(0)
    assert one.crowded(2)
    assert cluster.ends[1].waiting < 1000
    assert one.links[2].figures.withheld > 10
    cluster.ends[1].release()
    cluster.pass_time(1.0)
    assert cluster.diaries[2].items(1) == [numbered(number) for number in range(30)]


class Answers:
    """What requests came to."""

    def __init__(self) -> None:
        self.found: list[bytes | str] = []

    def __call__(self, answer: bytes | LinkError) -> None:
        self.found.append(answer if isinstance(answer, bytes) else str(answer))


def answering(links: Links, how: Callable[[int, Request], None]) -> Callable[[int, Sequence[Item]], None]:
    """What a diary does with requests."""

    def on_items(peer: int, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, Request):
                how(peer, item)
        links.flush(0)

    return on_items


def test_a_request_is_answered() -> None:
    cluster = ready()
    one, two = cluster.links[1], cluster.links[2]
    cluster.diaries[2].on_items = answering(two, lambda peer, request: two.reply(peer, request, request.body * 2))
    answers = Answers()
    one.request(2, "detach", b"ab", 1.0, answers)
    one.request(2, "detach", b"cd", 1.0, answers)
    one.flush(0)
    cluster.pass_time(2.0)
    assert answers.found == [b"abab", b"cdcd"]
    assert [item.name for item in cluster.diaries[2].items(1) if isinstance(item, Request)] == ["detach"] * 2
    assert cluster.diaries[1].items(2) == []


def test_a_request_is_refused() -> None:
    cluster = ready()
    two = cluster.links[2]
    cluster.diaries[2].on_items = answering(two, lambda peer, request: two.refuse(peer, request, "it is not here"))
    answers = Answers()
    cluster.links[1].request(2, "detach", b"", 1.0, answers)
    cluster.links[1].flush(0)
    cluster.pass_time(0.1)
    assert answers.found == ["it is not here"]


def test_a_request_that_nobody_answers_ends_in_time_and_an_answer_after_that_is_nothing() -> None:
    cluster = ready()
    two = cluster.links[2]
    answers = Answers()
    cluster.links[1].request(2, "detach", b"", 1.0, answers)
    cluster.links[1].flush(0)
    cluster.pass_time(0.95)
    assert answers.found == []
    cluster.pass_time(0.1)
    assert answers.found == ["a node (number 2) gave no answer in time"]
    (request,) = cluster.diaries[2].items(1)
    assert isinstance(request, Request)
    two.reply(1, request, b"late")
    two.flush(0)
    cluster.pass_time(0.1)
    assert len(answers.found) == 1


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            lambda cluster: cluster.links[1].members([member(2, 2)]),
            "a node (number 2) gave no answer: it has started anew",
        ),
        (lambda cluster: cluster.links[1].members([]), "a node (number 2) gave no answer: the node has left"),
        (lambda cluster: cluster.links[1].close(), "a node (number 2) gave no answer: the links are closed"),
    ],
    ids=["restart", "leave", "close"],
)
def test_a_request_ends_with_the_life_that_was_asked(step: Callable[[Cluster], None], reason: str) -> None:
    cluster = ready()
    answers = Answers()
    cluster.links[1].request(2, "detach", b"", 60.0, answers)
    cluster.links[1].flush(0)
    step(cluster)
    assert answers.found == [reason]


def test_an_answer_to_an_earlier_life_is_none_to_what_this_one_asks() -> None:
    """It had stood still with a question of the earlier life; that one's and this one's are both the first."""
    cluster = ready()
    cluster.links[1].request(2, "detach", b"of before", 60.0, Answers())
    cluster.links[1].flush(0)
    cluster.pass_time(0.1)
    one, two = cluster.start(1), cluster.links[2]
    cluster.announce()
    cluster.pass_time(2.0)
    answers = Answers()
    one.request(2, "detach", b"now", 60.0, answers)
    one.flush(0)
    cluster.pass_time(0.1)
    before, now = [item for item in cluster.diaries[2].items(1) if isinstance(item, Request)]
    two.reply(1, before, before.body)
    two.flush(0)
    cluster.pass_time(0.1)
    assert answers.found == []
    two.reply(1, now, now.body)
    two.flush(0)
    cluster.pass_time(0.1)
    assert answers.found == [b"now"]


def test_a_request_to_one_who_is_no_member_ends_at_once() -> None:
    answers = Answers()
    ready().links[1].request(9, "detach", b"", 1.0, answers)
    assert answers.found == ["a node (number 9) is not a member"]


def test_an_answer_comes_behind_everything_that_came_with_it() -> None:
    cluster = ready()
    diary = cluster.diaries[1]
    cluster.links[1].request(2, "ask", b"", 1.0, lambda answer: diary.entries.append(("answer", answer)))
    two = cluster.links[2]
    cluster.links[1].flush(0)
    cluster.pass_time(0.01)
    (request,) = cluster.diaries[2].items(1)
    assert isinstance(request, Request)
    two.send(1, numbered(1))
    two.send(1, Reply(request.id, b"yes"))
    two.send(1, numbered(2))
    two.flush(8)
    cluster.pass_time(0.01)
    assert diary.told("received", "answer") == [
        ("received", 2, (numbered(1), numbered(2)), 8),
        ("answer", b"yes"),
    ]


def test_items_of_an_unknown_kind_are_counted_and_left_out() -> None:
    cluster = ready()
    later = b"\x63\x00\x00\x00\x01\x00"
    written = [later, items_v1.write_item(RoutesAck(1)), later]
    cluster.ends[1].send("iot.node.2", proto_v1.write_data(Head(1, 1, 2, 1), 1, 4, written))
    cluster.pass_time(0.01)
    assert cluster.diaries[2].told("received", "end")[:1] == [("received", 1, (RoutesAck(1),), 4)]
    assert cluster.links[2].links[1].figures.unknown_items == 2


def test_a_restart_is_told_and_what_waited_for_the_earlier_life_is_gone() -> None:
    cluster = ready()
    one = cluster.links[1]
    one.send(2, numbered(1))
    cluster.start(2)
    cluster.announce()
    one.send(2, numbered(2))
    one.flush(0)
    cluster.pass_time(0.5)
    assert cluster.diaries[1].told("started") == [("started", 2)]
    assert cluster.diaries[2].items(1) == [numbered(2)]


def test_what_the_owner_does_while_it_is_told_comes_after_what_it_is_being_told() -> None:
    cluster = ready()
    diary = cluster.diaries[2]
    diary.on_items = lambda *_: cluster.links[2].members([])
    cluster.links[1].send(2, numbered(1))
    cluster.links[1].flush(0)
    cluster.pass_time(0.2)
    assert [entry[0] for entry in diary.told("received", "down")] == ["received", "down"]


def test_strangers_and_rubbish_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """And said once: a node of another release would say it for ever."""
    cluster = ready()
    end, two = cluster.ends[1], cluster.links[2]
    for payload in (
        b"",
        b"\x02" * 40,
        proto_v1.write(Head(9, 1, 2, 1), Heartbeat(1, 0, 1)),
        proto_v1.write(Head(1, 1, 3, 1), Heartbeat(1, 0, 1)),
    ):
        end.send("iot.node.2", payload)
    cluster.pass_time(0.01)
    assert (two.malformed, two.strangers) == (2, 2)
    end.send("iot.node.2", b"\x02" * 40)
    cluster.pass_time(0.01)
    assert caplog.text.count("link protocol version 2; this node speaks 1") == 1


def test_a_member_that_speaks_no_version_of_ours_is_named_and_not_linked() -> None:
    cluster = ready()
    cluster.links[1].members([member(1), member(2, protocols=(2, 3))])
    assert cluster.links[1].incompatible == ("n2",)
    assert cluster.links[1].peers == ()


def test_closed_links_are_silent() -> None:
    cluster = ready()
    cluster.links[1].close()
    cluster.links[2].send(1, numbered(1))
    cluster.links[2].flush(0)
    cluster.pass_time(SETTINGS.silence + 0.5)
    assert cluster.diaries[1].entries == []
    assert ("down", 1) in cluster.diaries[2].entries
