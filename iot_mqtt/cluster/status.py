"""How the cluster looks from one node, for people."""

from __future__ import annotations

from iot_mqtt.cluster.composition import LifeParts
from iot_mqtt.cluster.fencing import SharedGrid
from iot_mqtt.cluster.joining import Place
from iot_mqtt.ports.cluster_status import ClusterStatus
from iot_mqtt.ports.registry import Registry


def status_of(place: Place, parts: LifeParts, grid: SharedGrid, registry: Registry) -> ClusterStatus:
    """As the parts of a life have it now."""
    conversation, members = parts.conversation, parts.membership.members
    links, ours, dead = conversation.links, conversation.ours, parts.adoption.dead
    return ClusterStatus(
        node_id=place.node_id,
        number=place.number,
        boot=place.boot,
        over=parts.membership.over,
        registry=registry.state.value,
        registry_trouble=registry.trouble,
        copies_missing=grid.copies_missing,
        grid_servers=grid.servers,
        routes=len(ours.digest),
        routes_version=ours.version,
        draining=parts.registration.draining,
        peers=tuple(
            conversation.peer_status(number, parts.known.name(number), members.get(number))
            for number in sorted(links.links)
        ),
        absent=parts.known.absent,
        known_late=ours.late,
        claims_granted=dict(parts.ownership.granted),
        claims_refused={str(reason): count for reason, count in parts.ownership.refused.items()},
        released=parts.releases.released,
        releases_refused=parts.releases.refused,
        fences=parts.fences.asked,
        dead=dead,
        adoptions=parts.adoption.finished,
        adopted_clients=parts.takeover.adopted,
        adoption_failures=parts.adoption.failures + parts.loading.failures,
        unreadable_channels=parts.channels.unreadable,
        incompatible=links.incompatible,
        strangers=links.strangers,
        clocks_wrong=parts.clocks.wrong,
    )
