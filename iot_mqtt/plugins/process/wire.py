"""What goes between the broker and a worker process over their socket.

::

    broker ▶ worker   │ length 4 │ operation 1 │ connection 4 │ payload │
    worker ▶ broker   │ length 4 │ JSON: [operations done so far, [[connection, kind, …], …]] │

JSON on the way back because nothing a worker sends can harm whoever reads it, which cannot be said of pickle or
marshal. Bytes in it are spelled as Latin-1.
"""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

from iot_mqtt.sdk import Answer, Close, Command, Event, Heartbeat, Login, Readings, Schema, Send, Tag, WhenSafe

HEAD: Final = struct.Struct("!IBI")
LENGTH: Final = struct.Struct("!I")
TOKEN: Final = struct.Struct("!Q")
#: What HEAD's length counts besides the payload.
HEAD_REST: Final = HEAD.size - LENGTH.size

#: In memory that both share: the connection whose operation is being carried out, or was last; whether it is; and the
#: number of the command that is encoded, 0 for other operations.
MARK: Final = struct.Struct("!IBI")

START, OPEN, DECODE, ENCODE, WELCOME, REFUSE, SAFE, IDLE, CLOSE = range(1, 10)

#: Bytes of one answer; a worker that says more at once is killed.
MAX_ANSWER: Final = 1024 * 1024
#: What one DECODE holds at most, so that a slow codec has something to show in time.
MAX_FRAMES: Final = 64
MAX_DECODE: Final = 128 * 1024
#: Of a schema.
MAX_TAGS: Final = 65_536
_LEVEL: Final = re.compile(r"<([0-9]{1,2})>")

Json = Any


class Garbled(Exception):
    """What came is not what a worker sends."""


# To the worker.


def operation(kind: int, connection: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(HEAD_REST + len(payload), kind, connection) + payload


def decodes(connection: int, frames: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """The frames as operations, and how many bytes of frames each holds."""
    begin = size = 0
    for place, frame in enumerate(frames):
        if place > begin and (size + len(frame) > MAX_DECODE or place - begin >= MAX_FRAMES):
            yield operation(DECODE, connection, _frames(frames[begin:place])), size
            begin, size = place, 0
        size += len(frame)
    if begin < len(frames):
        yield operation(DECODE, connection, _frames(frames[begin:] if begin else frames)), size


def _frames(frames: Sequence[bytes]) -> bytes:
    count = len(frames)
    return struct.pack(f"!{count + 1}I", count, *map(len, frames)) + b"".join(frames)


def read_frames(payload: bytes) -> list[bytes]:
    (count,) = LENGTH.unpack_from(payload)
    at = 4 * (count + 1)
    frames = []
    for size in struct.unpack_from(f"!{count}I", payload, 4):
        frames.append(payload[at : at + size])
        at += size
    return frames


def write_command(command: Command) -> bytes:
    fields = [command.number, command.device, dict(command.values), command.body.decode("latin-1"), command.deadline]
    return json.dumps(fields).encode()


def read_command(payload: bytes) -> Command:
    number, device, values, body, deadline = json.loads(payload)
    return Command(number, device, values, body.encode("latin-1"), deadline)


# From the worker.


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def write_answer(done: int, results: list[Json]) -> bytes:
    body = _encode([done, results]).encode()
    return LENGTH.pack(len(body)) + body


def read_answer(body: bytes) -> tuple[int, list[list[Json]]]:
    """Raises ``Garbled``. What the results hold is still to be checked."""
    try:
        answer = _decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise Garbled("an answer is not JSON") from error
    if type(answer) is not list or len(answer) != 2 or type(answer[0]) is not int or type(answer[1]) is not list:
        raise Garbled("an answer has another shape")
    for result in answer[1]:
        if type(result) is not list or len(result) < 2 or type(result[0]) is not int or type(result[1]) is not str:
            raise Garbled("a result has another shape")
    return answer[0], answer[1]


def pack_events(events: Sequence[Event]) -> list[Json]:
    """Checked events as JSON can hold them."""
    packed = []
    for event in events:
        if type(event) is Readings:
            values: Any = event.values
            if type(values) is bytes:
                packed.append(
                    ["j", event.device, values.decode("latin-1"), event.time, event.sequence, _plain(event.quality)]
                )
            else:
                values = values if type(values) is dict else dict(values)
                packed.append(["r", event.device, values, event.time, event.sequence, _plain(event.quality)])
        else:
            packed.append(_pack(event))
    return packed


def _plain(mapping: Any) -> Any:
    return mapping if mapping is None or type(mapping) is dict else dict(mapping)


def _pack(event: Event) -> list[Json]:
    match event:
        case Login():
            secret = None if event.secret is None else event.secret.decode("latin-1")
            return ["l", event.gateway, event.username, secret, event.heartbeat]
        case WhenSafe():
            return ["w", event.token]
        case Send():
            return ["s", event.data.decode("latin-1")]
        case Answer():
            return ["a", event.number, event.ok, event.detail, _plain(event.values)]
        case Close():
            return ["c", event.reason]
    return ["h"]


def unpack_events(packed: Json) -> list[Event]:
    """Raises ``Garbled``. The values in them are still to be checked."""
    events: list[Event] = []
    try:
        for item in packed:
            kind = item[0]
            if kind == "r":
                _, device, values, time, sequence, quality = item
                events.append(Readings(device, values, time, sequence, quality))
            elif kind == "j":
                _, device, values, time, sequence, quality = item
                events.append(Readings(device, values.encode("latin-1"), time, sequence, quality))
            else:
                events.append(_unpack(kind, *item[1:]))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise Garbled(f"an event has another shape: {error}") from error
    return events


def pack_schema(schema: Schema) -> Json:
    """Without its descriptions."""
    return [schema.version, schema.open, {name: [tag.type, tag.unit] for name, tag in schema.tags.items()}]


def unpack_schema(packed: Json) -> Schema:
    """Raises ``Garbled``."""
    match packed:
        case [int(version), bool(is_open), dict(tags)] if len(tags) <= MAX_TAGS:
            try:
                return Schema(
                    version, {str(name): Tag(kind, str(unit)) for name, (kind, unit) in tags.items()}, is_open
                )
            except (TypeError, ValueError) as error:
                raise Garbled(f"a schema has another shape: {error}") from error
    raise Garbled("a schema has another shape")


def with_level(level: int, text: str) -> str:
    """A line of a log as it stands on standard error, as syslog has it."""
    return f"<{level}>{text}"


def level_of(line: str) -> tuple[int, str]:
    """The level and text of a line; what a plugin printed by itself is just information."""
    found = _LEVEL.match(line)
    return (logging.INFO, line) if found is None else (min(int(found[1]), logging.CRITICAL), line[found.end() :])


def _unpack(kind: str, *rest: Any) -> Event:
    match kind, rest:
        case "l", (gateway, username, secret, heartbeat):
            return Login(gateway, username, None if secret is None else secret.encode("latin-1"), heartbeat)
        case "w", (token,):
            return WhenSafe(token)
        case "h", ():
            return Heartbeat()
        case "s", (data,):
            return Send(data.encode("latin-1"))
        case "a", (number, ok, detail, values):
            return Answer(number, ok, detail, values)
        case "c", (reason,):
            return Close(reason)
    raise ValueError("of no known kind")
