"""CONNECT: who the client is, which MQTT it speaks, and the will it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from iot_mqtt import native
from iot_mqtt.codec import properties as props
from iot_mqtt.codec import wire
from iot_mqtt.codec.kinds import PacketType
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.errors import Malformed, ProtocolViolation, ReasonCode
from iot_mqtt.values import ProtocolVersion


@dataclass(frozen=True, slots=True)
class ConnectWill:
    """The will as CONNECT carries it; the delay is among its properties."""

    topic: bytes
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES

    def __repr__(self) -> str:
        return f"<ConnectWill {self.topic!r} qos={self.qos} retain={self.retain} {len(self.payload)} bytes>"


@dataclass(frozen=True, slots=True)
class Connect:
    """The first packet of a client; an empty ``client_id`` asks the server for one."""

    type: ClassVar[PacketType] = PacketType.CONNECT

    version: ProtocolVersion
    client_id: str
    clean_start: bool = True
    keep_alive: int = 0
    username: str | None = None
    password: bytes | None = None
    will: ConnectWill | None = None
    properties: Properties = NO_PROPERTIES
    #: It says that it is a bridge of another broker: by the highest bit of its protocol level, as mosquitto's do.
    bridge: bool = False

    def __repr__(self) -> str:
        # The password stays out of logs and tracebacks; authentication data likewise.
        return f"<Connect {self.version.name} {self.client_id!r} clean_start={self.clean_start} user={self.username!r}>"


#: Protocol name with its length, and level, as one piece of bytes.
_NAMES: Final = {
    ProtocolVersion.V31: b"\0\6MQIsdp\3",
    ProtocolVersion.V311: b"\0\4MQTT\4",
    ProtocolVersion.V5: b"\0\4MQTT\5",
}

_BRIDGE: Final = 0x80
#: What a bridge says instead. MQTT 5 needs none: what a bridge wants is said there with each subscription.
_BRIDGES: Final[dict[ProtocolVersion, bytes]] = {
    version: name[:-1] + bytes((name[-1] | _BRIDGE,))
    for version, name in _NAMES.items()
    if version is not ProtocolVersion.V5
}
_VERSIONS: Final = {
    **{name: (version, False) for version, name in _NAMES.items()},
    **{name: (version, True) for version, name in _BRIDGES.items()},
}
#: How the name of MQTT 3.1, the longer one, begins.
_OLD: Final = b"\0\6"

_USERNAME, _PASSWORD, _WILL_RETAIN, _WILL, _CLEAN, _RESERVED = 0x80, 0x40, 0x20, 0x04, 0x02, 0x01


def name_size(data: bytes, start: int) -> int:
    """How many bytes protocol name and level have, where they are those of MQTT."""
    return 9 if data.startswith(_OLD, start) else 7


def version_of(name: bytes) -> ProtocolVersion | None:
    """What protocol name and level say; None: no version that is spoken here."""
    known = _VERSIONS.get(name)
    return None if known is None else known[0]


def read_version(reader: wire.Reader) -> tuple[ProtocolVersion, bool]:
    """The version that protocol name and level say, and whether it is a bridge's; read first, because an answer depends
    on it.
    """
    start = reader.pos
    stop = start + name_size(reader.data, start)
    known = _VERSIONS.get(reader.data[start:stop]) if stop <= reader.end else None
    if known is not None:
        reader.pos = stop
        return known
    # As text: the log masks bytes, which may be a payload.
    name = reader.binary()[:16].decode("utf-8", "replace")
    level = reader.byte()
    # [MQTT-3.1.2-1] [MQTT-3.1.2-2]; bytes that are no protocol name at all get the same answer.
    raise ProtocolViolation(f"protocol {name!r} level {level}", ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)


def read(reader: wire.Reader, version: ProtocolVersion, *, bridge: bool = False) -> Connect:
    """What follows the protocol level.

    ::

        | 10 | length | protocol name, level | flags | keep alive | properties (v5) |
             | client id | will properties (v5), topic, payload | user name | password |
    """
    five = version is ProtocolVersion.V5
    flags, high, low = reader.take(3)
    if flags & ~_CLEAN:
        _check_flags(flags, version)
    properties = NO_PROPERTIES
    if five:
        properties = props.read_connect(reader.take(reader.varint()))
    client_id = reader.text()  # [MQTT-3.1.3-3] [MQTT-3.1.3-4]
    will = _read_will(reader, flags, five) if flags & _WILL else None
    username = password = None
    # MQTT 3.1 lets the remaining length overrule the flags for user name and password.
    short = version is ProtocolVersion.V31
    if flags & _USERNAME and not (short and not reader.left):
        username = reader.text()
    if flags & _PASSWORD and not (short and not reader.left):
        password = reader.binary()
    clean, keep_alive = flags & _CLEAN != 0, high << 8 | low
    return Connect(version, client_id, clean, keep_alive, username, password, will, properties, bridge)


def _check_flags(flags: int, version: ProtocolVersion) -> None:
    if flags & _RESERVED and version is not ProtocolVersion.V31:
        raise Malformed("the reserved connect flag is set")  # [MQTT-3.1.2-3]
    if not flags & _WILL:
        if flags & 0x38:
            raise Malformed("will QoS or retain without a will")  # [MQTT-3.1.2-11] [MQTT-3.1.2-13] [MQTT-3.1.2-15]
    elif flags & 0x18 == 0x18:
        raise Malformed("a will of QoS 3")  # [MQTT-3.1.2-12] [MQTT-3.1.2-14]
    if flags & _PASSWORD and not flags & _USERNAME and version is not ProtocolVersion.V5:
        raise Malformed("a password without a user name")  # [MQTT-3.1.2-22] (3.1.1)


def _read_will(reader: wire.Reader, flags: int, five: bool) -> ConnectWill:
    block = reader.take(reader.varint()) if five else b""
    return _make_will(flags, block, reader.binary(), reader.binary())


def _make_will(flags: int, block: bytes, topic: bytes, payload: bytes) -> ConnectWill:
    properties = props.read(block, props.WILL)
    wire.check_topic(topic)  # [MQTT-3.1.3-11]
    return ConnectWill(topic, payload, flags >> 3 & 3, flags & _WILL_RETAIN != 0, properties)


def build(reader: Any = native.ConnectReader) -> native.ConnectReader:
    """A reader of the given class, so that both can be held against the same vectors."""
    built: native.ConnectReader = reader(
        Connect, ProtocolVersion.V311, ProtocolVersion.V5, NO_PROPERTIES, props.read_connect, _make_will
    )
    return built


#: For a CONNECT that comes whole and by itself; what it does not take goes through ``read``.
USUAL: Final = build()


def write(packet: Connect, _version: ProtocolVersion) -> bytes:
    """The whole packet, in the version that it says itself."""
    five = packet.version is ProtocolVersion.V5
    will = packet.will
    if packet.password is not None and packet.username is None and not five:
        raise ValueError("MQTT 3 has no password without a user name")
    flags = _CLEAN if packet.clean_start else 0
    names = _BRIDGES if packet.bridge else _NAMES
    parts = [names[packet.version], b"", wire.u16(packet.keep_alive)]
    if five:
        parts.append(props.block(packet.properties))
    parts.append(wire.string(packet.client_id))
    if will is not None:
        flags |= _WILL | will.qos << 3 | (_WILL_RETAIN if will.retain else 0)
        if five:
            parts.append(props.block(will.properties))
        parts += (wire.binary(will.topic), wire.binary(will.payload))
    if packet.username is not None:
        flags |= _USERNAME
        parts.append(wire.string(packet.username))
    if packet.password is not None:
        flags |= _PASSWORD
        parts.append(wire.binary(packet.password))
    parts[1] = bytes((flags,))
    return wire.packet(0x10, b"".join(parts))
