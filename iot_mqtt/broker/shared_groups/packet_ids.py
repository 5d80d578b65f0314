"""Packet ids of QoS 1 messages of groups that sessions here were sent and had not confirmed when they lost their
connection. Such a message returns to its group; if it comes to the same session again, it has its id again
[MQTT-4.4.0-1].

They are in memory alone: a session that moves to another node, or is loaded after a restart, gets new ids.
"""

from __future__ import annotations

from iot_mqtt.broker.shared_groups.node import Member
from iot_mqtt.broker.shared_groups.references import places_of
from iot_mqtt.ports.log import Reference
from iot_mqtt.session import Flight


class PacketIds:
    """Of all sessions of a node."""

    def __init__(self) -> None:
        #: Client id → part of a group, position of the message → packet id.
        self._by_client: dict[str, dict[tuple[str, int], int]] = {}

    def remember(self, session: Member, flight: Flight) -> None:
        """A session has lost its connection, and these have left."""
        if flight.qos != 1 or not flight.sent:
            return
        known = self._by_client.setdefault(session.client_id, {})
        name, first = flight.origin.name, flight.reference.position
        most = max(len(known), session.outbound.limit)
        for offset, ids in flight.outstanding(session.outbound.entries):
            for place, packet_id in enumerate(ids[: max(0, flight.sent - offset)], first + offset):
                known[name, place] = packet_id
        # A window is all that can be under way; what is older has gone to others.
        for key in list(known)[: max(0, len(known) - most)]:
            del known[key]

    def of(self, client_id: str, name: str, reference: Reference) -> list[int]:
        """The ids that these messages had with this session, or none if not all of them had one."""
        known = self._by_client.get(client_id, {})
        found = [known.get((name, place), 0) for place in places_of(reference)]
        return found if all(found) else []

    def used(self, client_id: str, name: str, reference: Reference) -> None:
        """The session has these again."""
        known = self._by_client[client_id]
        for place in places_of(reference):
            del known[name, place]
        if not known:
            del self._by_client[client_id]

    def forget(self, client_id: str) -> None:
        """The session has ended, or lives elsewhere."""
        self._by_client.pop(client_id, None)
