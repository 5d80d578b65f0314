"""What goes up: fed from the node's own log to a sink, and acknowledged to whoever published it."""

from iot_mqtt.broker.uplink.failover import UplinkFailover
from iot_mqtt.broker.uplink.holding import Holding
from iot_mqtt.broker.uplink.ledger import Ledger
from iot_mqtt.broker.uplink.others import Others
from iot_mqtt.broker.uplink.reader import Uplink
from iot_mqtt.broker.uplink.step import SendUp

__all__ = ["Holding", "Ledger", "Others", "SendUp", "Uplink", "UplinkFailover"]
