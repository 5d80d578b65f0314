"""The cluster as Prometheus text: one row for each peer, and what this node did about homes and the dead.

A sole node shows none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from iot_mqtt.metrics.families import Family, Kind, Table, counter, counters, gauge, gauges, labelled, samples
from iot_mqtt.ports.cluster_status import ClusterStatus, PeerStatus

#: Attribute of ``PeerStatus``, name after ``iot_mqtt_peer_``, help.
_PEER_GAUGES = (
    ("member", "member", "1 while the registry lists the node."),
    ("up", "link_up", "1 while the node is heard."),
    ("hears_us", "link_heard", "1 while the node says that it hears this one."),
    ("draining", "draining", "1 while the node takes no clients."),
    ("load", "load", "How busy the node is, 0 to 1."),
    ("clients", "clients", "Clients that the node has."),
    ("unconfirmed", "lag_bytes", "Bytes that were sent to the node and that it has not confirmed."),
    ("crowded", "crowded", "1 while the node does not keep up, and QoS 0 for it is dropped."),
    ("routes", "routes", "Filters that the node wants."),
    ("routes_agree", "routes_agree", "1 while both nodes have the same filters of it."),
    ("clock_offset", "clock_offset_seconds", "Seconds that the node's wall clock is ahead of this one's, if known."),
)
_PEER_COUNTERS = (
    ("datagrams_sent", "datagrams_sent", "Datagrams sent to the node."),
    ("items_sent", "items_sent", "Items in them: messages, wishes, questions."),
    ("bytes_sent", "sent_bytes", "Bytes of those datagrams, repetitions included."),
    ("datagrams_received", "datagrams_received", "Datagrams from the node."),
    ("items_received", "items_received", "Items in them."),
    ("bytes_received", "received_bytes", "Bytes of those datagrams."),
    ("repairs_asked", "repairs_asked", "Times that something was missing and was asked for."),
    ("repairs_served", "repairs_served", "Datagrams that were sent again because they were asked for."),
    ("gaps", "gaps", "Times that something was lost for good; sessions read it from the log."),
    ("items_missed", "items_missed", "Items that were lost for good."),
)
#: Attribute of ``ClusterStatus``, name after ``iot_mqtt_cluster_``, help.
_GAUGES = (
    ("routes", "routes", "Filters that this node wants of the others."),
    ("draining", "draining", "1 while this node takes no clients."),
    ("boot", "boot", "The number of this node's present life."),
)
_COUNTERS = (
    ("known_late", "interest_late", "Subscriptions confirmed although a peer had not said that it acts on them."),
    ("released", "clients_released", "Clients that other nodes asked for and got."),
    ("releases_refused", "releases_refused", "Clients that other nodes asked for and did not get at once."),
    ("fences", "fences", "Dead lives of nodes that were kept from writing by this one."),
    ("adoptions", "adoptions", "Dead nodes whose sessions were taken over by this one."),
    ("adopted_clients", "adopted_clients", "Sessions that were taken over from dead nodes."),
    ("adoption_failures", "adoption_failures", "Failures on the way, which were tried again."),
    ("unreadable_channels", "unreadable_channels", "Records of homes that could not be read."),
    ("strangers", "strange_datagrams", "Datagrams from nobody on the list."),
)
REGISTRY_STATES = ("connected", "suspended", "lost")


class GatewayFacts(Protocol):
    """The connection by which a node writes to the grid and talks to the others."""

    @property
    def connects(self) -> int: ...

    @property
    def losses(self) -> int: ...

    @property
    def servers(self) -> int:
        """Ignite servers, as the gateway sees them."""
        ...


class ClusterCollector(Collector):
    """Asked at each scrape; ``facts`` says None while the node is not one of a cluster."""

    def __init__(
        self, facts: Callable[[], ClusterStatus | None], gateway: Callable[[], GatewayFacts] | None = None
    ) -> None:
        self._facts = facts
        self._gateway = gateway

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        if facts is not None:
            yield from _cluster(facts)
            yield from _peers(facts.peers)
        if self._gateway is not None:
            yield from _gateway(self._gateway())


def _cluster(facts: ClusterStatus) -> Iterator[Family]:
    members = 1 + sum(1 for peer in facts.peers if peer.member)
    yield gauge("cluster_members", "Nodes on the registry's list, this one included.", members)
    known = members + len(facts.absent)
    yield gauge("cluster_known", "Nodes that have joined and were not removed, this one included.", known)
    absent = [((str(node.number), node.node_id, node.ending), 1) for node in facts.absent]
    text = "1 for each node that is known and not on the list, by how it ended."
    yield samples(GaugeMetricFamily, "cluster_absent", text, ("peer", "peer_name", "state"), absent)
    yield gauge("cluster_dead", "Dead nodes whose sessions are not taken over yet.", len(facts.dead))
    yield gauge("cluster_life_over", "1 when this node is not one of the cluster any more.", facts.over is not None)
    yield gauge("cluster_incompatible", "Members that this node cannot talk to.", len(facts.incompatible))
    if facts.copies_missing is not None:
        text = "Partitions of the grid with fewer copies than they should have; no server may be lost meanwhile."
        yield gauge("grid_copies_missing", text, facts.copies_missing)
    yield gauge("grid_reads_failing", "1 while the log cannot be read from the grid.", facts.read_trouble is not None)
    yield counter("grid_read_failures", "Reads of the log that failed; they are repeated.", facts.read_failures)
    states = [((state,), facts.registry == state) for state in REGISTRY_STATES]
    yield samples(GaugeMetricFamily, "registry_state", "1 for the state that holds.", ("state",), states)
    yield from gauges(facts, _GAUGES, "cluster_")
    yield from counters(facts, _COUNTERS, "cluster_")
    text = "Clients that found their home here, by where it was."
    yield labelled("cluster_claims_granted", "from", text, facts.claims_granted)
    text = "Clients that could not be given a home here."
    yield labelled("cluster_claims_refused", "reason", text, facts.claims_refused)


def _peers(peers: Sequence[PeerStatus]) -> Iterator[Family]:
    yield from _by_peer(GaugeMetricFamily, _PEER_GAUGES, peers)
    yield from _by_peer(CounterMetricFamily, _PEER_COUNTERS, peers)


def _by_peer(kind: Kind, table: Table, peers: Sequence[PeerStatus]) -> Iterator[Family]:
    for attribute, name, text in table:
        found = [((str(peer.number), peer.node_id), getattr(peer, attribute)) for peer in peers]
        known = [(labels, figure) for labels, figure in found if figure is not None]
        yield samples(kind, f"peer_{name}", text, ("peer", "peer_name"), known)


def _gateway(facts: GatewayFacts) -> Iterator[Family]:
    text = "Connections to a gateway of the grid that came about; all but the first are reconnects."
    yield counter("gateway_connects", text, facts.connects)
    yield counter("gateway_losses", "Connections to a gateway of the grid that were lost.", facts.losses)
    yield gauge("grid_servers", "Servers of the grid, as the gateway says.", facts.servers)
