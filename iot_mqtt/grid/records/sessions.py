"""Caches ``sessions`` and ``subscriptions``: written at connect, disconnect and (un)subscribe; tagged fields."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from iot_mqtt.grid.records.base import StructError, Unreadable, read_fields, write_fields
from iot_mqtt.ports.store import StoredSession
from iot_mqtt.values import Subscription

_BYTE = Struct(">B")
_U32 = Struct(">I")
_U64 = Struct(">Q")
_TIME = Struct(">d")
_NO_NEXT = bytes(8)
NO_CLAIM: Mapping[int, int] = {}

# Tags of a session. On disk for ever: added, never changed or used again. Nobody reads the eighth and ninth any more,
# but our predecessors want them to be there.
_CLIENT_ID, _VERSION, _EXPIRY, _CREATED, _DISCONNECTED, _USERNAME, _EPOCH, _NEXT, _NODE, _OWNER = range(1, 11)
# Tags of a subscription.
_FILTER, _OPTIONS, _IDENTIFIER, _SINCE, _ELSEWHERE = range(1, 6)
#: In the log of another writer: writer, position.
_PLACE = Struct(">BQ")


def encode_session(session: StoredSession) -> bytes:
    left, username = session.disconnected_at, session.username
    return write_fields(
        (
            (_CLIENT_ID, session.client_id.encode()),
            (_VERSION, _BYTE.pack(session.version)),
            (_EXPIRY, _U32.pack(session.expiry_interval)),
            (_CREATED, _TIME.pack(session.created_at)),
            (_DISCONNECTED, None if left is None else _TIME.pack(left)),
            (_USERNAME, None if username is None else username.encode()),
            (_EPOCH, _U64.pack(session.epoch)),
            (_NEXT, _NO_NEXT),
            (_NODE, b""),
            (_OWNER, None if session.owner is None else session.owner.encode()),
        )
    )


def decode_session(record: bytes) -> StoredSession:
    fields = read_fields(record)
    if _NODE not in fields:
        raise Unreadable("a session cut short")
    left, username, owner = fields.get(_DISCONNECTED), fields.get(_USERNAME), fields.get(_OWNER)
    try:
        return StoredSession(
            client_id=fields[_CLIENT_ID].decode(),
            version=fields[_VERSION][0],
            expiry_interval=_U32.unpack(fields[_EXPIRY])[0],
            created_at=_TIME.unpack(fields[_CREATED])[0],
            disconnected_at=None if left is None else _TIME.unpack(left)[0],
            username=None if username is None else username.decode(),
            epoch=_U64.unpack(fields[_EPOCH])[0],
            owner=None if owner is None else owner.decode(),
        )
    except (KeyError, IndexError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a session without all its fields") from lacking


def encode_subscription(subscription: Subscription, since: Mapping[int, int] = NO_CLAIM) -> bytes:
    """``since``: writer → where in its log the claim begins; a log that is not named is claimed from its beginning, as
    it is in records from before there was a log.

    Options as in SUBSCRIBE [MQTT5 3.8.3.1]: qos, 0x04 no local, 0x08 as published, 0x30 retain handling.
    """
    options = (
        subscription.qos
        | (0x04 if subscription.no_local else 0)
        | (0x08 if subscription.retain_as_published else 0)
        | subscription.retain_handling << 4
    )
    identifier, own = subscription.identifier, since.get(0, 0)
    elsewhere = [_PLACE.pack(writer, position) for writer, position in since.items() if writer and position]
    return write_fields(
        (
            (_FILTER, subscription.filter.encode()),
            (_OPTIONS, _BYTE.pack(options)),
            (_IDENTIFIER, None if identifier is None else _U32.pack(identifier)),
            (_SINCE, _U64.pack(own) if own else None),
            (_ELSEWHERE, b"".join(elsewhere) or None),
        )
    )


def decode_subscription(record: bytes) -> tuple[Subscription, dict[int, int]]:
    """The subscription, and since when it has a claim on which log."""
    fields = read_fields(record)
    identifier = fields.get(_IDENTIFIER)
    try:
        name, options = fields[_FILTER].decode(), fields[_OPTIONS][0]
        known = None if identifier is None else int(_U32.unpack(identifier)[0])
        since = dict(_PLACE.iter_unpack(fields.get(_ELSEWHERE, b"")))
        if _SINCE in fields:
            since[0] = _U64.unpack(fields[_SINCE])[0]
    except (KeyError, IndexError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a subscription without all its fields") from lacking
    return (
        Subscription(name, options & 0x03, bool(options & 0x04), bool(options & 0x08), options >> 4 & 0x03, known),
        since,
    )
