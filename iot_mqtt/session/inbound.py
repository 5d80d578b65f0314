"""What a client has under way to us: QoS 2 ids not yet released, and the quota of Receive Maximum."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iot_mqtt.errors import ProtocolViolation, ReasonCode


class Inbound:
    """QoS 2 packet ids between PUBLISH and PUBREL, and QoS 1 publishes whose PUBACK waits for a commit."""

    __slots__ = ("received", "inherited", "unacknowledged", "maximum")

    def __init__(self, maximum: int) -> None:
        #: ``fresh`` is the only way in. Most clients have no QoS 2 publish under way, and an empty set costs 216 bytes.
        self.received: set[int] | None = None
        #: Those of them that came in another life, or on another node; None: there are none.
        self.inherited: set[int] | None = None
        #: QoS 1 publishes that were taken and not yet acknowledged.
        self.unacknowledged = 0
        self.maximum = maximum

    @property
    def count(self) -> int:
        """QoS 2 ids that are not yet released."""
        return 0 if self.received is None else len(self.received)

    def admit(self, count: int) -> None:
        """Refuse a client that sends more than it was told to [MQTT-3.3.4-9]."""
        if self.count + self.unacknowledged + count > self.maximum:
            raise ProtocolViolation(
                f"more than {self.maximum} unacknowledged publishes", ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
            )

    def fresh(self, ids: Sequence[int]) -> list[int] | None:
        """Remember QoS 2 ids; positions of those that are new, or None when all are (the usual case).

        A known id is a repetition: it is acknowledged again and not delivered again [MQTT-4.3.3-10].
        """
        received = self.received = self.received or set()
        if received.isdisjoint(ids):
            before = len(received)
            received.update(ids)
            if len(received) - before == len(ids):
                return None
            received.difference_update(ids)
        positions = []
        for position, packet_id in enumerate(ids):
            if packet_id not in received:
                received.add(packet_id)
                positions.append(position)
        return positions

    def inherit(self, packet_id: int) -> None:
        """Remember one of before."""
        self.fresh((packet_id,))
        self.inherited = self.inherited or set()
        self.inherited.add(packet_id)

    def is_inherited(self, packet_id: int) -> bool:
        """Whether the exchange began in another life, or on another node."""
        return self.inherited is not None and packet_id in self.inherited

    def forget(self, ids: Iterable[int]) -> None:
        """Take back what ``fresh`` remembered."""
        if self.received is not None:
            self.received.difference_update(ids)

    def release(self, packet_id: int) -> bool:
        """PUBREL; False for an id that is unknown."""
        received = self.received
        if received is not None and packet_id in received:
            received.discard(packet_id)
            self.received = received or None
            if self.inherited is not None:
                self.inherited.discard(packet_id)
                self.inherited = self.inherited or None
            return True
        return False
