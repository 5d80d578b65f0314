"""The cluster in ``/metrics``: every figure of every peer, and nothing for a sole node."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from iot_mqtt.metrics.cluster import ClusterCollector
from iot_mqtt.metrics.exposition import Metrics
from iot_mqtt.ports.cluster_status import AbsentNode, ClusterStatus, Ending
from iot_mqtt.ports.counters import Counters, LinkDrop
from tests.unit.metrics.metricskit import Cluster, Facts, Gateway, Peer
from tests.unit.metrics.test_exposition import Samples, scrape


def shown(facts: ClusterStatus | None) -> Samples:
    return scrape(Metrics(Counters(), Facts, ClusterCollector(lambda: facts, Gateway)))


def test_every_figure_is_exposed() -> None:
    """Of the peer, of the cluster and of the gateway; all of them are larger than three thousand."""
    values = set(shown(Cluster()).values())
    for facts in (Peer(), Cluster(), Gateway()):
        figures = {one.name: getattr(facts, one.name) for one in fields(facts)}
        missing = [
            name for name, value in figures.items() if type(value) is int and value > 3000 and value not in values
        ]
        assert missing == []


def test_peers_are_told_apart_by_number_and_named() -> None:
    """A restart keeps the number, and the name is what people know."""
    samples = shown(Cluster(peers=(Peer(), Peer(number=3, node_id="n3", up=False, unconfirmed=9))))
    assert samples["iot_mqtt_peer_link_up", (("peer", "2"), ("peer_name", "n2"))] == 1
    assert samples["iot_mqtt_peer_link_up", (("peer", "3"), ("peer_name", "n3"))] == 0
    assert samples["iot_mqtt_peer_lag_bytes", (("peer", "3"), ("peer_name", "n3"))] == 9


def test_a_clock_that_is_not_known_has_no_row() -> None:
    """0 would say that it agrees."""
    samples = shown(Cluster(peers=(Peer(clock_offset=-600.5), Peer(number=3, clock_offset=None))))
    found = {labels: value for (name, labels), value in samples.items() if name == "iot_mqtt_peer_clock_offset_seconds"}
    assert found == {(("peer", "2"), ("peer_name", "n2")): -600.5}


def test_members_are_those_on_the_list() -> None:
    """This node included, those that left not."""
    samples = shown(Cluster(peers=(Peer(), Peer(number=3, member=False)), dead={3: 8}))
    assert samples["iot_mqtt_cluster_members", ()] == 2
    assert samples["iot_mqtt_cluster_dead", ()] == 1


def test_who_is_lacking_is_named_and_counted_among_the_known() -> None:
    """By how it ended: fewer members than known is worth a look, one that is gone an alert."""
    absent = (AbsentNode(3, "n3", 8, Ending.GONE, 9.0), AbsentNode(4, "n4", 8, Ending.STOPPED, 9.0))
    samples = shown(Cluster(absent=absent))
    assert samples["iot_mqtt_cluster_known", ()] == 4
    assert samples["iot_mqtt_cluster_absent", (("peer", "3"), ("peer_name", "n3"), ("state", "gone"))] == 1
    assert samples["iot_mqtt_cluster_absent", (("peer", "4"), ("peer_name", "n4"), ("state", "stopped"))] == 1


@pytest.mark.parametrize("trouble", [None, "timed out"])
def test_a_log_that_cannot_be_read_is_a_gauge(trouble: str | None) -> None:
    """Beside the count of reads that failed."""
    samples = shown(replace(Cluster(), read_trouble=trouble))
    assert samples["iot_mqtt_grid_reads_failing", ()] == (trouble is not None)
    assert samples["iot_mqtt_grid_read_failures_total", ()] == 4015


@pytest.mark.parametrize("state", ["connected", "suspended", "lost"])
def test_the_registry_state_is_one_of_three(state: str) -> None:
    """One of them holds."""
    samples = shown(replace(Cluster(), registry=state))
    found = {labels[0][1]: value for (name, labels), value in samples.items() if name == "iot_mqtt_registry_state"}
    assert found == {one: float(one == state) for one in ("connected", "suspended", "lost")}


def test_claims_are_counted_by_outcome() -> None:
    """Granted by where the session was, refused by why."""
    samples = shown(Cluster())
    assert samples["iot_mqtt_cluster_claims_granted_total", (("from", "moved"),)] == 4005
    assert samples["iot_mqtt_cluster_claims_refused_total", (("reason", "home_silent"),)] == 4006


def test_what_is_not_forwarded_carries_its_reason() -> None:
    """It was counted by the broker, whatever became of the link since."""
    counters = Counters()
    counters.forwards_dropped[LinkDrop.PEER_DOWN] += 3
    counters.messages_forwarded, counters.messages_from_peers = 4, 5
    samples = scrape(Metrics(counters, Facts))
    assert samples["iot_mqtt_forwards_dropped_total", (("reason", "peer_down"),)] == 3
    assert samples["iot_mqtt_messages_forwarded_total", ()] == 4
    assert samples["iot_mqtt_messages_from_peers_total", ()] == 5


def test_a_sole_node_has_no_cluster() -> None:
    """No rows of zeros that look like a cluster that is down."""
    names = {name for name, _ in scrape(Metrics(Counters(), Facts, ClusterCollector(lambda: None)))}
    assert not [name for name in names if name.startswith(("iot_mqtt_cluster", "iot_mqtt_peer", "iot_mqtt_registry"))]
