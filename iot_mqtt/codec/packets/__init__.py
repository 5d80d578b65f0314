"""One file per packet type: its value, ``read`` and ``write``, both MQTT versions."""

from iot_mqtt.codec.packets.acks import Ack
from iot_mqtt.codec.packets.auth import Auth
from iot_mqtt.codec.packets.connack import Connack
from iot_mqtt.codec.packets.connect import Connect, ConnectWill
from iot_mqtt.codec.packets.disconnect import Disconnect
from iot_mqtt.codec.packets.ping import PINGREQ, PINGRESP, Pingreq, Pingresp
from iot_mqtt.codec.packets.publish import Publish
from iot_mqtt.codec.packets.suback import Suback
from iot_mqtt.codec.packets.subscribe import Request, Subscribe
from iot_mqtt.codec.packets.unsuback import Unsuback
from iot_mqtt.codec.packets.unsubscribe import Unsubscribe

__all__ = [
    "PINGREQ",
    "PINGRESP",
    "Ack",
    "Auth",
    "Connack",
    "Connect",
    "ConnectWill",
    "Disconnect",
    "Packet",
    "Pingreq",
    "Pingresp",
    "Publish",
    "Request",
    "Suback",
    "Subscribe",
    "Unsuback",
    "Unsubscribe",
]

#: Any packet as a value.
Packet = (
    Connect
    | Connack
    | Publish
    | Ack
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
