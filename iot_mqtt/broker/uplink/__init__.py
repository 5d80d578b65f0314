"""What goes up: fed from the node's own log to a sink, and acknowledged to whoever published it."""

from iot_mqtt.broker.uplink.reader import Uplink
from iot_mqtt.broker.uplink.step import SendUp

__all__ = ["SendUp", "Uplink"]
