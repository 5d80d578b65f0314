"""What goes from node to node in datagrams of the link protocol, version 1: items as bytes, frozen as those are.

    item         kind (1) │ length (4) │ fields
    1 PUBLICATION  flags (1) │ arrived (8, float) │ generation (4) │ stream (4) │ position (8) │ publisher length (2)
                   │ topic length (2) │ twice the members (2) │ wire length (4) │ publisher │ topic │ wire
                   │ (shared group: text │ client id of its member: text) …
                   │ user: text (with flag 0x10) │ codec: text │ schema: text (both with flag 0x20)
                   │ context: text (with flag 0x40)
                   flags: 0x01 MQTT 5, 0x02 for plain subscriptions, 0x04 it is in the log, 0x08 a gateway's codec made
                   it, 0x10 it has a user, 0x20 that codec is told, 0x40 it is traced, 0x80 the member may have been
                   sent it before
                   topic: only where the wire has an alias for it
                   wire: of one run; for who reads that, of several, each with its topic, if they are neither in the log
                   nor for shared groups
    2 ROUTES       flags (1) │ since (8) │ version (8) │ routes (4) │ (flags (1) │ members (4) │ filter: text) …
                   flags: 0x01 full, 0x02 more parts follow
    3 ROUTES_ACK   version (8) │ position (8)
    4 RETAINED     flags (1) │ version (8) │ arrived (8, float) │ publisher length (2) │ topic length (2)
                   │ wire length (4) │ publisher │ topic │ wire │ user: text
                   flags: 0x01 MQTT 5, 0x02 removed (there is no wire), 0x04 it counts for a user
    5 REQUEST      id (4) │ name: text │ body length (4) │ body
    6 REPLY        id (4) │ flags (1) │ body length (4) │ body
                   flags: 0x01 refused

A text is length (2) and UTF-8. A wire is a run's PUBLISH packets as they were received, so that nothing here costs
anything per message. A reader skips kinds that it does not know, and what lies behind the last field that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from struct import Struct, error
from typing import Final

from iot_mqtt.cluster.links.values import Item, Reply, Request, Retained, Route, Routes, RoutesAck, Unknown
from iot_mqtt.codec import Decoder, PublishRun
from iot_mqtt.errors import Malformed
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import NOBODY, UNKNOWN_CODEC, CodecId, Origin, ProtocolVersion

PUBLICATION, ROUTES, ROUTES_ACK, RETAINED, REQUEST, REPLY = 1, 2, 3, 4, 5, 6

_ITEM: Final = Struct(">BI")
_COUNT: Final = Struct(">H")
#: With the item's own head in front, so that a publication is packed at once.
_PUBLICATION: Final = Struct(">BIBdIIQHHHI")
_PUBLICATION_FIELDS: Final = Struct(">BdIIQHHHI")
_ROUTES: Final = Struct(">BQQI")
_ROUTE: Final = Struct(">BIH")
_ACK: Final = Struct(">QQ")
_RETAINED: Final = Struct(">BQdHHI")
_REQUEST: Final = Struct(">IH")
_LENGTH: Final = Struct(">I")
_REPLY: Final = Struct(">IBI")

#: Bytes that any item takes.
LEAST_ITEM: Final = _ITEM.size

_FIVE, _PLAIN, _LOGGED, _READING, _USER, _CODEC, _TRACED, _AGAIN = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80
_FULL, _MORE = 0x01, 0x02
_REMOVED, _OWNED = 0x02, 0x04
_REFUSED = 0x01


def write_item(item: Item) -> bytes:
    """One item; ``ValueError`` for one whose fields are too long, and for ``Unknown``."""
    try:
        if isinstance(item, Forwarded):
            return _write_publication(item)
        return _write_other(item)
    except error as cause:
        raise ValueError(f"a field of {type(item).__name__} does not fit") from cause


def _write_publication(item: Forwarded) -> bytes:
    run, topic, publisher, arrived, reference, plain, members, origin, more, context, again = item
    name = publisher.encode()
    wire = b"".join([run.wire, *[one.wire for one in more]]) if more else run.wire
    topic = b"" if run.topic else topic
    flags = (_FIVE if run.five else 0) | (_PLAIN if plain else 0) | (_AGAIN if again else 0)
    generation = stream = position = 0
    if reference is not None:
        flags |= _LOGGED
        generation, stream, position, _ = reference
    behind = _texts(chain.from_iterable(members)) if members else b""
    if origin is not NOBODY:
        codec = origin.codec
        if origin.user:
            flags |= _USER
            behind += _texts((origin.user,))
        if codec is not None:
            flags |= _READING
            if codec.name:
                flags |= _CODEC
                behind += _texts(codec)
    if context:
        flags |= _TRACED
        behind += _texts((context,))
    length = _PUBLICATION_FIELDS.size + len(name) + len(topic) + len(wire) + len(behind)
    head = _PUBLICATION.pack(
        PUBLICATION,
        length,
        flags,
        arrived,
        generation,
        stream,
        position,
        len(name),
        len(topic),
        2 * len(members),
        len(wire),
    )
    return b"".join((head, name, topic, wire, behind))


def _write_other(item: Item) -> bytes:
    if isinstance(item, Routes):
        flags = (_FULL if item.full else 0) | (_MORE if item.more else 0)
        parts = [_ROUTES.pack(flags, item.since, item.version, len(item.routes))]
        for filter, kinds, members in item.routes:
            encoded = filter.encode()
            parts += (_ROUTE.pack(kinds, members, len(encoded)), encoded)
        return _item(ROUTES, *parts)
    if isinstance(item, RoutesAck):
        return _item(ROUTES_ACK, _ACK.pack(item.version, item.position))
    if isinstance(item, Retained):
        wire, flags = (b"", _REMOVED) if item.run is None else (item.run.wire, _FIVE if item.run.five else 0)
        name = item.publisher.encode()
        rest = b""
        if item.user is not None:
            user = item.user.encode()
            flags, rest = flags | _OWNED, _COUNT.pack(len(user)) + user
        head = _RETAINED.pack(flags, item.version, item.arrived, len(name), len(item.topic), len(wire))
        return _item(RETAINED, head, name, item.topic, wire, rest)
    if isinstance(item, Request):
        name = item.name.encode()
        return _item(REQUEST, _REQUEST.pack(item.id, len(name)), name, _LENGTH.pack(len(item.body)), item.body)
    if isinstance(item, Reply):
        flags = _REFUSED if item.refused else 0
        return _item(REPLY, _REPLY.pack(item.id, flags, len(item.body)), item.body)
    raise ValueError(f"{item} has no form here")


def _item(kind: int, *parts: bytes) -> bytes:
    return b"".join((_ITEM.pack(kind, sum(map(len, parts))), *parts))


def _texts(texts: Iterable[str]) -> bytes:
    parts: list[bytes] = []
    for text in texts:
        encoded = text.encode()
        parts += (_COUNT.pack(len(encoded)), encoded)
    return b"".join(parts)


# -- in ------------------------------------------------------------------------------------------------
# Each gets where its fields begin and end. Lengths are checked before anything is cut out; what lies behind the
# last known field is skipped.


def read_items(payload: bytes, offset: int, count: int) -> tuple[Item, ...]:
    """So many, from there on."""
    limit = len(payload)
    items: list[Item] = []
    try:
        for _ in range(count):
            kind, length = _ITEM.unpack_from(payload, offset)
            offset += _ITEM.size
            after = offset + length
            if after > limit:
                raise Malformed("an item is cut short")
            reader = _ITEMS.get(kind)
            items.append(Unknown(kind) if reader is None else reader(payload, offset, after))
            offset = after
    except (error, UnicodeDecodeError):
        raise Malformed("an item whose fields do not fit")
    return tuple(items)


class _Runs:
    """Wires to runs. The decoders are whole again after every wire, and replaced if they are not."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._three = Decoder(version=ProtocolVersion.V311)
        self._five = Decoder(version=ProtocolVersion.V5)

    def read(self, wire: bytes, five: bool) -> PublishRun:
        run, *more = self.read_all(wire, five)
        if more:
            raise Malformed("a wire that is not one run")
        return run

    def read_all(self, wire: bytes, five: bool) -> list[PublishRun]:
        """One at least."""
        items = (self._five if five else self._three).feed(wire)
        runs = [item for item in items if isinstance(item, PublishRun)]
        if runs and len(runs) == len(items) and sum([len(run.wire) for run in runs]) == len(wire):
            return runs
        # It may have stopped inside of a packet.
        self._renew()
        raise Malformed("a wire that is not of runs")


_RUNS: Final = _Runs()
_read_run = _RUNS.read


def _read_publication(payload: bytes, offset: int, after: int) -> Forwarded:
    flags, arrived, generation, stream, position, name_length, topic_length, group_count, wire_length = (
        _PUBLICATION_FIELDS.unpack_from(payload, offset)
    )
    name_at = offset + _PUBLICATION_FIELDS.size
    topic_at = name_at + name_length
    wire_at = topic_at + topic_length
    wire_end = wire_at + wire_length
    if wire_end > after:
        raise Malformed("PUBLICATION cut short")
    run, *rest = _RUNS.read_all(payload[wire_at:wire_end], flags & _FIVE != 0)
    topic = run.topic or payload[topic_at:wire_at]
    if not topic or any(not one.topic for one in rest):
        raise Malformed("PUBLICATION without a topic")
    if rest and (group_count or flags & _LOGGED):
        raise Malformed("PUBLICATION of several runs that has more than one place")
    traced = 1 if flags & _TRACED else 0
    more = (1 if flags & _USER else 0) + (2 if flags & _CODEC else 0)
    count = group_count + more + traced
    texts = _read_texts(payload, wire_end, after, count) if count else ()
    return Forwarded(
        run,
        topic,
        payload[name_at:topic_at].decode(),
        arrived,
        Reference(generation, stream, position, run.count) if flags & _LOGGED else None,
        flags & _PLAIN != 0,
        tuple(zip(texts[:group_count:2], texts[1:group_count:2], strict=False)) if group_count else (),
        _origin(flags, texts[group_count : group_count + more]) if flags & (_USER | _READING) else NOBODY,
        tuple(rest),
        texts[-1] if traced else "",
        flags & _AGAIN != 0,
    )


def _origin(flags: int, texts: Sequence[str]) -> Origin:
    user = texts[0] if flags & _USER else ""
    if not flags & _READING:
        return Origin(user)
    codec = CodecId(*texts[-2:]) if flags & _CODEC else UNKNOWN_CODEC
    # Nobody's has no name.
    return Origin(user, codec if codec.name else UNKNOWN_CODEC)


def _read_routes(payload: bytes, offset: int, after: int) -> Routes:
    flags, since, version, count = _ROUTES.unpack_from(payload, offset)
    offset += _ROUTES.size
    routes = []
    for _ in range(count):
        kinds, members, length = _ROUTE.unpack_from(payload, offset)
        offset += _ROUTE.size
        routes.append(Route(_text(payload, offset, length, after), kinds, members))
        offset += length
    _within(offset, after)
    return Routes(since, version, tuple(routes), full=flags & _FULL != 0, more=flags & _MORE != 0)


def _read_ack(payload: bytes, offset: int, after: int) -> RoutesAck:
    _within(offset + _ACK.size, after)
    return RoutesAck(*_ACK.unpack_from(payload, offset))


def _read_retained(payload: bytes, offset: int, after: int) -> Retained:
    flags, version, arrived, name_length, topic_length, wire_length = _RETAINED.unpack_from(payload, offset)
    name_at = offset + _RETAINED.size
    topic_at = name_at + name_length
    wire_at = topic_at + topic_length
    wire_end = wire_at + wire_length
    _within(wire_end, after)
    topic = payload[topic_at:wire_at]
    if not topic:
        raise Malformed("RETAINED without a topic")
    run = None if flags & _REMOVED else _read_run(payload[wire_at:wire_end], flags & _FIVE != 0)
    user = None
    if flags & _OWNED:
        (length,) = _COUNT.unpack_from(payload, wire_end)
        user = _text(payload, wire_end + _COUNT.size, length, after)
    return Retained(topic, version, run, payload[name_at:topic_at].decode(), arrived, user)


def _read_request(payload: bytes, offset: int, after: int) -> Request:
    id, length = _REQUEST.unpack_from(payload, offset)
    offset += _REQUEST.size
    name = _text(payload, offset, length, after)
    offset += length
    (length,) = _LENGTH.unpack_from(payload, offset)
    offset += _LENGTH.size
    _within(offset + length, after)
    return Request(id, name, payload[offset : offset + length])


def _read_reply(payload: bytes, offset: int, after: int) -> Reply:
    id, flags, length = _REPLY.unpack_from(payload, offset)
    offset += _REPLY.size
    _within(offset + length, after)
    return Reply(id, payload[offset : offset + length], flags & _REFUSED != 0)


def _read_texts(payload: bytes, offset: int, after: int, count: int) -> tuple[str, ...]:
    texts = []
    for _ in range(count):
        (length,) = _COUNT.unpack_from(payload, offset)
        offset += _COUNT.size
        texts.append(_text(payload, offset, length, after))
        offset += length
    return tuple(texts)


def _text(payload: bytes, offset: int, length: int, after: int) -> str:
    _within(offset + length, after)
    return payload[offset : offset + length].decode()


def _within(end: int, after: int) -> None:
    if end > after:
        raise Malformed("an item's fields are longer than it")


_ITEMS: Final[dict[int, Callable[[bytes, int, int], Item]]] = {
    PUBLICATION: _read_publication,
    ROUTES: _read_routes,
    ROUTES_ACK: _read_ack,
    RETAINED: _read_retained,
    REQUEST: _read_request,
    REPLY: _read_reply,
}
