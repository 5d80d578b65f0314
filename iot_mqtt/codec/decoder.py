"""Bytes in, items out: the one reader that connections use.

Runs of PUBLISH and of acknowledgements are the scan's; every other packet, and every packet that the scan
will not take, goes through the reader of its type, one by one. Checks come in this order: the first byte
(order, flags), the size against the limit, then, once it is complete, the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from iot_mqtt import native
from iot_mqtt.codec import order
from iot_mqtt.codec.batch import PublishBatch
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.order import Phase
from iot_mqtt.codec.packets import (
    Ack,
    Packet,
    Publish,
    acks,
    auth,
    connack,
    connect,
    disconnect,
    ping,
    publish,
    suback,
    subscribe,
    unsuback,
    unsubscribe,
)
from iot_mqtt.codec.runs import AckRun, PublishRun, run_of_one
from iot_mqtt.codec.scan import SCANNER
from iot_mqtt.codec.wire import MAX_PACKET_SIZE, Reader
from iot_mqtt.codec.wrong_port import at_mqtt_port, is_undecided
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation, ReasonCode
from iot_mqtt.native._pure_scan import RoutesByForm
from iot_mqtt.values import ProtocolVersion


class Undecoded:
    """Stands behind the items of a read that has more packets: those are decoded when it is read on."""

    __slots__ = ()


UNDECODED: Final = Undecoded()
#: What ``Decoder.feed`` returns; an error can only be the last of a list.
Item = PublishRun | PublishBatch | AckRun | Packet | MqttError

_READERS: Final[dict[PacketType, Callable[[Reader, int, ProtocolVersion, Role], Packet]]] = {
    PacketType.CONNACK: connack.read,
    PacketType.PUBLISH: publish.read,
    PacketType.PUBACK: acks.read,
    PacketType.PUBREC: acks.read,
    PacketType.PUBREL: acks.read,
    PacketType.PUBCOMP: acks.read,
    PacketType.SUBSCRIBE: subscribe.read,
    PacketType.SUBACK: suback.read,
    PacketType.UNSUBSCRIBE: unsubscribe.read,
    PacketType.UNSUBACK: unsuback.read,
    PacketType.PINGREQ: ping.read,
    PacketType.PINGRESP: ping.read,
    PacketType.DISCONNECT: disconnect.read,
    PacketType.AUTH: auth.read,
}

_FIRST: Final = Phase.FIRST
_OPEN: Final = Phase.OPEN
_OVER: Final = Phase.OVER
_SERVER: Final = Role.SERVER
_V5: Final = ProtocolVersion.V5
_PUBLISH: Final = PacketType.PUBLISH
_CONNECT: Final = PacketType.CONNECT
_CONNECT_HEAD: Final = 0x10
#: ``_mode`` while the connection is not open and the scan must keep away.
_CLOSED: Final = -1
#: Bytes of all topics that aliases of a connection stand for, or of each on the average where there are many; looked at
#: whenever so many bytes have come in packets with aliases.
ALIAS_BYTES: Final = 256 * 1024
ALIAS_BYTES_EACH: Final = 256
ALIAS_STEP: Final = 32 * 1024
#: Bytes of topics in place of aliases, of what is fed at once: a packet of 8 bytes becomes one of 64 KiB.
ALIAS_ADDED: Final = 32 * 1024 * 1024
#: Packets that are read one by one of what is fed at once, where that is bounded: some milliseconds.
AT_ONCE: Final = 500
#: Bytes of a piece that is kept as it came, and of a packet that is joined by itself.
PIECE: Final = 16_384


@mypyc_attr(allow_interpreted_subclasses=True)
class Decoder:
    """One per connection. ``feed`` never raises; behind an error or a DISCONNECT everything is ignored.

    A SERVER learns the version from CONNECT; a CLIENT has to say which it asked for. A SERVER that is given
    a version takes CONNECT as read.
    """

    __slots__ = (
        "_added",
        "_aliases",
        "_bounded",
        "_held",
        "_largest",
        "_limit",
        "_mode",
        "_names",
        "_need",
        "_phase",
        "_rest",
        "_role",
        "_unsummed",
        "large",
        "routes",
        "version",
    )

    _scanner: ClassVar[native.Scanner] = SCANNER

    def __init__(
        self,
        max_packet_size: int = MAX_PACKET_SIZE,
        *,
        max_connect_size: int | None = None,
        topic_alias_maximum: int | None = None,
        role: Role = _SERVER,
        version: ProtocolVersion | None = None,
        routes: dict[bytes, Any] | None = None,
        bounded: bool = False,
    ) -> None:
        if role is Role.CLIENT and version is None:
            raise ValueError("a client knows which version it asked for")
        #: None until CONNECT said it; known even if the rest of that CONNECT was refused.
        self.version = version
        #: Of every packet but the first.
        self._largest = max_packet_size
        #: Topic → what packets of one batch have in common; or such a dict for each ``head & 7``.
        self.routes: dict[bytes, Any] | RoutesByForm | None = routes
        self._limit = max_packet_size if max_connect_size is None else min(max_connect_size, max_packet_size)
        self._role = role
        #: Whether some bytes of what is fed may have to wait (``undecoded``).
        self._bounded = bounded
        #: The largest alias that a client may use, and what they stand for; None: who gets the packets sees to that.
        self._aliases = topic_alias_maximum
        self._names: dict[int, bytes] | None = None
        #: Bytes of packets with aliases since their topics were added up, and of topics that were put in in one go.
        self._unsummed = 0
        self._added = 0
        #: The beginning of a packet of ``_need`` bytes (at least), in pieces; small ones are one piece. None: no
        #: packet has begun.
        self._rest: list[bytes | bytearray] | None = None
        self._held = 0
        self._need = 0
        #: Bytes of the last packet that came in large pieces; 0: the last that came in pieces is smaller.
        self.large = 0
        self._mode = _CLOSED
        self._phase = _FIRST
        if role is _SERVER and version is not None:
            self._enter(_OPEN)

    @property
    def buffered(self) -> int:
        """Bytes waiting for the rest of their packet."""
        return self._held

    @property
    def missing(self) -> int:
        """Bytes that complete the packet which has begun, as far as is known."""
        return self._need - self._held if self._held else 0

    @property
    def undecoded(self) -> bool:
        """Whether what was fed has more packets than are read at once: ``feed(b"")`` goes on with them."""
        return self._held > 0 and self._need == self._held

    @property
    def begun(self) -> bytes:
        """What is there of the packet that has begun."""
        return b"".join(self._rest or ())

    @property
    def closed(self) -> bool:
        """The connection is not open yet, or over: only then an error can be the last that ``feed`` returned."""
        return self._mode < 0

    def feed(self, data: bytes) -> list[Item]:
        """The items that these bytes complete."""
        if self._held or self._mode < 0:
            return self._feed_slowly(data)
        items: list[Item] = []
        pos = self._scanner.scan(data, 0, items, self._limit, self._mode, self.routes)
        if pos != len(data):
            self._carry_on(data, pos, items)
        return items

    def _feed_slowly(self, data: bytes) -> list[Item]:
        """With bytes left from before, or before the connection is open, or after it is over."""
        items: list[Item] = []
        if self._phase is _OVER:
            return items
        if self._phase is _FIRST and not self._held and self._role is _SERVER:
            usual = self._usual_connect(data)
            if usual is not None:
                return [usual]
        behind, missing = b"", 0
        rest = self._rest
        if rest is not None:
            missing = self._need - self._held
            if len(data) < missing:
                self._hold(rest, data)
                return items
            if missing and self._need >= PIECE:
                # Joined without what is behind it: what is behind it is not copied, and the packet but once.
                data, behind = b"".join((*rest, memoryview(data)[:missing])), data
            else:
                data = b"".join((*rest, data))
            self._rest, self._held = None, 0
        self._scan(data, 0, items, 0)
        if len(behind) > missing:
            # As in ``_carry_on``: one packet, which is not a PUBLISH, may change routes.
            self._scan(behind, missing, items, 0 if data[0] >> 4 == _PUBLISH else native.IN_ORDER)
        return items

    def _usual_connect(self, data: bytes) -> Packet | None:
        """The CONNECT that came whole and by itself; None: another way has to be gone, or it is wrong."""
        try:
            packet: connect.Connect | None = connect.USUAL.read(data, self._limit)
        except MqttError:
            return None  # said again below, once the version is known
        if packet is not None:
            self.version = packet.version
            self._enter(_OPEN)
        return packet

    def _scan(self, data: bytes, pos: int, items: list[Item], order: int) -> None:
        if self._mode >= 0:
            mode = self._mode | order
            pos = self._scanner.scan(data, pos, items, self._limit, mode, self.routes)
        self._carry_on(data, pos, items)

    def _hold(self, rest: list[bytes | bytearray], data: bytes) -> None:
        """Keep a piece of a packet; as many small ones as there may be cost no more than their bytes."""
        if len(data) >= PIECE:
            rest.append(data)
        elif isinstance(rest[-1], bytearray):
            rest[-1] += data
        else:
            rest.append(bytearray(data))
        self._held += len(data)

    def _carry_on(self, data: bytes, pos: int, items: list[Item]) -> None:
        """From the first packet that the scan did not take to the end of the data."""
        end, left = len(data), AT_ONCE
        self._added = 0
        try:
            while pos < end and self._phase is not _OVER:
                after = self._named(data, pos, items)
                if after > pos:
                    pos = after
                    continue
                if not left and self._bounded:
                    self._rest, self._held, self._need = [data[pos:]], end - pos, end - pos
                    return
                left -= 1
                after = self._one(data, pos, end, items)
                if after < 0:
                    self._rest, self._held = [data[pos:]], end - pos
                    return
                pos = after
                if self._mode >= 0:
                    # A SUBSCRIBE before it changes routes, and must not change the order of what comes.
                    mode = self._mode | native.IN_ORDER
                    pos = self._scanner.scan(data, pos, items, self._limit, mode, self.routes)
        except MqttError as error:
            self._enter(_OVER)
            # The traceback would keep the buffer alive.
            items.append(error.with_traceback(None))

    def _named(self, data: bytes, pos: int, items: list[Item]) -> int:
        """Take PUBLISH packets that have aliases, by their topics; return where the first stands that is not right."""
        if self._mode < 0 or not self._mode & native.NAMES or data[pos] >> 4 != _PUBLISH:
            return pos
        names = {} if self._names is None else self._names
        room = ALIAS_ADDED - self._added
        written, after = native.named(data, pos, names, self._aliases or 0, self._limit, room)
        self._names = names or None
        # With their topics they may be larger than what a client may send.
        mode = self._mode | native.IN_ORDER if pos else self._mode
        end = self._scanner.scan(written, 0, items, MAX_PACKET_SIZE, mode, self.routes)
        while end < len(written):
            end = self._one(written, end, len(written), items)
        if names:
            self._check_names(names, after - pos, len(written))
        return after

    def _check_names(self, names: dict[int, bytes], size: int, written: int) -> None:
        """Raise where aliases cost more than they are for; so many bytes came, and were written with their topics."""
        self._added += written - size
        if self._added > ALIAS_ADDED:
            detail = f"topics in place of aliases have more than {ALIAS_ADDED} bytes at once"
            raise ProtocolViolation(detail, ReasonCode.QUOTA_EXCEEDED)
        self._unsummed += size
        if self._unsummed < ALIAS_STEP:
            return
        self._unsummed = held = 0
        for topic in names.values():
            held += len(topic)
        most = max(ALIAS_BYTES, ALIAS_BYTES_EACH * (self._aliases or 0))
        if held > most:
            detail = f"topics that aliases stand for have {held} bytes, of at most {most}"
            raise ProtocolViolation(detail, ReasonCode.QUOTA_EXCEEDED)

    def _one(self, data: bytes, pos: int, end: int, items: list[Item]) -> int:
        """Read the packet at ``pos``; return where it ends, or -1 if it is not complete."""
        head = data[pos]
        if head != _CONNECT_HEAD and self._phase is _FIRST and self._role is _SERVER:
            begin = data[pos:end]
            wrong = at_mqtt_port(begin)
            if wrong is not None:
                raise Malformed(wrong)
            if is_undecided(begin):
                self._need = len(begin) + 1
                return -1
        kind = order.packet_type(head, self.version)
        phase = order.after(self._role, self._phase, kind, self.version)
        size, start = self._length(data, pos, end)
        if size < 0:
            self._need = end - pos + 1
            return -1
        stop = start + size
        if stop - pos > self._limit:
            if kind is _CONNECT:
                # In the words of its version it can be answered.
                behind = start + connect.name_size(data, start)
                if behind > end:
                    self._need = behind - pos
                    return -1
                self.version = connect.version_of(data[start:behind])
            # Before anything else of it is buffered [MQTT-3.2.2-15].
            raise ProtocolViolation(f"a packet of {stop - pos} bytes", ReasonCode.PACKET_TOO_LARGE)
        if stop > end:
            self._need = stop - pos
            self.large = self._need if self._need >= PIECE else 0
            return -1
        reader = Reader(data, start, stop)
        packet = self._read_connect(reader, start - pos) if kind is _CONNECT else self._read(reader, head)
        reader.finish()
        if phase is not self._phase:
            self._enter(phase)
        self._append(packet, data[pos:stop], items)
        return stop

    def _length(self, data: bytes, pos: int, end: int) -> tuple[int, int]:
        """(remaining length, where the body starts); the length is -1 if it is not all there."""
        size = 0
        for index in range(1, 5):
            if pos + index >= end:
                return -1, end
            byte = data[pos + index]
            size |= (byte & 127) << 7 * (index - 1)
            if byte < 128:
                if not byte and index > 1 and self.version is _V5:
                    raise Malformed("the remaining length is longer than it need be")  # [MQTT-1.5.5-1]
                return size, pos + index + 1
        raise Malformed("the remaining length is longer than four bytes")

    def _read_connect(self, reader: Reader, head_size: int) -> Packet:
        start = reader.pos
        version, bridge = connect.read_version(reader)
        self.version = version
        if version is _V5 and head_size > 2 and not reader.data[start - 1]:
            # The version was not known when the length was read.
            raise Malformed("the remaining length is longer than it need be")  # [MQTT-1.5.5-1]
        return connect.read(reader, version, bridge=bridge)

    def _read(self, reader: Reader, head: int) -> Packet:
        return _READERS[PacketType(head >> 4)](reader, head, cast(ProtocolVersion, self.version), self._role)

    def _append(self, packet: Packet, wire: bytes, items: list[Item]) -> None:
        if isinstance(packet, Publish):
            if self._mode & native.NAMES and packet.properties.topic_alias is not None:
                raise self._wrong(packet.properties.topic_alias)
            items.append(run_of_one(packet, wire, self.version is _V5))
        elif isinstance(packet, Ack):
            last = items[-1] if items else None
            if (
                isinstance(last, AckRun)
                and last.type is packet.type
                and last.reason is packet.reason
                and last.properties == packet.properties
            ):
                last.ids.append(packet.packet_id)
            else:
                items.append(AckRun(packet.type, [packet.packet_id], packet.reason, packet.properties))
        else:
            items.append(packet)

    def _wrong(self, alias: int) -> ProtocolViolation:
        """Why an alias has no topic."""
        maximum = self._aliases or 0
        if alias > maximum:  # [MQTT-3.3.2-9]
            return ProtocolViolation(f"topic alias {alias} of at most {maximum}", ReasonCode.TOPIC_ALIAS_INVALID)
        return ProtocolViolation(f"topic alias {alias} was never set", ReasonCode.PROTOCOL_ERROR)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._mode = _CLOSED
        self._limit = self._largest
        if phase is _OPEN:
            five = native.FIVE if self.version is _V5 else 0
            self._mode = five | (native.FROM_CLIENT if self._role is _SERVER else 0)
            if five and self._aliases is not None:
                self._mode |= native.NAMES
