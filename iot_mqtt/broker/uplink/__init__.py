"""What goes up: fed from the node's own log to a sink, and acknowledged to whoever published it."""

from iot_mqtt.broker.uplink.acknowledging import note_sent_up, position_of
from iot_mqtt.broker.uplink.reader import Uplink

__all__ = ["Uplink", "note_sent_up", "position_of"]
