"""Evening out clients: every node knows its own surplus, and one of them asks all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from twisted.internet.defer import Deferred, succeed

from iot_mqtt.broker.cluster.rebalancing import REBALANCE, Rebalancing, surplus
from iot_mqtt.broker.cluster.references import LeastLoaded
from iot_mqtt.broker.facade import ShareInfo
from iot_mqtt.ports.registry import Member
from tests.unit.broker.harness import Node, run


@pytest.mark.parametrize(
    ("clients", "others", "mean", "expected"),
    [
        (100, [0], 50, 50),
        (100, [100, 100], 100, 0),
        (110, [90], 100, 0),
        (111, [89], 100, 11),
        (0, [100], 50, 0),
        (3, [1], 2, 1),
        (1, [0], 1, 0),
        (1, [0, 0, 0], 1, 0),
        (0, [0], 0, 0),
        (7, [], 7, 0),
        (1_000_000, [0, 0], 333_334, 666_666),
    ],
)
def test_the_surplus_is_what_is_above_the_mean(clients: int, others: list[int], mean: int, expected: int) -> None:
    """If it is more than a tenth; a node alone has none."""
    assert surplus(clients, others) == (mean, expected)


def test_a_rebalanced_cluster_stays_as_it_is() -> None:
    """Whatever there was: once everybody has sent away its surplus nobody has one."""
    counts = [997, 3, 0, 250]
    total, size = sum(counts), len(counts)
    for place, count in enumerate(counts):
        _, too_many = surplus(count, counts[:place] + counts[place + 1 :])
        assert count - too_many <= max(count, -(-total // size))
    even = [313, 313, 312, 312]
    assert all(surplus(count, even[:place] + even[place + 1 :])[1] == 0 for place, count in enumerate(even))


BAD_COUNTS = b'{"rate": 1, "dry_run": false, "counts": {"2": "x"}}'


class Line:
    """``Asking`` over a cable: the other node's answers are called at once."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[bytes], bytes]] = {}
        self.others: dict[int, Line | str | bytes] = {}

    def ask_all(self, name: str, body: bytes) -> Deferred[Mapping[int, bytes | str]]:
        return succeed(
            {
                number: other.answers[name](body) if isinstance(other, Line) else other
                for number, other in self.others.items()
            }
        )


class Two:
    """Node 1 with four clients, node 2 with none; each knows what both have said last."""

    def __init__(self) -> None:
        self.members = [
            Member(f"n{number}", number, 1, "1", addresses={"embedded": f"n{number}:1883"}) for number in (1, 2)
        ]
        self.nodes = [Node(), Node()]
        self.lines = [Line(), Line()]
        self.parts = []
        for number, node, line in zip((1, 2), self.nodes, self.lines, strict=True):
            references = LeastLoaded(lambda: self.members, number, node.clock)
            node.broker.clients.connections.reference = references
            clients = partial(getattr, node.broker.clients.connections, "clients")
            self.parts.append(
                Rebalancing(
                    node.broker.clients.draining, clients, f"n{number}", number, line, lambda: self.members, references
                )
            )
        self.lines[1].others[1] = self.lines[0]
        self.lines[0].others[2] = self.lines[1]
        self.clients = [self.nodes[0].connect(f"c{number}") for number in range(4)]

    def rebalance(self, asked: int = 1, rate: int | None = 10, *, dry_run: bool = False) -> list[ShareInfo]:
        return run(self.parts[asked - 1].everywhere(rate, dry_run=dry_run))

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            for node in self.nodes:
                node.advance(0.1)


@pytest.mark.parametrize("asked", [1, 2])
def test_whichever_node_is_asked_the_one_with_too_many_sends_them_away(asked: int) -> None:
    """All are asked for their counts first."""
    two = Two()
    assert two.rebalance(asked)[0] == ShareInfo(1, "n1", 4, 2, 2, None)
    two.pass_time(1.0)
    assert two.nodes[0].broker.clients.connections.clients == 2
    assert [client.closed for client in two.clients] == [True, True, False, False]


def test_a_dry_run_changes_nothing() -> None:
    """It says the same."""
    two = Two()
    assert [(share.number, share.surplus) for share in two.rebalance(dry_run=True)] == [(1, 2), (2, 0)]
    two.pass_time(1.0)
    assert two.nodes[0].broker.clients.connections.clients == 4


@pytest.mark.parametrize("asked", [1, 2])
def test_a_wave_of_clients_that_has_just_come_is_counted_everywhere(asked: int) -> None:
    """Both have four: what each has said last, before they came, would have both send half of theirs away."""
    two = Two()
    for number in range(4):
        two.nodes[1].connect(f"d{number}")
    assert [(share.clients, share.mean, share.surplus) for share in two.rebalance(asked)] == [(4, 4, 0), (4, 4, 0)]


def test_a_node_of_the_version_before_asks_without_counts() -> None:
    """What is known of the others by the list does, then."""
    two = Two()
    answer = json.loads(two.lines[0].answers[REBALANCE](b'{"rate": 10, "dry_run": true}'))
    assert (answer["mean"], answer["surplus"]) == (2, 2)


def test_clients_on_their_way_are_not_sent_for_twice() -> None:
    """Before the other node has said that it has them, those that were sent there count as there."""
    two = Two()
    two.rebalance()
    assert two.rebalance()[0].note == "it is rebalancing already"
    two.pass_time(1.0)
    assert two.rebalance()[0].surplus == 0
    two.pass_time(1.0)
    assert two.nodes[0].broker.clients.connections.clients == 2


def test_a_node_that_is_drained_takes_no_part() -> None:
    """And says so."""
    two = Two()
    two.nodes[0].broker.clients.draining.begin(rate=1)
    (share, _) = two.rebalance()
    assert (share.surplus, share.note) == (0, "it is being drained")


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ("node 2 gave no answer in time", "node 2 gave no answer in time"),
        (b"?", "its answer cannot be understood"),
        (b"[]", "its answer cannot be understood"),
        (b'{"node_id": "n2"}', "its answer cannot be understood"),
        (
            b'{"node_id": "n2", "clients": "x", "mean": 1, "surplus": 1, "note": null}',
            "its answer cannot be understood",
        ),
    ],
)
def test_a_node_that_does_not_answer_is_named(answer: bytes | str, note: str) -> None:
    """With what is known of it, and why; the others do their part."""
    two = Two()
    two.lines[0].others[2] = answer
    mine, other = two.rebalance()
    assert mine.surplus == 2
    assert (other.number, other.node_id, other.surplus, other.note) == (2, "n2", 0, note)


@pytest.mark.parametrize(
    "order", [b"", b"{}", b'{"rate": 0, "dry_run": false}', b'{"rate": "x", "dry_run": false}', BAD_COUNTS]
)
def test_an_order_that_makes_no_sense_is_not_followed(order: bytes) -> None:
    """It raises, which the asker is told."""
    two = Two()
    with pytest.raises((ValueError, KeyError)):
        two.lines[0].answers[REBALANCE](order)
    two.pass_time(1.0)
    assert two.nodes[0].broker.clients.connections.clients == 4
