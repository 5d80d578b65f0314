"""How a member that is connected here gets messages of a group."""

from __future__ import annotations

from typing import Any

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.shared_groups.node import Member, Sending
from iot_mqtt.broker.shared_groups.packet_ids import PacketIds
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.log import Reference
from iot_mqtt.topics import Route


class Dispatch:
    """Gives to sessions of this node, whoever keeps what is given."""

    def __init__(self, sending: Sending, ids: PacketIds, counters: Counters, clock: Clock) -> None:
        self._sending = sending
        self._ids = ids
        self._counters = counters
        self._clock = clock

    def expired(self, publication: Publication) -> bool:
        """Whether the time of its messages is over; they are counted as dropped then [MQTT-3.3.2-5]."""
        if not publication.expired(self._clock.wall()):
            return False
        self._counters.dropped[Drop.EXPIRED] += publication.count
        return True

    def give(
        self, member: Member, route: Route[Any], publication: Publication, reference: Reference, origin: Any
    ) -> tuple[int, bool]:
        """Give as many messages as there is room for; how many, and whether they will be acknowledged. ``origin`` is
        who has them back if they are not.
        """
        qos = min(route.qos, publication.qos)
        retain = publication.run.retain and route.retain_as_published
        if qos:
            take, identifiers = self._sending.take, route.identifiers
            again = publication.again and qos == 1
            ids = self._ids.of(member.client_id, origin.name, reference) if again else ()
            taken = take(member, publication, reference, qos, retain, identifiers, origin, again=again, had=ids)
            if ids:
                self._ids.used(member.client_id, origin.name, reference.part(0, taken))
            return taken, True
        if member.connection is None or not member.connection.writable:
            return 0, False
        member.connection.send_qos0(publication, retain, route.identifiers)
        return publication.count, False
