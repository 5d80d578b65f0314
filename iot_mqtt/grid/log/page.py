"""A page: what one turn brought to one stream.

    version (1) │ crc32 of all that follows (4) │ runs (4) │ the runs
    │ since 1.1: for each run with a user: user length (2) │ user
    │ since 1.2: for each run whose codec is told: codec length (2) │ codec │ schema length (2) │ schema
    │ later fields
    a run = number of its first message in the turn (4) │ messages (4) │ flags (1) │ arrived (8, float)
            │ publisher length (2) │ wire length (4) │ publisher │ wire

    flags: 0x01 the wire is MQTT 5, since 1.1: 0x02 a gateway's codec made it, 0x04 it has a user,
           since 1.2: 0x08 that codec is told, since 1.3: 0x10 no subscriber gets it

The wire is the run's PUBLISH packets as they were received, so that neither writing nor reading costs anything
per message. Only a run whose topic was an alias is written anew, with its topic. What a page of 1.0 holds has no
origin: nobody's readings are in it. One of 1.1 does not tell which codec made its readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final
from zlib import crc32

from iot_mqtt.codec import Decoder, PublishRun, page_reader
from iot_mqtt.grid.records.base import VERSION, StructError
from iot_mqtt.ports.log import TURN_BITS, LogRun, Reference
from iot_mqtt.values import NOBODY, UNKNOWN_CODEC, CodecId, Origin, ProtocolVersion

_HEAD = Struct(">BII")
_RUN = Struct(">IIBdHI")
_LENGTH = Struct(">H")
_FIVE, _READING, _USER, _CODEC, _ONLY_UP = 0x01, 0x02, 0x04, 0x08, 0x10
#: Of pages in which something has an origin, of those that tell of a codec, and of those with what no subscriber gets.
_WITH_ORIGINS, _WITH_CODECS, _WITH_ONLY_UP = VERSION | 1, VERSION | 2, VERSION | 3
#: Origins that nothing is told of.
_SOME_CODEC = Origin(codec=UNKNOWN_CODEC)
#: Where the checksum's bytes begin and end, which it does not cover itself.
_COVERED = 5
_NUMBER = (1 << TURN_BITS) - 1

#: What there is of a page that holds other topics: Python has one empty tuple.
NOT_WANTED: Final[Sequence[LogRun]] = ()
#: A named tuple's own constructor takes twice as long.
_reference = tuple.__new__
#: Reads nearly every page there is; None: it is another one, or damaged.
_read_plain = page_reader(LogRun, Reference, NOBODY).read
_pack_run = _RUN.pack
_unpack_run = _RUN.unpack_from
_RUN_SIZE = _RUN.size


class DamagedPage(Exception):
    """The page is not what was written, or a later version wrote it."""


def encode_page(runs: Sequence[LogRun]) -> bytes:
    parts = [len(runs).to_bytes(4, "big")]
    users: list[bytes] = []
    codecs: list[bytes] = []
    flagged = only_up = False
    for found in runs:
        run = found.run
        wire = run.wire
        publisher = found.publisher.encode()
        flags = _FIVE if run.five else 0
        if found.origin is not NOBODY:
            flagged = True
            flags |= _flags_of(found.origin, users, codecs)
            only_up = only_up or found.origin.only_up
        parts += (
            _pack_run(found.reference.position & _NUMBER, run.count, flags, found.arrived, len(publisher), len(wire)),
            publisher,
            wire,
        )
    version = _WITH_ONLY_UP if only_up else _WITH_CODECS if codecs else _WITH_ORIGINS if flagged else VERSION
    body = b"".join(parts + users + codecs)
    return b"".join((bytes((version,)), crc32(body).to_bytes(4, "big"), body))


def _flags_of(origin: Origin, users: list[bytes], codecs: list[bytes]) -> int:
    """The flags that say it; its user and its codec go behind the runs."""
    flags = _ONLY_UP if origin.only_up else 0
    if origin.codec is not None:
        flags |= _READING
        if origin.codec.name:
            codecs.append(_written(origin.codec))
            flags |= _CODEC
    if origin.user:
        users.append(_text(origin.user))
        flags |= _USER
    return flags


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


@lru_cache(maxsize=256)
def _written(codec: CodecId) -> bytes:
    return b"".join(_text(text) for text in codec)


class PageDecoder:
    """Pages to runs; keeps a decoder for each form of the wire."""

    def __init__(self) -> None:
        self._three = _decoder(ProtocolVersion.V311)
        self._five = _decoder(ProtocolVersion.V5)

    def decode(
        self, page: bytes, generation: int, stream: int, turn: int, wanted: tuple[bytes, ...] = ()
    ) -> Sequence[LogRun]:
        """The runs in order; ``NOT_WANTED`` if only some topics are ``wanted``, and none of them stands in the page.
        Raises ``DamagedPage``.
        """
        plain: Sequence[LogRun] | None = _read_plain(page, generation, stream, turn << TURN_BITS, wanted)
        if plain is not None:
            return plain
        count = check_page(page)
        if wanted and not any(topic in page for topic in wanted):
            return NOT_WANTED
        offset = _HEAD.size
        base = turn << TURN_BITS
        found: list[LogRun] = []
        with_user: list[LogRun] = []
        told: list[LogRun] = []
        try:
            for _ in range(count):
                number, messages, flags, arrived, name_length, length = _unpack_run(page, offset)
                offset += _RUN_SIZE
                publisher = page[offset : offset + name_length].decode()
                offset += name_length
                run = self._run(page[offset : offset + length], flags & _FIVE != 0, messages)
                offset += length
                reference = _reference(Reference, (generation, stream, base + number, messages))
                origin = _SOME_CODEC if flags & _READING else NOBODY
                if flags & _ONLY_UP:
                    origin = origin._replace(only_up=True)
                logged = LogRun(reference, run, run.topic, publisher, arrived, origin)
                found.append(logged)
                if flags & _USER:
                    with_user.append(logged)
                if flags & _CODEC:
                    told.append(logged)
            for logged in with_user:
                user, offset = _read_text(page, offset)
                logged.origin = logged.origin._replace(user=user)
            for logged in told:
                codec, offset = _read_text(page, offset)
                schema, offset = _read_text(page, offset)
                logged.origin = logged.origin._replace(codec=CodecId(codec, schema))
        except (StructError, UnicodeDecodeError) as cut:
            raise DamagedPage("a run is cut short") from cut
        return found

    def _run(self, wire: bytes, five: bool, messages: int) -> PublishRun:
        decoder = self._five if five else self._three
        items = decoder.feed(wire)
        if len(items) == 1:
            run = items[0]
            if isinstance(run, PublishRun) and run.count == messages and not decoder.buffered:
                return run
        # It may have stopped inside of a packet.
        self._three, self._five = _decoder(ProtocolVersion.V311), _decoder(ProtocolVersion.V5)
        raise DamagedPage(f"{messages} messages do not read back")


def _read_text(page: bytes, offset: int) -> tuple[str, int]:
    """A text, and where it ends."""
    (size,) = _LENGTH.unpack_from(page, offset)
    begin = offset + _LENGTH.size
    if begin + size > len(page):
        raise DamagedPage("who made a run is cut short")
    return page[begin : begin + size].decode(), begin + size


def check_page(page: bytes) -> int:
    """The number of runs of an undamaged page."""
    try:
        version, checksum, count = _HEAD.unpack_from(page)
    except StructError as cut:
        raise DamagedPage("the page is cut short") from cut
    if version >> 4 != VERSION >> 4:
        raise DamagedPage(f"a page of format {version >> 4}.{version & 15}; this version reads 1.x")
    if crc32(page[_COVERED:]) != checksum:
        raise DamagedPage("the checksum does not fit")
    return int(count)


def _decoder(version: ProtocolVersion) -> Decoder:
    return Decoder(version=version)
