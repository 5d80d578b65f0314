"""Caches ``sessions`` and ``subscriptions``: written at connect, disconnect and (un)subscribe; tagged fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from iot_mqtt.grid.records.base import StructError, Unreadable, read_fields, write_fields
from iot_mqtt.values import Subscription

_BYTE = Struct(">B")
_U32 = Struct(">I")
_U64 = Struct(">Q")
_TIME = Struct(">d")

# Tags of a session. On disk for ever: added, never changed or used again.
_CLIENT_ID, _VERSION, _EXPIRY, _CREATED, _DISCONNECTED, _USERNAME, _EPOCH, _NEXT, _NODE, _OWNER = range(1, 11)
# Tags of a subscription.
_FILTER, _OPTIONS, _IDENTIFIER, _SINCE, _ELSEWHERE = range(1, 6)
#: In the log of another writer: writer, position.
_PLACE = Struct(">BQ")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """One session that outlives its connection.

    ``version`` is the protocol level of the last CONNECT, ``disconnected_at`` None while connected (after a
    crash: nobody saw it leave), ``epoch`` counts the connections of this client, ``next_sequence`` is where the
    queue may go on at least, ``node`` holds the connection, ``owner`` began it ("": an anonymous client; None: it was
    written before there were owners). Times are wall-clock seconds.
    """

    client_id: str
    version: int
    expiry_interval: int
    created_at: float
    disconnected_at: float | None = None
    username: str | None = None
    epoch: int = 0
    next_sequence: int = 0
    node: str = ""
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """One subscription of a session; its key is the client prefix and the filter.

    ``since`` is where in the log of writer 0 its claim begins, ``elsewhere`` where in others' (writer, position).
    A log that is not named is claimed from its beginning, as it is in records from before there was a log.
    """

    subscription: Subscription
    since: int = 0
    elsewhere: tuple[tuple[int, int], ...] = ()


def encode_session(session: SessionRecord) -> bytes:
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
            (_NEXT, _U64.pack(session.next_sequence)),
            (_NODE, session.node.encode()),
            (_OWNER, None if session.owner is None else session.owner.encode()),
        )
    )


def decode_session(record: bytes) -> SessionRecord:
    fields = read_fields(record)
    left, username, owner = fields.get(_DISCONNECTED), fields.get(_USERNAME), fields.get(_OWNER)
    try:
        return SessionRecord(
            client_id=fields[_CLIENT_ID].decode(),
            version=fields[_VERSION][0],
            expiry_interval=_U32.unpack(fields[_EXPIRY])[0],
            created_at=_TIME.unpack(fields[_CREATED])[0],
            disconnected_at=None if left is None else _TIME.unpack(left)[0],
            username=None if username is None else username.decode(),
            epoch=_U64.unpack(fields[_EPOCH])[0],
            next_sequence=_U64.unpack(fields[_NEXT])[0],
            node=fields[_NODE].decode(),
            owner=None if owner is None else owner.decode(),
        )
    except (KeyError, IndexError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a session without all its fields") from lacking


def encode_subscription(subscription: Subscription, since: int = 0, elsewhere: Iterable[tuple[int, int]] = ()) -> bytes:
    """Options as in SUBSCRIBE [MQTT5 3.8.3.1]: qos, 0x04 no local, 0x08 as published, 0x30 retain handling."""
    options = (
        subscription.qos
        | (0x04 if subscription.no_local else 0)
        | (0x08 if subscription.retain_as_published else 0)
        | subscription.retain_handling << 4
    )
    identifier = subscription.identifier
    return write_fields(
        (
            (_FILTER, subscription.filter.encode()),
            (_OPTIONS, _BYTE.pack(options)),
            (_IDENTIFIER, None if identifier is None else _U32.pack(identifier)),
            (_SINCE, _U64.pack(since) if since else None),
            (_ELSEWHERE, b"".join([_PLACE.pack(*place) for place in elsewhere]) or None),
        )
    )


def decode_subscription(record: bytes) -> SubscriptionRecord:
    fields = read_fields(record)
    identifier = fields.get(_IDENTIFIER)
    try:
        name, options = fields[_FILTER].decode(), fields[_OPTIONS][0]
        known = None if identifier is None else int(_U32.unpack(identifier)[0])
        since = int(_U64.unpack(fields[_SINCE])[0]) if _SINCE in fields else 0
        elsewhere = tuple((writer, at) for writer, at in _PLACE.iter_unpack(fields.get(_ELSEWHERE, b"")))
    except (KeyError, IndexError, StructError, UnicodeDecodeError) as lacking:
        raise Unreadable("a subscription without all its fields") from lacking
    return SubscriptionRecord(
        Subscription(name, options & 0x03, bool(options & 0x04), bool(options & 0x08), options >> 4 & 0x03, known),
        since,
        elsewhere,
    )
