"""The pure-Python twin of ``_scan.pyx``: same names, same results, checked against the same vectors.

Knows the bytes of PUBLISH and of the four acknowledgements and nothing else. ``Scanner.scan`` takes only
packets that are complete and correct, and stops in front of any other: the codec's readers then say
exactly what is wrong with it, so no reason code is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from iot_mqtt.errors import MqttError

#: Mode bits of ``scan``.
FIVE = 1
FROM_CLIENT = 2
#: Nothing is gathered: what the table says may have changed by when it is looked at.
IN_ORDER = 4
#: Packets with a topic alias are not taken: they are to be written anew, with their names.
NAMES = 8

#: Validated topics, so that a topic is one object however often it is published. Bounded.
_TOPICS_KNOWN = 16_384
_TOPIC_SIZE = 256

#: Bytes of those properties of PUBLISH that always have as many.
_SIZES = {0x01: 1, 0x02: 4, 0x23: 2}

#: First bytes a PUBLISH may have: not QoS 3, and no DUP at QoS 0.
_HEADS = frozenset(head for head in range(0x30, 0x40) if head & 6 != 6 and head & 14 != 8)


class FormRoutes(Protocol):
    """Topics → routes of one form. A topic that begins with ``free`` and has no further level may be looked up in
    ``classes`` in its place, which says the same.
    """

    @property
    def free(self) -> bytes: ...

    @property
    def classes(self) -> dict[bytes, Any]: ...

    def __getitem__(self, topic: bytes, /) -> Any: ...

    def __contains__(self, topic: object, /) -> bool: ...


class RoutesByForm(Protocol):
    """Routes that differ by ``head & 7``: QoS and RETAIN."""

    def __getitem__(self, form: int, /) -> FormRoutes: ...


class Scanner:
    """Cuts a buffer into runs. One for the whole process; holds no connection's state."""

    __slots__ = ("_ack", "_ack_types", "_batch", "_check_topic", "_none", "_properties", "_run", "_success", "_topics")

    def __init__(
        self,
        run: type[Any],
        batch: type[Any],
        ack: type[Any],
        ack_types: Sequence[Any],
        success: Any,
        no_properties: Any,
        read_properties: Callable[[bytes, bool], Any],
        check_topic: Callable[[bytes], None],
    ) -> None:
        """``ack_types`` are PUBACK to PUBCOMP; the two callables raise ``MqttError`` for what is wrong."""
        self._run = run
        self._batch = batch
        self._ack = ack
        self._ack_types = tuple(ack_types)
        self._success = success
        self._none = no_properties
        self._properties = read_properties
        self._check_topic = check_topic
        self._topics: dict[bytes, bytes] = {}

    def scan(
        self,
        data: bytes,
        pos: int,
        items: list[Any],
        limit: int,
        mode: int,
        routes: dict[bytes, Any] | RoutesByForm | None = None,
    ) -> int:
        """Append the runs at ``data[pos:]`` to ``items``; return where the first packet stands that is none.

        ``limit`` is the largest packet allowed, in bytes; ``mode`` is FIVE and FROM_CLIENT. ``routes``: packets whose
        topics have the same value there are one batch; None: in no batch. It may be one for each ``head & 7``. At QoS 0
        packets of values that differ in ``alone`` (not None) are gathered across each other. What these mean is not
        known here.
        """
        end = len(data)
        while end - pos >= 4:
            kind = data[pos] >> 4
            if kind == 3:
                after = pos
                if routes is not None:
                    after = self._routed(data, pos, end, items, limit, mode, routes)
                if after == pos:
                    after = self._publishes(data, pos, end, items, limit, mode)
            elif 4 <= kind <= 7:
                after = self._acknowledgements(data, pos, end, items, mode)
            else:
                return pos
            if after == pos:
                return pos
            pos = after
        return pos

    def _publishes(self, data: bytes, pos: int, end: int, items: list[Any], limit: int, mode: int) -> int:
        head = data[pos]
        if head not in _HEADS:
            return pos
        five, qos = mode & FIVE != 0, head & 6 != 0
        topic, packet_id, behind, stop = _fields(data, pos, end, limit, five, qos)
        if topic is None:
            return pos
        payload, raw, properties = self._block(data, behind, stop, mode) if five else (behind, b"", self._none)
        known = self._topic(topic, properties) if payload <= stop else None
        if known is None or (mode & NAMES and properties.topic_alias is not None):
            return pos
        run = self._run()
        run.head, run.five, run.raw_properties, run.properties = head, five, raw, properties
        run.topic = known
        run.prefix = 2 + len(topic) + 2 * qos + payload - behind
        run._payloads = run._forwardable = None
        ids, block = [packet_id], data[behind:payload]
        count, longest, here = 1, stop - pos, stop
        while end - here >= 4 and data[here] == head:
            other, packet_id, behind, stop = _fields(data, here, end, limit, five, qos)
            if other != topic or not data.startswith(block, behind, stop):
                break
            ids.append(packet_id)
            count += 1
            longest = max(longest, stop - here)
            here = stop
        run.wire, run.count, run.longest, run.ids = data[pos:here], count, longest, ids if qos else []
        items.append(run)
        return here

    def _routed(
        self,
        data: bytes,
        pos: int,
        end: int,
        items: list[Any],
        limit: int,
        mode: int,
        routes: dict[bytes, Any] | RoutesByForm,
    ) -> int:
        """Packets whose topics have one route, with nothing that the broker has to look at; ``pos`` if the first is
        none.
        """
        head = data[pos]
        if head & 14 > 4:  # DUP, or no QoS
            return pos
        five, qos = mode & FIVE != 0, head & 6 != 0
        in_order = qos or mode & IN_ORDER != 0
        groups: dict[Any, _Group] = {}
        route, here = None, pos
        topics = routes if isinstance(routes, dict) else routes[head & 7]
        while end - here >= 4 and data[here] == head:
            topic, packet_id, behind, stop = _fields(data, here, end, limit, five, qos)
            if topic is None:
                break
            if five and data[behind]:
                payload, _, properties = self._block(data, behind, stop, mode)
                if payload > stop or properties.topic_alias is not None or properties.subscription_identifiers:
                    break
            if topic not in topics and (not topic or self._topic(topic, self._none) is None):
                break
            found = topics[topic]
            if found is not None and head & 1:
                found = found.retained or found
            if found is not None and qos:
                found = found.above or found
            if found is None or (route is not None and found is not route and (in_order or not _fits(groups, found))):
                break
            route = found
            group = groups.get(route)
            if group is None:
                group = groups[route] = _Group()
            group.add(data[here:stop], packet_id)
            here = stop
        for route, group in groups.items():
            batch = self._batch()
            batch.head, batch.five, batch.route, batch._publications = head, five, route, None
            batch.data = wire = b"".join(group.wire)
            batch.begin, batch.end = 0, len(wire)
            batch.count, batch.longest = len(group.wire), max(map(len, group.wire))
            batch.ids = group.ids if qos else []
            items.append(batch)
        return here

    def _block(self, data: bytes, at: int, stop: int, mode: int) -> tuple[int, bytes, Any]:
        """(where the payload starts, raw property block, properties); behind ``stop`` if that is wrong."""
        length, payload = _block_length(data, at, stop)
        if payload > stop or not length:
            return payload, b"", self._none
        raw = data[payload - length : payload]
        try:
            return payload, raw, self._properties(raw, mode & FROM_CLIENT != 0)
        except MqttError:
            return stop + 1, b"", self._none

    def _topic(self, topic: bytes, properties: Any) -> bytes | None:
        known = self._topics.get(topic)
        if known is not None:
            return known
        if not topic:
            # An alias stands for the topic; the scan does not know which.
            return topic if properties.topic_alias is not None else None
        try:
            self._check_topic(topic)
        except MqttError:
            return None
        if len(topic) <= _TOPIC_SIZE:
            if len(self._topics) >= _TOPICS_KNOWN:
                self._topics.clear()
            self._topics[topic] = topic
        return topic

    def _acknowledgements(self, data: bytes, pos: int, end: int, items: list[Any], mode: int) -> int:
        head = data[pos]
        if head & 15 != (2 if head >> 4 == 6 else 0):
            return pos
        five = mode & FIVE
        ids: list[int] = []
        while end - pos >= 4 and data[pos] == head:
            size = data[pos + 1]
            stop = pos + 2 + size
            packet_id = data[pos + 2] << 8 | data[pos + 3]
            if size != 2 and not (five and 2 < size < 5 and stop <= end and not any(data[pos + 4 : stop])):
                break
            if not packet_id:
                break
            ids.append(packet_id)
            pos = stop
        if ids:
            items.append(self._ack(self._ack_types[(head >> 4) - 4], ids, self._success, self._none))
        return pos


class _Group:
    """Packets of one route."""

    __slots__ = ("ids", "wire")

    def __init__(self) -> None:
        self.wire: list[bytes] = []
        self.ids: list[int] = []

    def add(self, wire: bytes, packet_id: int) -> None:
        self.wire.append(wire)
        self.ids.append(packet_id)


def _fits(groups: dict[Any, _Group], route: Any) -> bool:
    """Whether packets of one route may come behind later ones of another: each must be alone with something else."""
    if route in groups:
        return True
    return route.alone is not None and all(
        other.alone is not None and other.alone is not route.alone for other in groups
    )


def _fields(data: bytes, here: int, end: int, limit: int, five: bool, qos: bool) -> tuple[bytes | None, int, int, int]:
    """(topic, packet id, where its properties begin, where it ends) of a PUBLISH; None: it is not there, or wrong."""
    size, at = data[here + 1], here + 2
    if size > 127:
        size, at = _long_length(data, here + 1, end, five)
    stop = at + size
    if size < 2 or stop > end or stop - here > limit:
        return None, 0, 0, here
    behind = at + 2 + (data[at] << 8 | data[at + 1])
    if behind + 2 * qos + five > stop:
        return None, 0, 0, here
    topic = data[at + 2 : behind]
    if not qos:
        return topic, 0, behind, stop
    packet_id = data[behind] << 8 | data[behind + 1]
    return topic if packet_id else None, packet_id, behind + 2, stop


def _long_length(data: bytes, at: int, end: int, shortest: int) -> tuple[int, int]:
    """(remaining length, where the body starts); the length is -1 if it is cut off or wrong."""
    size = shift = 0
    for index in range(at, min(at + 4, end)):
        byte = data[index]
        size |= (byte & 127) << shift
        if byte < 128:
            if shift and not byte and shortest:
                break
            return size, index + 1
        shift += 7
    return -1, at


def _block_length(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """(length of the property block, where it ends); it ends behind ``stop`` if that is wrong."""
    if at < stop and data[at] < 128:
        return data[at], at + 1 + data[at]
    length, start = _long_length(data, at, stop, 1)
    return (length, start + length) if length >= 0 else (0, stop + 1)


def _property_end(block: bytes, at: int) -> int:
    """Where the property at ``at`` of a PUBLISH ends; -1 if none can be there, or it is cut off."""
    kind = block[at]
    at += 1
    if kind in _SIZES:
        at += _SIZES[kind]
    elif kind == 0x0B:
        size, at = _long_length(block, at, len(block), 1)
        if size < 0:
            return -1
    elif kind in (0x03, 0x08, 0x09, 0x26):
        for _ in range(2 if kind == 0x26 else 1):
            if at + 2 > len(block):
                return -1
            at += 2 + (block[at] << 8 | block[at + 1])
    else:
        return -1
    return at if at <= len(block) else -1


def _alias_at(block: bytes) -> int | None:
    """Where in a property block the topic alias stands; -1 if there is none, None if the block is wrong."""
    at, found = 0, -1
    while at < len(block):
        if block[at] == 0x23:
            if found >= 0:
                return None
            found = at
        at = _property_end(block, at)
        if at < 0:
            return None
    return found


def named(data: bytes, pos: int, names: dict[int, bytes], maximum: int, limit: int) -> tuple[bytes, int]:
    """PUBLISH packets of version 5 from ``pos`` on, with their topics and without aliases; and where the first packet
    stands that is not among them: incomplete, larger than ``limit``, wrong, with an alias that is above ``maximum`` or
    not in ``names``, or no PUBLISH. An alias beside a topic is put into ``names``.
    """
    out: list[bytes] = []
    end = len(data)
    while end - pos >= 4 and data[pos] >> 4 == 3:
        qos = data[pos] & 6 != 0
        size, at = _long_length(data, pos + 1, end, 1)
        stop = at + size
        if size < 2 or stop > end or stop - pos > limit:
            break
        topic_end = at + 2 + (data[at] << 8 | data[at + 1])
        length, payload = _block_length(data, topic_end + 2 * qos, stop)
        block = data[payload - length : payload]
        where = _alias_at(block) if payload <= stop else None
        if where is None:
            break
        if where < 0:
            out.append(data[pos:stop])
        else:
            alias, topic = block[where + 1] << 8 | block[where + 2], data[at + 2 : topic_end]
            if not 0 < alias <= maximum or not (topic or alias in names):
                break
            topic = names[alias] = topic or names[alias]
            packet_id = data[topic_end] << 8 | data[topic_end + 1] if qos else 0
            block = varint(length - 3) + block[:where] + block[where + 3 :]
            out.append(publish(data[pos], topic, packet_id, block, data[payload:stop]))
        pos = stop
    return b"".join(out), pos


# -- runs that exist already: their bytes are known to be correct -------------------------------------


def _body(wire: bytes | bytearray, at: int) -> tuple[int, int]:
    """(start of the body, its end) of the packet at ``at``."""
    size = wire[at + 1]
    at += 2
    if size > 127:
        size &= 127
        shift = 7
        while True:
            byte = wire[at]
            at += 1
            size |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
    return at, at + size


def payloads(wire: bytes, count: int, prefix: int) -> list[bytes]:
    """The payloads of ``count`` packets whose bodies have ``prefix`` bytes in front of them."""
    found = []
    stop = 0
    for _ in range(count):
        start, stop = _body(wire, stop)
        found.append(wire[start + prefix : stop])
    return found


class Messages:
    """Makes messages of packets. One for the whole process."""

    __slots__ = ("_kind", "_read")

    def __init__(self, kind: type[Any], read: Callable[[bytes, float], tuple[bytes, float | None]]) -> None:
        """``read``: of a property block that came at a time, what is passed on of it, and when the message expires."""
        self._kind = kind
        self._read = read

    def last(
        self, data: bytes, begin: int, count: int, five: bool, publisher: str, wall: float
    ) -> tuple[dict[bytes, Any], int] | None:
        """The last message of each topic in packets of one first byte, and the size of all messages, also those that
        others came after; None if one of them has no payload, or a topic that begins with "$".
        """
        qos, retain = (data[begin] >> 1 & 3, data[begin] & 1 == 1) if count else (0, False)
        found: dict[bytes, Any] = {}
        stop, size = begin, 0
        for _ in range(count):
            start, stop = _body(data, stop)
            behind = start + 2 + (data[start] << 8 | data[start + 1])
            block = behind + (2 if qos else 0)
            length, payload = _block_length(data, block, stop) if five else (0, block)
            topic = data[start + 2 : behind]
            if payload == stop or topic[0] == ord("$"):
                return None
            raw = data[payload - length : payload]
            properties, expires_at = self._read(raw, wall) if raw else (b"", None)
            found[topic] = self._kind(
                topic,
                data[payload:stop],
                qos,
                retain=retain,
                properties=properties,
                expires_at=expires_at,
                publisher=publisher,
            )
            size += found[topic].size
        return found, size


def locate(wire: bytes, start: int, stop: int) -> tuple[int, int, int]:
    """(begin, end, longest packet) of packets ``start`` to ``stop``."""
    at = begin = longest = 0
    for index in range(stop):
        if index == start:
            begin = at
        after = _body(wire, at)[1]
        if index >= start and after - at > longest:
            longest = after - at
        at = after
    return begin, at, longest


def patch(wire: bytes, count: int, offset: int, head: int, ids: Sequence[int]) -> bytes:
    """A copy of the packets with another first byte and, ``offset`` bytes into each body, these ids."""
    out = bytearray(wire)
    at = 0
    for index in range(count):
        out[at] = head
        start, at = _body(wire, at)
        if ids:
            out[start + offset : start + offset + 2] = ids[index].to_bytes(2, "big")
    return bytes(out)


def recode(wire: bytes, count: int, prefix: int, head: int, before: bytes, after: bytes, ids: Sequence[int]) -> bytes:
    """The payloads again behind another head: ``before`` the id comes the topic, ``after`` it the v5 block."""
    out: list[bytes] = []
    first = bytes((head,))
    extra = len(before) + len(after) + (2 if ids else 0)
    for index, payload in enumerate(payloads(wire, count, prefix)):
        if ids:
            out += (first, varint(extra + len(payload)), before, ids[index].to_bytes(2, "big"), after, payload)
        else:
            out += (first, varint(extra + len(payload)), before, after, payload)
    return b"".join(out)


def rewrite(
    data: bytes, at: int, count: int, five: bool, head: int, to_five: bool, identifiers: bytes, ids: Sequence[int]
) -> bytes:
    """Packets of any topics, from ``at`` on, behind another first byte. Where both are of version 5 their properties
    stay, behind the ``identifiers``.
    """
    had_ids = count and data[at] & 6
    out: list[bytes] = []
    first = bytes((head,))
    for index in range(count):
        start, at = _body(data, at)
        behind = start + 2 + (data[start] << 8 | data[start + 1])
        block = behind + (2 if had_ids else 0)
        length, payload = _block_length(data, block, at) if five else (0, block)
        where = ids[index].to_bytes(2, "big") if ids else b""
        properties = identifiers + data[payload - length : payload] if to_five else b""
        size = varint(len(properties)) if to_five else b""
        after = len(where) + len(size) + len(properties)
        out += (first, varint(behind - start + after + at - payload), data[start:behind], where, size, properties)
        out.append(data[payload:at])
    return b"".join(out)


def varint(value: int) -> bytes:
    """A remaining length."""
    if value < 128:
        return value.to_bytes(1, "big")
    if value < 16_384:
        return bytes((value & 127 | 128, value >> 7))
    if value > 268_435_455:
        raise ValueError(f"a packet of {value} bytes is too long")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def acks(first: int, ids: Sequence[int]) -> bytes:
    """Acknowledgements in the short form, one for each id."""
    head = bytes((first, 2))
    return b"".join([head + packet_id.to_bytes(2, "big") for packet_id in ids])


def publish(head: int, topic: bytes, packet_id: int, block: bytes, payload: bytes) -> bytes:
    """One PUBLISH; ``block`` is the property block with its length, or empty in 3.x."""
    size = 2 + len(topic) + len(block) + len(payload)
    if len(topic) > 0xFFFF:
        raise ValueError(f"a topic of {len(topic)} bytes is too long")
    length = len(topic).to_bytes(2, "big")
    if head & 6:
        where = packet_id.to_bytes(2, "big")
        return b"".join((bytes((head,)), varint(size + 2), length, topic, where, block, payload))
    return b"".join((bytes((head,)), varint(size), length, topic, block, payload))
