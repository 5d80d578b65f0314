"""Which packet may come when, as data: role → (phase, packet type) → next phase. What is absent is an error.

::

    SERVER reads   FIRST --CONNECT--> OPEN --DISCONNECT--> OVER
    CLIENT reads   FIRST --CONNACK--> OPEN --DISCONNECT--> OVER      (AUTH may come before CONNACK)

What comes later than DISCONNECT is ignored: its sender promised to send nothing more [MQTT-3.14.4-1].
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.errors import Malformed, ProtocolViolation
from iot_mqtt.values import ProtocolVersion


class Phase(Enum):
    """Where a connection stands, as far as the order of packets goes."""

    FIRST = "first"
    OPEN = "open"
    OVER = "over"

    # By identity, not by name: asked for every packet that is not part of a run.
    __hash__ = object.__hash__


_P = PacketType
_FIRST, _OPEN, _OVER = Phase.FIRST, Phase.OPEN, Phase.OVER

_BOTH_WAYS: Final = {(_OPEN, kind): _OPEN for kind in (_P.PUBLISH, _P.PUBACK, _P.PUBREC, _P.PUBREL, _P.PUBCOMP)}

TABLE: Final = {
    Role.SERVER: {
        (_FIRST, _P.CONNECT): _OPEN,  # [MQTT-3.1.0-1]; once only [MQTT-3.1.0-2]
        **_BOTH_WAYS,
        (_OPEN, _P.SUBSCRIBE): _OPEN,
        (_OPEN, _P.UNSUBSCRIBE): _OPEN,
        (_OPEN, _P.PINGREQ): _OPEN,
        (_OPEN, _P.AUTH): _OPEN,
        (_OPEN, _P.DISCONNECT): _OVER,
    },
    Role.CLIENT: {
        (_FIRST, _P.CONNACK): _OPEN,  # [MQTT-3.2.0-1]; once only [MQTT-3.2.0-2]
        (_FIRST, _P.AUTH): _FIRST,
        **_BOTH_WAYS,
        (_OPEN, _P.SUBACK): _OPEN,
        (_OPEN, _P.UNSUBACK): _OPEN,
        (_OPEN, _P.PINGRESP): _OPEN,
        (_OPEN, _P.AUTH): _OPEN,
        (_OPEN, _P.DISCONNECT): _OVER,
    },
}

#: Lower four bits of the first byte, where they are not 0000 [MQTT-2.1.3-1] [MQTT-2.2.2-1] (3.1.1).
_FLAGS: Final = {_P.PUBREL: 2, _P.SUBSCRIBE: 2, _P.UNSUBSCRIBE: 2}


#: First bytes that are right in every version.
_HEADS: Final = {kind << 4 | _FLAGS.get(kind, 0): kind for kind in PacketType if kind is not _P.AUTH} | {
    _P.PUBLISH << 4 | flags: _P.PUBLISH for flags in range(16)
}


def packet_type(head: int, version: ProtocolVersion | None) -> PacketType:
    """The type that a first byte says, its flags checked; PUBLISH flags have meanings and are its reader's."""
    usual = _HEADS.get(head)
    if usual is not None:
        return usual
    if head < 0x10 or (head >= 0xF0 and version in (ProtocolVersion.V31, ProtocolVersion.V311)):
        raise Malformed(f"packet type {head >> 4} is reserved")
    kind = PacketType(head >> 4)
    expected = _FLAGS.get(kind, 0)
    if kind is _P.PUBLISH or head & 15 == expected:
        return kind
    if expected and version is ProtocolVersion.V31:
        return kind  # MQTT 3.1 has QoS and DUP here, and a client may set DUP when it sends again.
    # [MQTT-2.2.2-2] (3.1.1) [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
    raise Malformed(f"{kind.name} with flags {head & 15:04b}")


def after(role: Role, phase: Phase, kind: PacketType, version: ProtocolVersion | None) -> Phase:
    """The phase behind a packet of this type, or ProtocolViolation if it may not come here."""
    found = TABLE[role].get((phase, kind))
    if found is None or (found is _OVER and role is Role.CLIENT and version is not ProtocolVersion.V5):
        raise ProtocolViolation(f"a {role.value} got {kind.name} in phase {phase.value}")
    return found
