"""PINGREQ: answered with PINGRESP [MQTT-3.12.4-1]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.codec import Pingreq

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection

PINGRESP = b"\xd0\x00"


def on_pingreq(connection: Connection, _packet: Pingreq) -> None:
    """Answer at once; nothing is looked at but that it came."""
    counters = connection.broker.counters
    counters.packets_received["PINGREQ"] += 1
    counters.packets_sent["PINGRESP"] += 1
    connection.send(PINGRESP)
