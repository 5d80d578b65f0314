"""PINGREQ and PINGRESP: two bytes each, and nothing to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Pingreq:
    """A sign of life that wants an answer."""

    type: ClassVar[PacketType] = PacketType.PINGREQ


@dataclass(frozen=True, slots=True)
class Pingresp:
    """The answer."""

    type: ClassVar[PacketType] = PacketType.PINGRESP


PINGREQ: Final = Pingreq()
PINGRESP: Final = Pingresp()


def read(_reader: wire.Reader, head: int, _version: ProtocolVersion, _role: Role) -> Pingreq | Pingresp:
    """One value serves every connection; the decoder refuses a body."""
    return PINGREQ if head == 0xC0 else PINGRESP


def write(packet: Pingreq | Pingresp, _version: ProtocolVersion) -> bytes:
    """The whole packet."""
    return b"\xc0\0" if packet.type is PacketType.PINGREQ else b"\xd0\0"
