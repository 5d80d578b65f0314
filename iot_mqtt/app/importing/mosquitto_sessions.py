"""The sessions of ``mosquitto.db``: clients, their subscriptions, and what they have not finished.

::

    client        ends 8 | expiry interval 4 | last packet id 2 | length of id 2 |
                  port 2 | length of user 2 | padding | id | user                   these since version 6
    subscription  identifier 4 | lengths of id and filter 2 2 | qos 1 | options 1 | padding 2 | id | filter
    message       message id 8 | packet id 2 | length of id 2 | qos 1 | state 1 | retain, DUP 4 bits each
                  | direction 1 | id | properties, as in PUBLISH

Version 3 and 4: ``id | last packet id 2 | time 8``; ``id | filter | qos 1``; ``id | message id 8 | packet id 2 | qos 1
| retain 1 | direction 1 | state 1 | dup 1``, where texts have their length in front of them.

What becomes of a message, by who has it and how far the exchange is:

=========  =========================  ==========================================================================
direction  state                      here
=========  =========================  ==========================================================================
out        queued                     waits
out        sent, not acknowledged     is sent again with its packet id: a client that has a QoS 2 message knows it
out        PUBREC came                the client has it: PUBREL is sent again
in         PUBREC was sent            the publisher is done with it: it is queued for whoever subscribed to it
in         queued                     nobody was told that it came: its publisher sends it again
=========  =========================  ==========================================================================
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.app.importing.mosquitto_db import Database, properties_of, text_at
from iot_mqtt.errors import MqttError
from iot_mqtt.topics import parse_shared, validate_filter
from iot_mqtt.values import NEVER, Subscription

_CLIENT_MESSAGE, _SUBSCRIPTION, _CLIENT = 3, 5, 6
_ENDS: Final = struct.Struct("<q")
_CLIENT_5: Final = struct.Struct(">IHH")
_CLIENT_6: Final = struct.Struct(">IHHHH")
_MESSAGE: Final = struct.Struct(">HHBBBB")
_OLD_MESSAGE: Final = struct.Struct(">HBBBBB")
_SUBSCRIBED: Final = struct.Struct(">IHHBB")
_ID: Final = struct.Struct("<Q")
_SUBSCRIPTION_SIZE: Final = 12
_IN: Final = 0
_QUEUED: Final = 11
_RELEASED: Final = frozenset((6, 9))
_NO_LOCAL, _AS_PUBLISHED = 0x04, 0x08


class Phase(Enum):
    """How far an exchange is."""

    WAITS = auto()
    #: Sent, and not acknowledged.
    SENT = auto()
    #: QoS 2: the client has acknowledged it by PUBREC.
    RELEASED = auto()
    #: QoS 2 of a publisher, who was told that it came.
    RECEIVED = auto()
    #: QoS 2 of a publisher, who was told nothing.
    UNTOLD = auto()


class Exchange(NamedTuple):
    """A message of a session."""

    number: int
    packet_id: int
    qos: int
    phase: Phase
    retain: bool
    identifiers: tuple[int, ...]


@dataclass(slots=True)
class OldSession:
    """What mosquitto keeps of one client."""

    client_id: str
    #: "" for an anonymous client; None: the file does not say.
    user: str | None
    #: Seconds; ``NEVER``.
    interval: int
    #: Since 1970; 0: not while its client was connected, or never.
    ends: int
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    #: In their order.
    exchanges: list[Exchange] = field(default_factory=list)


@dataclass(slots=True)
class OldSessions:
    """Of one file. Raises ``Refused`` with the place where it is damaged."""

    database: Database
    by_client: dict[str, OldSession] = field(default_factory=dict)
    #: Shared subscriptions, which mosquitto 1.4 to 2.0 do not write, and what no session of the file has.
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        takers: dict[int, Callable[[bytes], None]] = {
            _CLIENT: self._client,
            _SUBSCRIPTION: self._subscription,
            _CLIENT_MESSAGE: self._message,
        }
        for kind, begin, end in self.database.chunks():
            take = takers.get(kind)
            if take is None:
                continue
            try:
                take(self.database.body(begin, end))
            except (struct.error, IndexError, UnicodeDecodeError, MqttError, _Damaged) as error:
                raise Refused(f"it is damaged at byte {begin}: {error}") from error

    def _client(self, body: bytes) -> None:
        version = self.database.version
        if version < 5:
            found = OldSession(text_at(body, 0)[0].decode(), None, NEVER, 0)
        else:
            (ends,) = _ENDS.unpack_from(body)
            sizes = _CLIENT_6 if version > 5 else _CLIENT_5
            interval, _, length, *more = sizes.unpack_from(body, _ENDS.size)
            user = more[1] if more else 0
            # From the end: machines pad the head differently.
            begin = len(body) - length - user
            if begin < _ENDS.size + sizes.size:
                raise _Damaged("a length leads beyond its end")
            name, owner = body[begin : begin + length].decode(), body[begin + length :].decode()
            found = OldSession(name, owner if version > 5 else None, interval, ends)
        if not found.client_id:
            raise _Damaged("a client without an id")
        self.by_client[found.client_id] = found

    def _subscription(self, body: bytes) -> None:
        identifier = options = 0
        if self.database.version < 5:
            name, pos = text_at(body, 0)
            filter, pos = text_at(body, pos)
            qos = body[pos]
        else:
            identifier, length, size, qos, options = _SUBSCRIBED.unpack_from(body)
            name, filter = _two(body, _SUBSCRIPTION_SIZE, length, size)
        if qos > 2:
            raise _Damaged(f"a subscription has QoS {qos}")
        text, session = filter.decode(), self.by_client.get(name.decode())
        validate_filter(text, 0xFFFF)
        if session is None or parse_shared(text) is not None:
            why = "has no session there" if session is None else "it is shared: the client has to subscribe again"
            self.notes.append(f"client {name.decode()}: its subscription to {text} was left out: {why}")
            return
        session.subscriptions[text] = Subscription(
            text, qos, bool(options & _NO_LOCAL), bool(options & _AS_PUBLISHED), identifier=identifier or None
        )

    def _message(self, body: bytes) -> None:
        raw = b""
        if self.database.version < 5:
            name, pos = text_at(body, 0)
            packet_id, qos, retain, direction, state, _ = _OLD_MESSAGE.unpack_from(body, pos + _ID.size)
            (number,) = _ID.unpack_from(body, pos)
        else:
            (number,) = _ID.unpack_from(body)
            packet_id, length, qos, state, flags, direction = _MESSAGE.unpack_from(body, _ID.size)
            retain = flags >> 4
            name, raw = _two(body, _ID.size + _MESSAGE.size, length, None)
        if qos > 2 or state > _QUEUED:
            raise _Damaged(f"a message has QoS {qos} and state {state}")
        session = self.by_client.get(name.decode())
        if session is None:
            self.notes.append(f"client {name.decode()}: a message was left out: it has no session there")
            return
        identifiers = properties_of(raw).subscription_identifiers
        phase = _phase(direction, state)
        session.exchanges.append(Exchange(number, packet_id, qos, phase, bool(retain), tuple(identifiers)))


class _Damaged(Exception):
    """A chunk is not what it should be."""


def _phase(direction: int, state: int) -> Phase:
    if direction == _IN:
        return Phase.UNTOLD if state == _QUEUED else Phase.RECEIVED
    if state == _QUEUED:
        return Phase.WAITS
    return Phase.RELEASED if state in _RELEASED else Phase.SENT


def _two(body: bytes, begin: int, first: int, second: int | None) -> tuple[bytes, bytes]:
    """Two texts that stand behind each other; the second one up to the end if it has no length."""
    middle = begin + first
    end = len(body) if second is None else middle + second
    if max(middle, end) > len(body):
        raise _Damaged("a length leads beyond its end")
    return body[begin:middle], body[middle:end]
