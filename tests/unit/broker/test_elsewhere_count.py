"""What waits in other nodes' logs for sessions that are away: counted without them, and once."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from iot_mqtt.broker.driving import breath, drive
from iot_mqtt.broker.readers import elsewhere_count
from iot_mqtt.broker.views.slow_view import SlowView
from iot_mqtt.codec import Request
from iot_mqtt.ports.slow import SlowInfo
from tests.seeds import seeds_of
from tests.unit.broker.harness import Client, Node
from tests.unit.broker.logreaders import NO_PAGES, check, durable, publish, unreadable
from tests.unit.broker.neighbours import Neighbour, forward

FAR = [b"far%d" % number for number in range(1000)]


def pair(**options: object) -> tuple[Node, Neighbour]:
    """Node 1, and node 2 as it sees it."""
    node = Node(number=1, **options)  # type: ignore[arg-type]
    return node, Neighbour(node)


def absent(node: Node, name: str, *filters: str | Request, qos: int = 1) -> None:
    """A durable session that is away."""
    client = durable(node, name)
    client.subscribe(*filters, qos=qos)
    client.lose()


def look(node: Node) -> None:
    """Some seconds pass, and what was recorded meanwhile is counted."""
    node.advance(2)
    node.broker.readers.elsewhere_count.look()
    node.turn()


def owed(node: Node, name: str) -> int:
    """Messages that are counted for a session."""
    backlog = node.session(name).backlog
    assert backlog is not None
    return backlog


def slow(node: Node) -> list[SlowInfo]:
    """For whom messages wait."""
    broker = node.broker
    readers = broker.readers
    breathe = partial(breath, broker.turn.call_soon)
    found: list[list[SlowInfo]] = []
    view = SlowView(broker.sessions, readers.outflow, readers.logs, node.clock, breathe)
    drive(view.slow(None, 100), found.append, lambda error: pytest.fail(str(error)))
    node.turn()
    return found[0]


def test_what_waits_at_other_nodes_is_in_the_sums_and_in_the_slow_list() -> None:
    """Twenty sessions are away, and nobody else here wants it: nothing is forwarded."""
    node, other = pair()
    for number in range(20):
        absent(node, f"away{number}", "t")
    for payload in FAR[:200]:
        other.record_unforwarded(payload)
    look(node)
    info = node.view.info()
    assert (info.backlog, info.queued, info.waiting) == (4000, 4000, 4000)
    assert (info.largest_backlog, info.uncounted, info.unexplained) == (200, 0, 0)
    assert {(one.client_id, one.waiting) for one in slow(node)} == {(f"away{number}", 200) for number in range(20)}
    check(node)
    assert durable(node, "away0").drain() == FAR[:200]
    assert node.view.info().waiting == 3800
    check(node)


def test_every_message_is_counted_once_whatever_brings_it_first() -> None:
    """The link while somebody else is there, a look at the log, and the link late."""
    node, other = pair()
    absent(node, "away", "t")
    other.record_unforwarded(*FAR[:2])
    there = durable(node, "there")
    there.subscribe("t", qos=1)
    other.publish(*FAR[2:5])
    assert owed(node, "away") == 3
    look(node)
    assert owed(node, "away") == 5
    other.publish(FAR[5])
    assert owed(node, "away") == 6
    other.record(FAR[6])
    (late,) = other.link
    other.link.clear()
    other.reader.announce(other.log.end)
    look(node)
    assert owed(node, "away") == 7
    forward(node, late.run)
    assert owed(node, "away") == 7
    look(node)
    assert owed(node, "away") == 7
    check(node)
    assert durable(node, "away").drain() == FAR[:7]
    assert node.view.info().unexplained == 0


def test_what_no_subscription_claims_is_not_counted() -> None:
    """Other topics, QoS 0, its own messages, and what is from before the subscription or behind its end."""
    node, other = pair()
    absent(node, "early", "t", "u/+")
    absent(node, "zero", "t", qos=0)
    absent(node, "own", Request("#", 1, no_local=True))
    other.publisher = "own"
    other.record_unforwarded(*FAR[:3])
    other.publisher = "elsewhere"
    absent(node, "late", "#")
    other.record_unforwarded(*FAR[3:5], topic="u/1")
    other.record_unforwarded(FAR[5], topic="v")
    other.record_unforwarded(FAR[6], qos=0)
    client = durable(node, "early", window=1)
    client.unsubscribe("u/+")
    client.lose()
    other.record_unforwarded(FAR[7], topic="u/1")
    look(node)
    early = owed(node, "early") + len(node.session("early").outbound)
    counts = early, owed(node, "zero"), owed(node, "own"), owed(node, "late")
    assert counts == (5, 0, 4, 4)
    check(node)


def test_a_restart_counts_from_where_each_session_was() -> None:
    """Nothing of what was counted before is left; and what is recorded later is added to it."""
    node, other = pair()
    absent(node, "away", "t")
    node.follows = (2,)
    other.record_unforwarded(*FAR[:10])
    look(node)
    node.restart()
    assert owed(node, "away") == 0
    look(node)
    assert owed(node, "away") == 10
    other.record_unforwarded(*FAR[10:15])
    look(node)
    assert owed(node, "away") == 15
    check(node)


def test_what_is_read_and_left_again_is_counted_from_there() -> None:
    """The client takes some, and is gone while the log stands still."""
    node, other = pair()
    absent(node, "away", "t")
    other.record_unforwarded(*FAR[:10])
    client = durable(node, "away", window=3)
    assert len(client.messages()) == 3
    client.lose()
    look(node)
    assert owed(node, "away") == 7
    check(node)


def test_sessions_whose_client_is_there_and_quiet_logs_cost_no_read() -> None:
    """Nobody is behind, or nothing has come."""
    node, other = pair()
    there = durable(node, "there")
    there.subscribe("t", qos=1)
    other.publish(*FAR[:5])
    before = other.reader.figures.pages_read, other.reader.figures.bytes_read
    other.record_unforwarded(*FAR[5:8], topic="unwanted")
    look(node)
    absent(node, "away", "t")
    look(node)
    look(node)
    assert (other.reader.figures.pages_read, other.reader.figures.bytes_read) == before


def test_what_cannot_be_counted_in_time_is_said() -> None:
    """The grid does not answer: the readers that are concerned are uncounted, until it does."""
    node, other = pair(log_settings=NO_PAGES)
    absent(node, "away", "t")
    absent(node, "other", "t")
    other.record_unforwarded(FAR[0])
    with pytest.MonkeyPatch.context() as patch, unreadable(node, patch):
        look(node)
        assert node.view.info().uncounted == 0
        look(node)
        assert node.view.info().uncounted == 2
    look(node)
    look(node)
    assert (node.view.info().uncounted, owed(node, "away"), owed(node, "other")) == (0, 1, 1)


def test_a_long_log_is_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known so far is told, and that there is more."""
    monkeypatch.setattr(elsewhere_count, "READS", 2)
    monkeypatch.setattr(elsewhere_count, "READ_MESSAGES", 5)
    node, other = pair()
    absent(node, "away", "t")
    for payload in FAR[:30]:
        other.record_unforwarded(payload)
    counts = []
    for _ in range(5):
        look(node)
        counts.append((owed(node, "away"), node.view.info().uncounted))
        check(node)
    # Of the first part nothing is late yet.
    assert counts == [(10, 0), (20, 1), (30, 0), (30, 0), (30, 0)]


def test_counting_takes_a_part_of_the_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a long count others have theirs first."""
    monkeypatch.setattr(elsewhere_count, "SESSIONS_A_TURN", 1)
    node, other = pair()
    absent(node, "away", "t")
    other.record_unforwarded(*FAR[:2])
    count = node.broker.readers.elsewhere_count
    count.look()
    # The reactor has other things to do before the count is over.
    node.clock.advance(3)
    node.turn()
    assert owed(node, "away") == 2
    other.record_unforwarded(FAR[2])
    for seconds, expected in ((10, 2), (10, 2), (10, 3)):
        node.advance(seconds)
        count.look()
        node.turn()
        assert owed(node, "away") == expected


@pytest.mark.parametrize("seed", seeds_of("counts elsewhere", 20))
def test_the_count_is_what_comes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is there or away meanwhile, whatever the link loses, and wherever the count was."""
    rng = Random(seed)
    monkeypatch.setattr(elsewhere_count, "READ_MESSAGES", rng.choice((1, 3, 1000)))
    monkeypatch.setattr(elsewhere_count, "READS", rng.choice((1, 64)))
    node, other = pair()
    filters = {"a": "t", "b": "#", "c": "u"}
    clients: dict[str, Client] = {}
    for name, filter in filters.items():
        clients[name] = durable(node, name)
        clients[name].subscribe(filter, qos=1)
    for step in range(60):
        act, name = rng.randrange(8), rng.choice(list(filters))
        if act == 0 and name in clients:
            clients.pop(name).lose()
        elif act == 1 and name not in clients:
            clients[name] = durable(node, name, window=rng.choice((1, 10)))
            if rng.random() < 0.5:
                clients[name].drain()
        elif act == 2:
            look(node)
        elif act == 3:
            other.lose()
        elif act == 4:
            publish(node, 0, 1, "here")
        else:
            other.record(*FAR[step : step + rng.randrange(1, 4)], topic=rng.choice("tu"))
            if rng.random() < 0.7:
                other.deliver()
        check(node)
    other.deliver()
    for client in clients.values():
        client.lose()
    other.record_unforwarded(FAR[-1])
    for _ in range(100):
        look(node)
    waiting = {name: owed(node, name) + len(node.session(name).outbound) for name in filters}
    assert {name: len(durable(node, name).drain()) for name in filters} == waiting
    check(node)
    assert node.view.info().waiting == node.view.info().uncounted == 0
