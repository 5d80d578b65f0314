"""Caches ``progress``, ``segments`` and ``groups``: how far readers of the log are, and what is under way.

progress   tagged fields: position (8); past subscriptions: since (8) │ until (8) │ subscription record;
           replays: position (8) │ filter; replays that look for their beginning: time (8) │ filter.
           These are of the log of writer 0; of others': writer (1) │ position (8) │ past subscriptions;
           replays: writer (1) │ position (8) │ filter
           the packet id that was given out last (2)
           how much was counted when the session was handed over: writer (1) │ messages (8) │ all (1) │ end (8)
           for each log
           retained messages that are not read: a topic was (1) │ size of the filter (4) │ filter │ that topic
segment    version (1) │ flights (2) │ flight …
flight     reference │ flags (1) │ identifiers (2) │ origin length (2) │ pieces (2) │ identifiers (4 each) │ origin
           │ piece …
piece      offset (4) │ packet ids (2) │ packet id (2 each)
reference  writer (2) │ generation (4) │ stream (4) │ position (8) │ length (4)
group      version (1) │ position (8) │ returned (4) │ reference …
share      version (1) │ references (4) │ reference …         what members of a group have under way

flags: 0x03 qos, 0x04 retain
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, pack
from typing import Any

from iot_mqtt.grid.records.base import VERSION, StructError, Unreadable, check_version, read_fields, write_fields
from iot_mqtt.grid.records.sessions import decode_subscription, encode_subscription
from iot_mqtt.ports.log import WRITER_SHIFT, Reference
from iot_mqtt.ports.store import (
    StoredCount,
    StoredFlight,
    StoredGroup,
    StoredPast,
    StoredPlace,
    StoredProgress,
    StoredReplay,
    StoredUnread,
)

_POSITION = Struct(">Q")
_TIME = Struct(">d")
_SPAN = Struct(">QQ")
_PACKET_ID = Struct(">H")
_LENGTH = Struct(">I")
#: Writer, position.
_PLACE = Struct(">BQ")
#: Writer, messages, whether these are all, end.
_COUNT = Struct(">BQ?Q")
#: Whether a topic was read, size of the filter.
_NOT_READ = Struct(">?I")
_REFERENCE = Struct(">HIIQI")
_FLIGHT = Struct(">BHHH")
_PIECE = Struct(">IH")
_HEAD = Struct(">BH")
_GROUP = Struct(">BQI")
_SHARE = Struct(">BI")
_RETAIN = 0x04

# Tags of a progress record. On disk for ever.
_AT, _PAST, _REPLAYS, _SEEKING, _ELSEWHERE, _REPLAYS_ELSEWHERE, _LAST_ID, _COUNTED, _UNREAD = range(1, 10)


def encode_progress(progress: StoredProgress) -> bytes:
    position, past, _, writer, elsewhere, last_id, counted, unread = progress
    if writer:
        position, past, elsewhere = 0, (), progress.places()
    places = []
    for place in elsewhere:
        claims = _encode_past(place.past)
        places.append(_PLACE.pack(place.writer, place.position) + _LENGTH.pack(len(claims)) + claims)
    replays, seeking, replays_elsewhere = [], [], []
    for filter, at, sought, log in progress.replays:
        name = filter.encode()
        sized = _LENGTH.pack(len(name)) + name
        if sought is not None:
            seeking.append(_TIME.pack(sought) + sized)
        elif log:
            replays_elsewhere.append(_PLACE.pack(log, at) + sized)
        else:
            replays.append(_POSITION.pack(at) + sized)
    return write_fields(
        (
            (_AT, _POSITION.pack(position)),
            (_PAST, _encode_past(past) or None),
            (_REPLAYS, b"".join(replays) or None),
            (_SEEKING, b"".join(seeking) or None),
            (_ELSEWHERE, b"".join(places) or None),
            (_REPLAYS_ELSEWHERE, b"".join(replays_elsewhere) or None),
            (_LAST_ID, None if last_id is None else _PACKET_ID.pack(last_id)),
            (_COUNTED, None if counted is None else b"".join([_COUNT.pack(*one) for one in counted])),
            (_UNREAD, b"".join(map(_encode_unread, unread)) or None),
        )
    )


def _encode_unread(unread: StoredUnread) -> bytes:
    filter, after = unread.filter.encode(), unread.after or b""
    head = _NOT_READ.pack(unread.after is not None, len(filter)) + _LENGTH.pack(len(filter) + len(after))
    return head + filter + after


def _decode_unread(rest: bytes) -> tuple[StoredUnread, ...]:
    return tuple(
        StoredUnread(found[:size].decode(), found[size:] if begun else None)
        for (begun, size), found in _each(_NOT_READ, rest)
    )


def _encode_past(past: Sequence[StoredPast]) -> bytes:
    parts = []
    for subscription, since, until in past:
        record = encode_subscription(subscription)
        parts.append(_SPAN.pack(since, until) + _LENGTH.pack(len(record)) + record)
    return b"".join(parts)


def _decode_past(rest: bytes) -> tuple[StoredPast, ...]:
    return tuple(
        StoredPast(decode_subscription(found)[0], since, until) for (since, until), found in _each(_SPAN, rest)
    )


def decode_progress(record: bytes) -> StoredProgress:
    fields = read_fields(record)
    replays = []
    try:
        (position,) = _POSITION.unpack(fields[_AT])
        past = _decode_past(fields.get(_PAST, b""))
        places = tuple(
            StoredPlace(writer, at, _decode_past(found))
            for (writer, at), found in _each(_PLACE, fields.get(_ELSEWHERE, b""))
        )
        for (at,), name in _each(_POSITION, fields.get(_REPLAYS, b"")):
            replays.append(StoredReplay(name.decode(), at))
        for (writer, at), name in _each(_PLACE, fields.get(_REPLAYS_ELSEWHERE, b"")):
            replays.append(StoredReplay(name.decode(), at, None, writer))
        for (sought,), name in _each(_TIME, fields.get(_SEEKING, b"")):
            replays.append(StoredReplay(name.decode(), 0, sought))
        last_id = _PACKET_ID.unpack(fields[_LAST_ID])[0] if _LAST_ID in fields else None
        counted = tuple(map(StoredCount._make, _COUNT.iter_unpack(fields[_COUNTED]))) if _COUNTED in fields else None
        unread = _decode_unread(fields.get(_UNREAD, b""))
    except (KeyError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a progress record without all its fields") from lacking
    return StoredProgress(position, past, tuple(replays), 0, places, last_id, counted, unread)


def _each(head: Struct, rest: bytes) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """The fields of each head, and the bytes behind it whose length stands in front of them."""
    while rest:
        begin = head.size + _LENGTH.size
        end = begin + int(_LENGTH.unpack_from(rest, head.size)[0])
        if end > len(rest):
            raise Unreadable("a progress record cut short")
        yield head.unpack_from(rest), rest[begin:end]
        rest = rest[end:]


def encode_segment(flights: Sequence[StoredFlight]) -> bytes:
    parts = [_HEAD.pack(VERSION, len(flights))]
    for flight in flights:
        origin = flight.origin.encode()
        flags = flight.qos | (_RETAIN if flight.retain else 0)
        parts.append(_REFERENCE.pack(flight.reference[0] >> WRITER_SHIFT, *flight.reference))
        parts.append(_FLIGHT.pack(flags, len(flight.identifiers), len(origin), len(flight.pieces)))
        if flight.identifiers:
            parts.append(pack(f">{len(flight.identifiers)}I", *flight.identifiers))
        parts.append(origin)
        for offset, ids in flight.pieces:
            # The module keeps its formats compiled: a Struct of one's own costs more than the packing.
            parts.append(pack(f">IH{len(ids)}H", offset, len(ids), *ids))
    return b"".join(parts)


def decode_segment(record: bytes) -> list[StoredFlight]:
    check_version(record)
    flights = []
    try:
        _, count = _HEAD.unpack_from(record)
        at = _HEAD.size
        for _ in range(count):
            flight, at = _flight(record, at)
            flights.append(flight)
    except (StructError, UnicodeDecodeError) as cut:
        raise Unreadable("a segment cut short") from cut
    return flights


def _flight(record: bytes, at: int) -> tuple[StoredFlight, int]:
    _, *reference = _REFERENCE.unpack_from(record, at)
    at += _REFERENCE.size
    flags, identifiers_count, origin_size, pieces_count = _FLIGHT.unpack_from(record, at)
    at += _FLIGHT.size
    identifiers = Struct(f">{identifiers_count}I").unpack_from(record, at)
    at += 4 * identifiers_count
    origin = record[at : at + origin_size].decode()
    at += origin_size
    pieces = []
    for _ in range(pieces_count):
        offset, count = _PIECE.unpack_from(record, at)
        at += _PIECE.size
        pieces.append((offset, Struct(f">{count}H").unpack_from(record, at)))
        at += 2 * count
    return (
        StoredFlight(Reference(*reference), flags & 0x03, bool(flags & _RETAIN), identifiers, origin, tuple(pieces)),
        at,
    )


def encode_group(group: StoredGroup) -> bytes:
    head = _GROUP.pack(VERSION, group.position, len(group.returned))
    return head + b"".join([_REFERENCE.pack(reference[0] >> WRITER_SHIFT, *reference) for reference in group.returned])


def decode_group(record: bytes) -> StoredGroup:
    check_version(record)
    try:
        _, position, count = _GROUP.unpack_from(record)
        return StoredGroup(position, tuple(_references(record, _GROUP.size, count)))
    except StructError as cut:
        raise Unreadable("a group cut short") from cut


def encode_share(references: Sequence[Reference]) -> bytes:
    head = _SHARE.pack(VERSION, len(references))
    return head + b"".join([_REFERENCE.pack(reference[0] >> WRITER_SHIFT, *reference) for reference in references])


def decode_share(record: bytes) -> list[Reference]:
    check_version(record)
    try:
        _, count = _SHARE.unpack_from(record)
        return _references(record, _SHARE.size, count)
    except StructError as cut:
        raise Unreadable("a group's share cut short") from cut


def _references(record: bytes, at: int, count: int) -> list[Reference]:
    found = []
    for index in range(count):
        _, *fields = _REFERENCE.unpack_from(record, at + index * _REFERENCE.size)
        found.append(Reference(*fields))
    return found
