"""The one place that knows all parts of one life of a node: it makes them, and gives each what it uses."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from iot_mqtt.cluster.adoption import Adoption
from iot_mqtt.cluster.bulk_takeover import BulkTakeover
from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.clocks import Clocks
from iot_mqtt.cluster.conversation import Conversation
from iot_mqtt.cluster.departures import Departures, Evictions
from iot_mqtt.cluster.fencing import Fences, SharedGrid
from iot_mqtt.cluster.joining import Place
from iot_mqtt.cluster.known_nodes import KnownNodes
from iot_mqtt.cluster.links import proto_v1
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.ownership import Ownership
from iot_mqtt.cluster.registration import Registration
from iot_mqtt.cluster.releases import Releases
from iot_mqtt.cluster.roster import Life
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.cluster.strays import Strays
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.messaging import Messaging
from iot_mqtt.ports.registry import Member, Registry


@dataclass(frozen=True, slots=True)
class LifeParts:
    """What one life of a node consists of: for the node, which takes those that it leads, and for its status."""

    membership: Membership
    registration: Registration
    conversation: Conversation
    known: KnownNodes
    #: How others end.
    departures: Departures
    fences: Fences
    adoption: Adoption
    #: Whose sessions are where.
    channels: Channels
    loading: Loading
    releases: Releases
    ownership: Ownership
    takeover: BulkTakeover
    clocks: Clocks


def compose(
    place: Place,
    *,
    version: str,
    grid: SharedGrid,
    registry: Registry,
    messaging: Messaging,
    clock: Clock,
    settings: ClusterSettings,
    addresses: Mapping[str, str] | None,
    rng: random.Random,
) -> LifeParts:
    """Make the parts of a life that begins; see ``ClusterNode`` for the arguments."""
    own = Life(place.number, place.boot)
    membership = Membership(own, registry, clock, settings.unseen_grace)
    known = KnownNodes(grid, membership, clock)
    conversation = Conversation(place, messaging, clock, settings, known.words)
    links = conversation.links
    entry = Member(place.node_id, place.number, place.boot, version, (proto_v1.VERSION,), addresses=addresses)
    ended = Evictions(membership, grid, registry).ended
    fences = Fences(grid)
    channels = Channels(grid, clock, own, settings.scan_page, settings.swaps_at_once)
    loading = Loading(conversation, clock, settings.fence_again)
    strays = Strays(channels, loading, clock, settings)
    releases = Releases(membership, conversation, loading, strays, settings.release_timeout)
    takeover = BulkTakeover(channels, loading, strays, settings.adopt_chunk)
    return LifeParts(
        membership=membership,
        registration=Registration(entry, membership, registry, links.condition, clock, settings.refresh),
        conversation=conversation,
        known=known,
        departures=Departures(place.number, messaging, clock, settings.departed_grace, links.heard_at, ended),
        fences=fences,
        adoption=Adoption(membership, conversation, known, fences, takeover, clock, settings, rng),
        channels=channels,
        loading=loading,
        releases=releases,
        ownership=Ownership(membership, channels, loading, strays, fences, clock, settings, releases.ask),
        takeover=takeover,
        clocks=Clocks(
            place.node_id,
            lambda: links.ahead(membership.members),
            lambda: links.clocks_settled(membership.members),
        ),
    )
