"""Packets within the size that a client takes [MQTT-3.1.2-24]: what is only a courtesy is left out first.

PUBLISH is not served here (``outflow`` drops what is too large), nor are acknowledgements and PINGRESP: none is
larger than the smallest CONNACK, so a client that could be let in can take them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from iot_mqtt.codec import NO_PROPERTIES, Auth, Connack, Disconnect, Packet, encode
from iot_mqtt.values import ProtocolVersion

#: Properties that a client may do without, in the order in which they are given up: the words to a reason
#: ([MQTT-3.2.2-19], [MQTT-3.14.2-3] and their like), then what a server may tell or not.
COURTESIES: Final = (
    ("reason_string", "user_properties"),
    ("response_information", "server_reference"),
)


def fitting(packet: Packet, version: ProtocolVersion, limit: int) -> bytes | None:
    """The packet in at most ``limit`` bytes (0: any number), or None when it can't be had that small."""
    data = encode(packet, version)
    if not limit or len(data) <= limit:
        return data
    if isinstance(packet, Connack | Disconnect | Auth):
        for names in COURTESIES:
            without: dict[str, Any] = {name: getattr(NO_PROPERTIES, name) for name in names}
            packet = replace(packet, properties=replace(packet.properties, **without))
            data = encode(packet, version)
            if len(data) <= limit:
                return data
    return None
