"""What a node says of its cluster: itself, the others, and what is degraded and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed

from iot_mqtt.app.node.views import join
from iot_mqtt.broker.settings import BudgetSettings
from iot_mqtt.codec import Disconnect
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.cluster_status import AbsentNode, Ending
from iot_mqtt.ports.disk import DiskUse
from iot_mqtt.ports.registry import Member
from tests.unit.broker.harness import Node, run
from tests.unit.metrics.metricskit import Cluster, Peer

#: Agreement in all things, so that each case names what differs.
WELL = Cluster(peers=(Peer(acts_on=7),))
STOPPED = AbsentNode(4, "n4", 8, Ending.STOPPED, 1000.0)
ABSENT = (STOPPED, AbsentNode(5, "n5", 9, Ending.GONE, 2000.0), AbsentNode(6, "n6", 3, Ending.LEFT, None))


class Questions:
    """``Asking`` of a node whose peers are silent."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[bytes], bytes]] = {}

    def ask_all(self, name: str, body: bytes) -> Deferred[Mapping[int, bytes | str]]:
        return succeed({2: "node 2 gave no answer in time"})


class Together:
    """``cluster_view.Together``: what is wrong with the cluster is set by hand."""

    number = 1

    def __init__(self) -> None:
        self.facts = WELL
        self.questions = Questions()
        self.told: list[bool] = []

    def status(self) -> Cluster:
        return self.facts

    def drain(self, draining: bool = True) -> None:
        self.told.append(draining)

    async def remove(self, node_id: str) -> bool:
        return node_id == "gone"


class FakeRegistry:
    """The list of members, as far as it is looked at here."""

    def __init__(self) -> None:
        addresses = {"embedded": "n2.example:1883"}
        self.members = {"n2": Member("n2", 2, 5, "1.2", addresses=addresses), "n1": Member("n1", 1, 4, "1.2")}


def clustered() -> tuple[Node, Together]:
    node, together = Node(), Together()
    registry: Any = FakeRegistry()
    join(node.broker, node.view.cluster, "n1", together, registry)
    return node, together


def test_a_sole_node_is_all_there_is() -> None:
    """Nothing is degraded by that."""
    node = Node()
    node.connect("c")
    info = node.view.cluster.info()
    assert (info.clustered, info.registry, info.degraded) == (False, "none", [])
    assert [(one.state, one.node_id, one.clients) for one in info.members] == [("self", "n1", 1)]
    (share,) = run(node.view.cluster.rebalance(None, dry_run=False))
    assert (share.surplus, share.note) == (0, "it is not one of a cluster")


def test_members_are_listed_by_number_with_this_one_among_them() -> None:
    """Its own clients are counted now, those of others are what they said last."""
    node, together = clustered()
    node.connect("c")
    together.facts = replace(WELL, peers=(Peer(number=7, acts_on=7), Peer(number=0, node_id="n0", acts_on=7)))
    info = node.view.cluster.info()
    assert [(one.number, one.state, one.clients) for one in info.members] == [
        (0, "up", 3001),
        (1, "self", 1),
        (7, "up", 3001),
    ]
    assert info.clustered
    assert info.routes_agree
    assert info.degraded == []


@pytest.mark.parametrize(
    ("peer", "state"),
    [
        (Peer(), "up"),
        (Peer(hears_us=False), "deaf"),
        (Peer(up=False), "silent"),
        (Peer(number=3, up=False, member=False), "dead"),
        (Peer(number=4, node_id="n4", up=False, member=False), "stopped"),
        (Peer(number=5, node_id="n5", up=False, member=False), "gone"),
    ],
)
def test_the_state_of_a_member_is_one_word(peer: Peer, state: str) -> None:
    """By what the registry says and by what is heard."""
    node, together = clustered()
    together.facts = replace(WELL, peers=(peer,), dead={3: 8}, absent=ABSENT)
    assert {one.number: one.state for one in node.view.cluster.info().members}[peer.number] == state


def test_who_is_lacking_is_listed_by_name_whether_or_not_there_was_a_link() -> None:
    """How it ended and when; one that was removed is not, whatever its link has counted."""
    node, together = clustered()
    peers = (*WELL.peers, Peer(number=5, node_id="n5", member=False), Peer(number=7, node_id="", member=False))
    together.facts = replace(WELL, peers=peers, absent=ABSENT)
    members = node.view.cluster.info().members
    assert [(one.number, one.node_id, one.state, one.left_at, one.boot) for one in members[2:]] == [
        (4, "n4", "stopped", 1000.0, 8),
        (5, "n5", "gone", 2000.0, 5),
        (6, "n6", "left", None, 3),
    ]
    assert node.view.cluster.info().routes_agree


def test_a_node_that_is_gone_is_degraded_and_an_alarm_until_it_is_back_or_removed() -> None:
    """One that was stopped on purpose is neither; its name is what `cluster remove` wants."""
    node, together = clustered()
    together.facts = replace(WELL, absent=ABSENT)
    text = (
        "n5 (number 5) is gone without having been stopped: "
        "start it again, or remove it (iot-mqtt ctl cluster remove n5)"
    )
    assert node.view.cluster.info().degraded == [text]
    assert node.view.alarms == (Alarm(AlarmKind.NODE_GONE, text),)
    together.facts = replace(WELL, absent=(STOPPED,))
    assert node.view.cluster.info().degraded == []
    assert node.view.info().alarms == ()


PEER_2 = "n2 (number 2)"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (WELL, []),
        (
            replace(WELL, registry="suspended", registry_trouble="no server answers"),
            ["the registry is suspended (no server answers): clients whose session is elsewhere are refused"],
        ),
        (replace(WELL, over="fenced", registry="lost"), ["this node is not one of the cluster any more (fenced)"]),
        (replace(WELL, copies_missing=37), ["37 partitions of the grid have fewer copies than they should"]),
        (replace(WELL, copies_missing=None), []),
        (
            replace(WELL, read_trouble="timed out"),
            ["the log cannot be read from the grid (timed out): durable sessions get nothing"],
        ),
        (replace(WELL, incompatible=("n9",)), ["n9 speaks no version of the links"]),
        (replace(WELL, dead={5: 1}), ["a node (number 5) is dead, and its sessions are being adopted"]),
        (
            replace(WELL, peers=(*WELL.peers, Peer(number=5, node_id="n5", member=False)), dead={5: 1}),
            ["n5 (number 5) is dead"],
        ),
        (replace(WELL, peers=(Peer(up=False, acts_on=7),)), [f"{PEER_2} is on the list but is not heard"]),
        (replace(WELL, peers=(Peer(hears_us=False, acts_on=7),)), [f"{PEER_2} does not hear this node"]),
        (replace(WELL, peers=(Peer(draining=True, acts_on=7),)), [f"{PEER_2} is being drained"]),
        (replace(WELL, peers=(Peer(routes_agree=False, acts_on=7),)), [f"{PEER_2} wants what this node does not know"]),
        (replace(WELL, peers=(Peer(acts_on=5),)), [f"{PEER_2} does not act on 2 changes"]),
        (replace(WELL, peers=(Peer(acts_on=-1),)), [f"{PEER_2} does not act on 7 changes"]),
        (replace(WELL, peers=(Peer(crowded=True, acts_on=7),)), [f"{PEER_2} does not keep up"]),
        (
            replace(WELL, peers=(Peer(unconfirmed=5_000_000, acts_on=7),)),
            [f"{PEER_2} has not confirmed 5000000 bytes"],
        ),
        (
            replace(WELL, clocks_wrong={"n1": -600.04, "n2": 3.0}),
            [
                "the clock of n1 is 600.0 s behind those of the other nodes: ",
                "the clock of n2 is 3.0 s ahead of those of the other nodes: ",
            ],
        ),
        (replace(WELL, peers=()), ["no other node is there"]),
        (replace(WELL, peers=(Peer(member=False),)), ["no other node is there"]),
    ],
)
def test_what_is_degraded_is_said_in_words(facts: Cluster, expected: list[str]) -> None:
    """What, and why or what it means."""
    node, together = clustered()
    together.facts = facts
    degraded = node.view.cluster.info().degraded
    assert len(degraded) == len(expected), degraded
    assert all(text.startswith(start) for text, start in zip(degraded, expected, strict=True)), degraded


def test_a_grid_that_is_out_of_reach_is_told_though_nobody_waits_for_a_commit() -> None:
    """Whoever comes would wait for ever: the node says so to people, to metrics and to load balancers."""
    node, _ = clustered()
    node.view.ready = True
    assert node.view.serving
    node.store.outage = lambda: "no connection to a gateway: no welcome in 10 s"
    why = "no connection to a gateway: no welcome in 10 s"
    assert node.view.alarms == (Alarm(AlarmKind.GRID, f"the grid does not take writes: {why}"),)
    assert [alarm.cause for alarm in node.view.alarms] == [why]
    assert node.view.log.info().trouble == why
    assert node.view.cluster.info().degraded == [
        f"the grid does not take writes ({why}): nothing is acknowledged until it does"
    ]
    assert not node.view.serving
    assert node.view.info().state == "apart"
    node.store.outage = lambda: None
    assert node.view.serving and node.view.alarms == ()


def test_a_log_that_cannot_be_read_is_an_alarm() -> None:
    """The grid takes writes all the same."""
    node, together = clustered()
    together.facts = replace(WELL, read_trouble="timed out")
    (alarm,) = node.view.alarms
    assert (alarm.kind, alarm.kind.value[0], alarm.cause) == (AlarmKind.GRID_READS, "grid_reads", "timed out")
    assert node.view.cluster.info().degraded == [alarm.text]


def test_a_clock_that_is_wrong_is_an_alarm() -> None:
    """Whatever else is degraded is none: it is told by others, or passes."""
    node, together = clustered()
    together.facts = replace(WELL, registry="suspended", clocks_wrong={"n2": 600.0})
    (alarm,) = node.view.alarms
    assert alarm.kind is AlarmKind.CLOCK
    assert alarm.text.startswith("the clock of n2 is 600.0 s ahead of")
    together.facts = WELL
    assert node.view.info().alarms == ()


def test_trouble_of_the_grid_is_told() -> None:
    """In its own words, of a sole node as well."""
    node = Node()
    node.fail()
    node.connect("c", expiry=60)
    node.advance(1.0)
    info = node.view.cluster.info()
    assert info.grid_trouble == "no space left on device"
    assert "nothing is acknowledged" in info.degraded[0]
    node.recover()
    assert node.view.cluster.info().degraded == []


def test_draining_is_told_to_the_others_and_sends_clients_to_them() -> None:
    """By the address of their listener of the same name."""
    node, together = clustered()
    client = node.connect("c")
    seen = node.view.cluster.drain(10, moved=True)
    assert (seen.state, seen.moved) == ("draining", True)
    assert together.told == [True]
    assert node.view.cluster.info().degraded == ["this node is being drained: it takes no clients"]
    node.advance(0.1)
    (farewell,) = client.take(Disconnect)
    assert farewell.reason is ReasonCode.SERVER_MOVED
    assert farewell.properties.server_reference == "n2.example:1883"
    assert node.view.cluster.progress().state == "drained"
    node.view.cluster.resume()
    assert together.told == [True, False]
    assert node.view.cluster.progress().moved is False


def test_rebalancing_asks_the_others() -> None:
    """Also those that do not answer are named."""
    node, together = clustered()
    for number in range(4):
        node.connect(f"c{number}")
    shares = run(node.view.cluster.rebalance(10, dry_run=True))
    assert [(one.number, one.node_id, one.surplus) for one in shares] == [(1, "n1", 2), (2, "n2", 0)]
    assert shares[1].note == "node 2 gave no answer in time"
    assert "rebalance" in together.questions.answers


def test_a_sole_node_has_no_others_to_remove() -> None:
    """And whoever has is asked."""
    assert not run(Node().view.cluster.remove("gone"))
    node, _ = clustered()
    assert run(node.view.cluster.remove("gone"))
    assert not run(node.view.cluster.remove("never"))


@pytest.mark.parametrize(
    ("used", "level", "degraded"),
    [(79, "none", ""), (80, "alarm", "the grid is nearly full"), (100, "full", "the grid is full")],
)
def test_the_room_of_the_grid_is_shown_and_degraded_from_the_alarm_on(used: int, level: str, degraded: str) -> None:
    """From 80 % on, before anything is refused."""
    node = Node(budget=BudgetSettings(disk_limit=100), disk=lambda: DiskUse(used, 1000))
    node.broker.publishing.budget.measure()
    info = node.view.cluster.info()
    assert (info.room_used, info.room_limit, info.room_level) == (used, 100, level)
    assert [sentence.split(":")[0] for sentence in info.degraded] == ([degraded] if degraded else [])
