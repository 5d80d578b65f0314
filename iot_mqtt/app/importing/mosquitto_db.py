"""``mosquitto.db``, as mosquitto writes it at its end and now and then: its chunks, and the messages in it.

::

    file      00 B5 00 "mosquitto db" | checksum 4 (0) | version 4 | chunk…
    chunk     kind 4 | length 4 | …              since version 5 (mosquitto 1.6); before: kind 2 | length 4 | …
    message   id 8 | expiry 8 | payload length 4 | source id 2 | lengths of client id, user, topic 2 2 2 | port 2
              | qos 1 | retain 1 | client id | user | topic | payload | properties, as in PUBLISH
    retained  id 8

Version 3 and 4 have another message: ``id 8 | client id | user, port 2 (4) | 2 | 2 | topic | qos 1 | retain 1 |
payload``, where texts have their length in front of them. Lengths are big-endian; ids and times are the machine's that
wrote it, little-endian here. A message stands before whoever names it. The chunks of sessions are in
``mosquitto_sessions``.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from iot_mqtt.app.importing.imported import Refused
from iot_mqtt.codec import NO_PROPERTIES, PacketType, Properties, Publish, check_topic
from iot_mqtt.codec.properties import read as read_properties
from iot_mqtt.errors import MqttError

MAGIC: Final = b"\x00\xb5\x00mosquitto db"
VERSIONS: Final = (3, 4, 5, 6)
_FILE: Final = struct.Struct(">15sII")
_CHUNK: Final = {True: struct.Struct(">II"), False: struct.Struct(">HI")}
_MESSAGE, _RETAINED = 2, 4
_STORE: Final = struct.Struct("<Qq")
_SIZES: Final = struct.Struct(">IHHHHHBB")
_ID: Final = struct.Struct("<Q")
_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_MOST_SECONDS: Final = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Stored:
    """A message of the file."""

    message: Publish
    #: Seconds since 1970; 0: never.
    expires: int
    #: The client that published it.
    source: str = ""


class Database:
    """The bytes of a file. Raises ``Refused`` with the place where it is none, or damaged."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        if len(data) < _FILE.size or data[: len(MAGIC)] != MAGIC:
            raise Refused("this is no mosquitto.db")
        _, _, self.version = _FILE.unpack_from(data)
        if self.version not in VERSIONS:
            raise Refused(f"it has version {self.version} of mosquitto.db; 3 to 6 are known")
        self._data = data
        self._new = self.version >= 5
        #: Where messages stand, by id; those that are retained, in their order.
        self._places: dict[int, tuple[int, int]] = {}
        self._retained: dict[int, None] = {}
        self._look()

    def __len__(self) -> int:
        """Retained messages, with those that have expired."""
        return len(self._retained)

    def messages(self, now: float) -> Iterator[Publish]:
        """What is retained and has not expired; of the broker's own ``$SYS`` nothing."""
        for stored in self._all():
            message = replace(stored.message, retain=True)
            if message.topic.startswith(b"$") or not message.payload:
                continue
            if stored.expires > 0:
                left = stored.expires - int(now)
                if not 0 < left <= _MOST_SECONDS:
                    continue
                message = replace(message, properties=replace(message.properties, message_expiry_interval=left))
            yield message

    def _all(self) -> Iterator[Stored]:
        for number in self._retained:
            stored = self.stored(number)
            if stored is not None:
                yield stored

    def stored(self, number: int) -> Stored | None:
        """The message of this id. mosquitto itself passes over what names one that is not there: it has expired."""
        place = self._places.get(number)
        return None if place is None else self._message(*place)

    def chunks(self) -> Iterator[tuple[int, int, int]]:
        """(kind, where it begins, where it ends), without their heads."""
        data, head, pos = self._data, _CHUNK[self._new], _FILE.size
        while pos < len(data):
            if pos + head.size > len(data):
                raise Refused(f"it is cut off at byte {pos}")
            kind, size = head.unpack_from(data, pos)
            begin = pos + head.size
            pos = begin + size
            if pos > len(data):
                raise Refused(f"it is cut off, or damaged, at byte {begin}")
            yield kind, begin, pos

    def body(self, begin: int, end: int) -> bytes:
        """The bytes of a chunk."""
        return bytes(self._data[begin:end])

    def _look(self) -> None:
        for kind, begin, end in self.chunks():
            if kind in (_MESSAGE, _RETAINED):
                if end - begin < _ID.size:
                    raise Refused(f"it is damaged at byte {begin}")
                (number,) = _ID.unpack_from(self._data, begin)
                if kind == _MESSAGE:
                    self._places[number] = (begin, end)
                else:
                    self._retained[number] = None

    def _message(self, begin: int, end: int) -> Stored:
        body = self.body(begin, end)
        try:
            stored = _message(body) if self._new else _old_message(body, self.version)
            check_topic(stored.message.topic)
        except (struct.error, IndexError, UnicodeDecodeError, MqttError) as error:
            raise Refused(f"it is damaged: the message at byte {begin}: {error}") from error
        if stored.message.qos > 2:
            raise Refused(f"it is damaged: the message at byte {begin} has QoS {stored.message.qos}")
        return stored


def _message(body: bytes) -> Stored:
    _, expires = _STORE.unpack_from(body)
    size, _, client, user, topic, _, qos, retain = _SIZES.unpack_from(body, _STORE.size)
    pos = _STORE.size + _SIZES.size
    source = _cut(body, pos, client).decode()
    pos += client + user
    name = _cut(body, pos, topic)
    payload = _cut(body, pos + topic, size)
    raw = body[pos + topic + size :]
    properties = replace(properties_of(raw), subscription_identifiers=(), topic_alias=None)
    return Stored(Publish(name, payload, qos, retain=bool(retain), properties=properties), expires, source)


def properties_of(raw: bytes) -> Properties:
    """Behind their length, as in a packet; nothing: there are none."""
    if not raw:
        return NO_PROPERTIES
    at = 1
    while raw[at - 1] & 0x80:
        at += 1
    return read_properties(raw[at:], PacketType.PUBLISH)


def _old_message(body: bytes, version: int) -> Stored:
    source, pos = text_at(body, _ID.size)
    if version == 4:
        pos = text_at(body, pos)[1] + 2
    name, pos = text_at(body, pos + 4)
    qos, retain = body[pos], body[pos + 1]
    (size,) = _U32.unpack_from(body, pos + 2)
    return Stored(Publish(name, _cut(body, pos + 6, size), qos, retain=bool(retain)), 0, source.decode())


def text_at(body: bytes, pos: int) -> tuple[bytes, int]:
    """A text behind its length, and where it ends."""
    (size,) = _U16.unpack_from(body, pos)
    return _cut(body, pos + 2, size), pos + 2 + size


def _cut(body: bytes, begin: int, size: int) -> bytes:
    if begin + size > len(body):
        raise IndexError("a length leads beyond its end")
    return body[begin : begin + size]


def opened(path: Path) -> Database:
    """A file, which is read as it is needed. ``Refused`` says what is wrong with it."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        return Database(data)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    except Refused as error:
        raise Refused(f"{path}: {error}") from error


def portions(messages: Iterable[Publish], most: int, size: int) -> Iterator[list[Publish]]:
    """So many at once, and so many bytes of payload, about."""
    found: list[Publish] = []
    held = 0
    for message in messages:
        found.append(message)
        held += len(message.payload)
        if len(found) >= most or held >= size:
            yield found
            found, held = [], 0
    if found:
        yield found
