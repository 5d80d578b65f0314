"""The words of the codec itself: packet types, and which end of the connection is reading."""

from __future__ import annotations

from enum import Enum, IntEnum


class PacketType(IntEnum):
    """The upper four bits of the first byte; 0 is reserved [MQTT5 2.1.2]."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


#: The four acknowledgements of a PUBLISH, which travel as an ``AckRun``.
ACKNOWLEDGEMENTS = frozenset({PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP})


class Role(Enum):
    """Who holds the decoder: a SERVER reads what clients send, a CLIENT what servers send."""

    SERVER = "server"
    CLIENT = "client"

    __hash__ = object.__hash__
