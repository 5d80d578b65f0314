"""Which reason codes which packet may carry, and what MQTT 3 makes of them: the only such tables.

Clients and servers are listed apart where the specification says who may send a code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.errors import ProtocolViolation, ReasonCode

_P = PacketType
_RECEIVED = (0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
_RELEASED = (0x00, 0x92)
_SUBSCRIBED = (0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
_REFUSED = (*range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F)
_FROM_CLIENT = (0x00, 0x04, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A))
_FROM_SERVER = (0x00, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3))


def _codes(numbers: Iterable[int]) -> dict[int, ReasonCode]:
    return {number: ReasonCode(number) for number in numbers}


#: (packet, the role that reads it) → the codes it may carry.
ALLOWED: Final = {
    (packet, role): _codes(numbers)
    for packet, by_client, by_server in (
        (_P.CONNACK, (), (0x00, *_REFUSED)),
        (_P.PUBACK, _RECEIVED, _RECEIVED),
        (_P.PUBREC, _RECEIVED, _RECEIVED),
        (_P.PUBREL, _RELEASED, _RELEASED),
        (_P.PUBCOMP, _RELEASED, _RELEASED),
        (_P.SUBACK, (), _SUBSCRIBED),
        (_P.UNSUBACK, (), (0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)),
        (_P.DISCONNECT, _FROM_CLIENT, _FROM_SERVER),
        (_P.AUTH, (0x18, 0x19), (0x00, 0x18)),
    )
    for role, numbers in ((Role.SERVER, by_client), (Role.CLIENT, by_server))
}


def reason(packet: PacketType, role: Role, number: int) -> ReasonCode:
    """The reason code that the reader in ``role`` found in ``packet``.

    Clauses: [MQTT-3.2.2-8] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.9.3-2]
    [MQTT-3.11.3-2] [MQTT-3.14.2-1] [MQTT-3.15.2-1].
    """
    found = ALLOWED[packet, role].get(number)
    if found is None:
        raise ProtocolViolation(f"{packet.name} with reason 0x{number:02x}")
    return found


# -- MQTT 3.1 and 3.1.1 ------------------------------------------------------------------------------

_R = ReasonCode

#: CONNACK return codes 1 to 5 and the reason that each is read as.
_RETURN_CODES: Final = {
    0: _R.SUCCESS,
    1: _R.UNSUPPORTED_PROTOCOL_VERSION,
    2: _R.CLIENT_IDENTIFIER_NOT_VALID,
    3: _R.SERVER_UNAVAILABLE,
    4: _R.BAD_USER_NAME_OR_PASSWORD,
    5: _R.NOT_AUTHORIZED,
}

#: Every reason that a return code can say. For the others the connection is closed without a CONNACK
#: [MQTT-3.2.2-6] (3.1.1).
_AS_RETURN_CODE: Final = {code: number for number, code in _RETURN_CODES.items()} | {
    _R.BANNED: 5,
    _R.BAD_AUTHENTICATION_METHOD: 5,
    _R.SERVER_BUSY: 3,
    _R.SERVER_SHUTTING_DOWN: 3,
    _R.QUOTA_EXCEEDED: 3,
    _R.USE_ANOTHER_SERVER: 3,
    _R.SERVER_MOVED: 3,
    _R.CONNECTION_RATE_EXCEEDED: 3,
}


def return_code(code: ReasonCode) -> int | None:
    """The MQTT 3 CONNACK return code for a reason, or None if it has no word for it."""
    return _AS_RETURN_CODE.get(code)


def from_return_code(number: int) -> ReasonCode:
    """The reason behind an MQTT 3 CONNACK return code."""
    found = _RETURN_CODES.get(number)
    if found is None:
        raise ProtocolViolation(f"CONNACK with return code {number}")
    return found
