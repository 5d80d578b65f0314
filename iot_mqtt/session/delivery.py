"""One message on its way to one session."""

from __future__ import annotations

from iot_mqtt.values import Message


class Delivery:
    """A message with what is particular to this receiver.

    ``sequence`` orders the deliveries of a session and names the stored record (0: not stored).
    ``ticket`` is the commit that must be over before the first send (0: none). ``origin`` remembers the
    shared subscription a message was picked for, so that it can go to another member when this session ends.
    """

    __slots__ = (
        "message",
        "qos",
        "retain",
        "identifiers",
        "sequence",
        "ticket",
        "packet_id",
        "sent",
        "dup_stored",
        "origin",
        "command",
    )

    def __init__(
        self,
        message: Message,
        qos: int,
        *,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        sequence: int = 0,
        origin: object | None = None,
    ) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.sequence = sequence
        self.ticket = 0
        self.packet_id = 0
        #: True once it left on any connection; a later send carries DUP [MQTT-3.3.1-1].
        self.sent = False
        #: True when its packet id has a record of its own, because it came after the delivery was stored.
        self.dup_stored = False
        self.origin = origin
        #: The id of the command that it is, once it was about to leave as one.
        self.command: str | None = None

    def expired(self, wall: float) -> bool:
        """True when the message's time is over."""
        expires_at = self.message.expires_at
        return expires_at is not None and expires_at <= wall
