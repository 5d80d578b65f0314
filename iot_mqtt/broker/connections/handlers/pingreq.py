"""PINGREQ: answered with PINGRESP [MQTT-3.12.4-1]."""

from __future__ import annotations

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.codec import Pingreq
from iot_mqtt.ports.counters import Counters

PINGRESP = b"\xd0\x00"


class PingreqHandler:
    """Answers at once; nothing is looked at but that it came."""

    __slots__ = ("_counters",)

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def serve(self, connection: Connection, _packet: Pingreq) -> None:
        """PINGREQ came."""
        self._counters.packets_received["PINGREQ"] += 1
        self._counters.others_sent["PINGRESP"] += 1
        connection.send(PINGRESP)
