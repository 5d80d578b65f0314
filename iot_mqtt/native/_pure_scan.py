"""The pure-Python twin of the part of ``_scan.pyx`` that cuts a buffer into packets.

Knows the bytes of PUBLISH and of the four acknowledgements and nothing else. ``Scanner.scan`` takes only
packets that are complete and correct, and stops in front of any other: the codec's readers then say
exactly what is wrong with it, so no reason code is chosen here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from iot_mqtt.errors import MqttError
from iot_mqtt.native._pure_lengths import block_length, long_length

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
        batch: Callable[..., Any],
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
            wire, count, longest = b"".join(group.wire), len(group.wire), max(map(len, group.wire))
            ids = group.ids if qos else []
            items.append(self._batch(head, five, wire, 0, len(wire), count, ids, longest, route))
        return here

    def _block(self, data: bytes, at: int, stop: int, mode: int) -> tuple[int, bytes, Any]:
        """(where the payload starts, raw property block, properties); behind ``stop`` if that is wrong."""
        length, payload = block_length(data, at, stop)
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
        size, at = long_length(data, here + 1, end, five)
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
