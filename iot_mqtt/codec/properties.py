"""MQTT 5 properties: one value with a typed field for each, and the one table that reads, writes and checks them.

A raw *block* is what stands behind the property length. PUBLISH blocks are read through a cache, because a
publisher repeats itself, and those of CONNECT that are numbers only, because a fleet does; the other packets carry
secrets or come once, and are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from iot_mqtt import native
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.pairs import Pairs, joined
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation, ReasonCode

__all__ = [
    "NO_PROPERTIES",
    "WILL",
    "Properties",
    "block",
    "forwardable",
    "passed_on",
    "read",
    "read_connect",
    "read_publish",
    "write",
]

#: The will of a CONNECT carries properties of its own; it stands in the tables as if it were packet type 0.
WILL: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The properties of one packet under the names of the specification; None where absent."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: Sequence[tuple[str, str]] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifier_available: bool | None = None
    shared_subscription_available: bool | None = None

    def named(self, name: str) -> list[str]:
        """The values of the user properties with a name, in their order."""
        pairs = self.user_properties
        if type(pairs) is Pairs:
            return pairs.named(name)
        return [value for key, value in pairs if key == name]


NO_PROPERTIES: Final = Properties()


# -- the shapes a value can have ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """How one kind of value is read from a block and written into one."""

    read: Callable[[wire.Reader], Any]
    write: Callable[[Any], bytes]


def _read_flag(reader: wire.Reader) -> bool:
    value = reader.byte()
    if value > 1:
        raise ProtocolViolation(f"a property that is 0 or 1 has the value {value}")
    return value == 1


def _read_pairs(reader: wire.Reader) -> Pairs:
    """All that stand in a row; the reader is behind the identifier of the first."""
    start = reader.pos - 1
    stop, count = native.pairs(reader.data, start)
    if count:
        reader.pos = stop
    else:
        # One of its strings is wrong, and says how.
        reader.text()
        reader.text()
    return Pairs(reader.data[start:stop], count)


_BIT = _Shape(lambda reader: int(_read_flag(reader)), lambda value: bytes((value,)))
_FLAG = _Shape(_read_flag, lambda value: b"\1" if value else b"\0")
_U16 = _Shape(wire.Reader.u16, wire.u16)
_U32 = _Shape(wire.Reader.u32, lambda value: value.to_bytes(4, "big"))
_VARINT = _Shape(wire.Reader.varint, wire.varint)
_TEXT = _Shape(wire.Reader.text, wire.string)
_BINARY = _Shape(wire.Reader.binary, wire.binary)
_PAIR = _Shape(_read_pairs, lambda pair: wire.string(pair[0]) + wire.string(pair[1]))


# -- which property is which, and where it may stand [MQTT5 table 2-4] --------------------------------


@dataclass(frozen=True, slots=True)
class _Property:
    identifier: int
    name: str
    shape: _Shape
    packets: frozenset[int]
    #: Packets in which it may stand more than once.
    repeats: frozenset[int] = frozenset()
    #: The reason when the value is 0, where 0 is not allowed.
    zero: ReasonCode | None = None


_P = PacketType
_CONNECT, _CONNACK, _PUBLISH = frozenset({_P.CONNECT}), frozenset({_P.CONNACK}), frozenset({_P.PUBLISH})
_MESSAGE = frozenset({_P.PUBLISH, WILL})
_AUTHENTICATION = frozenset({_P.CONNECT, _P.CONNACK, _P.AUTH})
_BOTH_CONN = _CONNECT | _CONNACK
_REASONED = frozenset(
    {_P.CONNACK, _P.PUBACK, _P.PUBREC, _P.PUBREL, _P.PUBCOMP, _P.SUBACK, _P.UNSUBACK, _P.DISCONNECT, _P.AUTH}
)
_EVERYWHERE = _REASONED | frozenset({_P.CONNECT, _P.PUBLISH, WILL, _P.SUBSCRIBE, _P.UNSUBSCRIBE})
_WRONG = ReasonCode.PROTOCOL_ERROR

_TABLE: Final = (
    _Property(0x01, "payload_format_indicator", _BIT, _MESSAGE),
    _Property(0x02, "message_expiry_interval", _U32, _MESSAGE),
    _Property(0x03, "content_type", _TEXT, _MESSAGE),
    _Property(0x08, "response_topic", _TEXT, _MESSAGE),
    _Property(0x09, "correlation_data", _BINARY, _MESSAGE),
    _Property(0x0B, "subscription_identifiers", _VARINT, _PUBLISH | {_P.SUBSCRIBE}, _PUBLISH, zero=_WRONG),
    _Property(0x11, "session_expiry_interval", _U32, _BOTH_CONN | {_P.DISCONNECT}),
    _Property(0x12, "assigned_client_identifier", _TEXT, _CONNACK),
    _Property(0x13, "server_keep_alive", _U16, _CONNACK),
    _Property(0x15, "authentication_method", _TEXT, _AUTHENTICATION),
    _Property(0x16, "authentication_data", _BINARY, _AUTHENTICATION),
    _Property(0x17, "request_problem_information", _FLAG, _CONNECT),
    _Property(0x18, "will_delay_interval", _U32, frozenset({WILL})),
    _Property(0x19, "request_response_information", _FLAG, _CONNECT),
    _Property(0x1A, "response_information", _TEXT, _CONNACK),
    _Property(0x1C, "server_reference", _TEXT, _CONNACK | {_P.DISCONNECT}),
    _Property(0x1F, "reason_string", _TEXT, _REASONED),
    _Property(0x21, "receive_maximum", _U16, _BOTH_CONN, zero=_WRONG),
    _Property(0x22, "topic_alias_maximum", _U16, _BOTH_CONN),
    _Property(0x23, "topic_alias", _U16, _PUBLISH, zero=ReasonCode.TOPIC_ALIAS_INVALID),  # [MQTT-3.3.2-8]
    _Property(0x24, "maximum_qos", _BIT, _CONNACK),
    _Property(0x25, "retain_available", _FLAG, _CONNACK),
    _Property(0x26, "user_properties", _PAIR, _EVERYWHERE, _EVERYWHERE),
    _Property(0x27, "maximum_packet_size", _U32, _BOTH_CONN, zero=_WRONG),
    _Property(0x28, "wildcard_subscription_available", _FLAG, _CONNACK),
    _Property(0x29, "subscription_identifier_available", _FLAG, _CONNACK),
    _Property(0x2A, "shared_subscription_available", _FLAG, _CONNACK),
)
_BY_IDENTIFIER: Final = {entry.identifier: entry for entry in _TABLE}
#: Fields whose value is a tuple, whatever packet they stand in.
_TUPLES: Final = frozenset({"subscription_identifiers", "user_properties"})
#: What belongs to one hop only: message expiry (passed on with the remaining time), identifiers, alias.
_ONE_HOP: Final = frozenset({0x02, 0x0B, 0x23})

assert [entry.name for entry in _TABLE] == [field.name for field in fields(Properties)]


#: [MQTT-3.3.4-6]
_IDENTIFIED: Final = "a client sent a subscription identifier"


def _entries(raw: bytes, packet: int) -> Iterator[tuple[_Property, Any, int, int]]:
    """Each property with its value, and where in the block it stands; user properties in a row are one."""
    reader = wire.Reader(raw)
    while reader.left:
        start = reader.pos
        entry = _BY_IDENTIFIER.get(reader.varint())
        if entry is None or packet not in entry.packets:
            raise Malformed(f"property 0x{raw[start]:02x} may not stand in this packet")
        yield entry, entry.shape.read(reader), start, reader.pos


def read(raw: bytes, packet: int, *, identifiers: bool = True) -> Properties:
    """The properties of a block, each allowed in ``packet`` (a type, or WILL) and none twice. ``identifiers``: whether
    a PUBLISH may have those of subscriptions.
    """
    if not raw:
        return NO_PROPERTIES
    found: dict[str, Any] = {}
    for entry, value, _, _ in _entries(raw, packet):
        if not identifiers and entry.name == "subscription_identifiers":
            raise ProtocolViolation(_IDENTIFIED)
        if entry.zero is not None and not value:
            raise ProtocolViolation(f"{entry.name} is 0", entry.zero)
        name = entry.name
        if name in _TUPLES:
            if name in found and packet not in entry.repeats:
                raise ProtocolViolation(f"{name} stands twice")
            found.setdefault(name, []).append(value)
        elif name in found:
            raise ProtocolViolation(f"{name} stands twice")
        else:
            found[name] = value
    for name in _TUPLES.intersection(found):
        found[name] = joined(found[name]) if name == "user_properties" else tuple(found[name])
    properties = Properties(**found)
    _check(properties)
    return properties


def _check(properties: Properties) -> None:
    """Rules that look at more than one number."""
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise ProtocolViolation("authentication data without a method")  # [MQTT5 3.1.2.11.10]
    topic = properties.response_topic
    if topic is not None and (not topic or "#" in topic or "+" in topic):
        raise ProtocolViolation("the response topic is no topic name")  # [MQTT-3.3.2-14]


def write(properties: Properties) -> bytes:
    """The raw block, by ascending identifier, user properties in their order [MQTT-3.3.2-18]."""
    if properties is NO_PROPERTIES:
        return b""
    return b"".join(_written(properties))


def _written(properties: Properties, leave_out: frozenset[int] = frozenset()) -> Iterator[bytes]:
    for entry in _TABLE:
        value = getattr(properties, entry.name)
        if value is None or entry.identifier in leave_out:
            continue
        if type(value) is Pairs:
            yield value.raw
            continue
        for one in value if entry.name in _TUPLES else (value,):
            yield bytes((entry.identifier,)) + entry.shape.write(one)


def block(properties: Properties) -> bytes:
    """The raw block behind its length, as packets carry it."""
    if properties is NO_PROPERTIES:
        return b"\0"
    raw = write(properties)
    return wire.varint(len(raw)) + raw


# -- PUBLISH -----------------------------------------------------------------------------------------

#: Longer blocks are not worth their memory in a cache.
_CACHED_SIZE: Final = 256


@lru_cache(maxsize=4096)
def _cached_publish(raw: bytes) -> Properties:
    return read(raw, PacketType.PUBLISH)


def read_publish(raw: bytes, from_client: bool) -> Properties:
    """The properties of a PUBLISH; a client may not send subscription identifiers."""
    if len(raw) <= _CACHED_SIZE:
        properties = _cached_publish(raw)
        if from_client and properties.subscription_identifiers:
            raise ProtocolViolation(_IDENTIFIED)
        return properties
    return read(raw, PacketType.PUBLISH, identifiers=not from_client)


def _read_connect(raw: bytes) -> Properties:
    return read(raw, PacketType.CONNECT)


#: Authentication method and data, user property: what has one of these bytes in it, if only as a number, is not kept.
_SECRETS: Final = frozenset((0x15, 0x16, 0x26))
#: As long as a block with every number that CONNECT may have.
_NUMBERS_SIZE: Final = 20
_cached_connect = lru_cache(maxsize=256)(_read_connect)


def read_connect(raw: bytes) -> Properties:
    """The properties of a CONNECT, one value for all clients that say the same."""
    if len(raw) <= _NUMBERS_SIZE and _SECRETS.isdisjoint(raw):
        return _cached_connect(raw)
    return _read_connect(raw)


def _forwardable(raw: bytes) -> bytes:
    kept = [raw[start:stop] for entry, _, start, stop in _publish_entries(raw) if entry.identifier not in _ONE_HOP]
    return b"".join(kept)


def _publish_entries(raw: bytes) -> Iterator[tuple[_Property, Any, int, int]]:
    try:
        yield from _entries(raw, PacketType.PUBLISH)
    except MqttError as error:
        raise ValueError("the block was not validated") from error


_cached_forwardable = lru_cache(maxsize=4096)(_forwardable)


def forwardable(raw: bytes) -> bytes:
    """A validated PUBLISH block without what belongs to one hop: alias, message expiry, identifiers.

    What stays keeps its bytes and its order [MQTT-3.3.2-17] [MQTT-3.3.2-18].
    """
    if not raw:
        return raw
    return _cached_forwardable(raw) if len(raw) <= _CACHED_SIZE else _forwardable(raw)


def passed_on(properties: Properties) -> bytes:
    """The raw block that a will or a PUBLISH with these properties passes on to its receivers."""
    if properties is NO_PROPERTIES:
        return b""
    return b"".join(_written(properties, _ONE_HOP | {0x18}))
