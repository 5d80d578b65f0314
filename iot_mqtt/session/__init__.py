"""The pure half of a session: windows, queues, aliases, quotas. Time is passed in, nothing here does I/O."""

from iot_mqtt.session.aliases import OutboundAliases
from iot_mqtt.session.delivery import Delivery
from iot_mqtt.session.flight import Convoy, Flight, Piece, Row, Segment
from iot_mqtt.session.inbound import Inbound
from iot_mqtt.session.outbound import RELEASED, SENT_QOS1, SENT_QOS2, Outbound
from iot_mqtt.session.queue import DeliveryQueue, QueuedInAll

__all__ = [
    "RELEASED",
    "SENT_QOS1",
    "SENT_QOS2",
    "Convoy",
    "Delivery",
    "DeliveryQueue",
    "Flight",
    "Inbound",
    "Outbound",
    "Piece",
    "QueuedInAll",
    "Row",
    "Segment",
    "OutboundAliases",
]
