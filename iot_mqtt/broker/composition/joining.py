"""What a node has to do with the other nodes of its cluster."""

from __future__ import annotations

from iot_mqtt.broker.cluster.arrivals import Arrivals
from iot_mqtt.broker.cluster.beginnings import Beginnings, LogEnds
from iot_mqtt.broker.cluster.claims import Claims
from iot_mqtt.broker.cluster.clustering import Clustering, OwnSessions, ThisNode
from iot_mqtt.broker.cluster.departed import Departed
from iot_mqtt.broker.cluster.forwarding import Forwarding
from iot_mqtt.broker.cluster.group_places import GroupPlaces
from iot_mqtt.broker.cluster.homes import Homes
from iot_mqtt.broker.cluster.interest import OwnInterest
from iot_mqtt.broker.cluster.links import Links
from iot_mqtt.broker.cluster.other_logs import Follow, OtherLogs
from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.cluster.presence import Presence
from iot_mqtt.broker.cluster.releases import Releases
from iot_mqtt.broker.cluster.retained_sync import RetainedSync
from iot_mqtt.broker.cluster.retained_versions import RetainedVersions
from iot_mqtt.broker.cluster.unheard import KeptForUnheard
from iot_mqtt.broker.composition.lifecycle import Lifecycle
from iot_mqtt.broker.composition.publish_path import PublishPath
from iot_mqtt.broker.composition.readers import Readers
from iot_mqtt.broker.composition.routing import Routing
from iot_mqtt.broker.composition.runtime import Runtime
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.ports.cluster import Peers
from iot_mqtt.ports.store import CommitOrder


def make_clustering(
    runtime: Runtime,
    sessions: Sessions,
    routing: Routing,
    readers: Readers,
    publishing: PublishPath,
    lifecycle: Lifecycle,
    peers: Peers,
    follow: Follow,
) -> Clustering:
    """Tell the parts of a node that there are others; ``follow`` opens another node's log."""
    turn, store, clock, log = runtime.turn, runtime.store, runtime.clock, runtime.log
    groups, elsewhere = readers.groups, readers.elsewhere
    routes = PeerRoutes(peers, routing.routes, groups, runtime.counters, turn.plan, lifecycle.route_turns)
    store.enlist(CommitOrder.FORWARDING, routes)
    groups.join(peers, routes)
    own = OwnInterest(peers, routes, groups, store, turn, clock)
    logs = OtherLogs(readers.logs, clock, follow)
    ends = LogEnds(peers, logs, elsewhere)
    beginnings = Beginnings(ends, lifecycle.subscriptions.remove, store, readers.progress, turn, clock)
    readers.reading.links = links = Links(peers, own)
    forwarding = Forwarding(peers, own, routes, groups, store, turn)
    versions = RetainedVersions(clock, peers, store)
    publishing.retention.share(versions)
    retained = RetainedSync(publishing.retention, versions, clock)
    departed = Departed(peers, sessions, store, turn, clock)
    unheard = KeptForUnheard(routing.steps, publishing.recording, store)
    routing.steps.add(unheard)
    homes = Homes(sessions, own, groups.leadership, departed, lifecycle.loading, turn)
    node = ThisNode(
        log=log,
        own=own,
        forwarding=forwarding,
        logs=logs,
        links=links,
        arrivals=Arrivals(publishing.path, sessions, groups, logs, links, publishing.retention.news, turn, clock),
        presence=Presence(routes, groups, logs, elsewhere, links, retained, unheard),
        retained=retained,
        owners=lifecycle.owners,
        homes=homes,
        releases=Releases(sessions, own, groups.leadership, departed, lifecycle.moving.hand_over, lifecycle.ending.end),
    )
    claims = Claims(peers, sessions, lifecycle.owners, departed, homes)
    sessions.others = others = OwnSessions(
        own, beginnings, GroupPlaces(peers, routes, ends, groups.leadership, store, clock), departed
    )
    turn.at_end = (forwarding.end_turn, *turn.at_end)
    turn.at_commit = (departed.committed, retained.committed, forwarding.committed, *turn.at_commit)
    return Clustering(node, own, homes, claims, others)
