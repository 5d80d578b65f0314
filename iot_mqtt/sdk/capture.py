r"""A capture: what went over connections, to be looked at and to be held against another version of a codec.

::

    {"iot-mqtt-capture": 1, "started": 1700000000000, "codec": "acme-scale", "version": "1.2.0"}     header
    {"ms": 0, "connection": 1, "kind": "opened", "text": "192.0.2.7:40112"}
    {"ms": 12, "connection": 1, "kind": "up", "hex": "7e0102"}                    from the gateway, as it was read
    {"ms": 13, "connection": 1, "kind": "event", "event": {"event": "login", …}}  what the codec of that day made of it
    {"ms": 13, "connection": 1, "kind": "down", "hex": "06"}                      to the gateway, as it was written
    {"ms": 900, "connection": 1, "kind": "closed", "text": "idle"}

Lines of JSON, each written whole and only at the end, so a file that was cut off by a crash loses its last line and no
more. ``ms`` comes from a monotonic clock and counts from the header. TLS is off already; passwords in a login frame
are in ``hex``, so a capture is as secret as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from iot_mqtt.sdk.event_json import as_json
from iot_mqtt.sdk.events import Event

FORMAT: Final = 1
#: Bytes of a file, unless said otherwise.
DEFAULT_LIMIT: Final = 64 << 20
#: Of one line: the largest frame that a listener may have, in hexadecimal, and something on top.
_LONGEST_LINE: Final = 64 << 20
#: Kept back for the line that says that the limit was reached.
_RESERVE: Final = 128

Kind = Literal["opened", "up", "down", "event", "closed", "full"]


class BadCapture(Exception):
    """The file is no capture, or one of a later version."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of it."""

    ms: int
    connection: int
    kind: Kind
    data: bytes = b""
    event: Mapping[str, Any] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """The first line."""

    started: int
    codec: str = ""
    version: str = ""


class CaptureWriter:
    """Writes lines with ``write``; nothing more once ``limit`` bytes are there.

    ``now`` is monotonic, in seconds. Every method says whether the line was written: after False, close the file.
    """

    def __init__(
        self, write: Callable[[bytes], object], now: Callable[[], float], header: Header, limit: int = DEFAULT_LIMIT
    ) -> None:
        self._write = write
        self._now = now
        self._start = now()
        self._left = max(limit, 4 * _RESERVE) - _RESERVE
        self._is_full = False
        first = {
            "iot-mqtt-capture": FORMAT,
            "started": header.started,
            "codec": header.codec,
            "version": header.version,
        }
        self._line(first)

    @property
    def is_full(self) -> bool:
        """Whether the limit was reached."""
        return self._is_full

    def opened(self, connection: int, peer: str) -> bool:
        return self._record(connection, "opened", text=peer)

    def up(self, connection: int, data: bytes) -> bool:
        """Bytes from the gateway."""
        return self._record(connection, "up", hex=data.hex())

    def down(self, connection: int, data: bytes) -> bool:
        """Bytes for the gateway."""
        return self._record(connection, "down", hex=data.hex())

    def events(self, connection: int, events: Iterable[Event]) -> bool:
        """What the codec made of the bytes before."""
        return all(self._record(connection, "event", event=as_json(event)) for event in events)

    def closed(self, connection: int, reason: str) -> bool:
        return self._record(connection, "closed", text=reason)

    def _record(self, connection: int, kind: Kind, **rest: object) -> bool:
        return self._line({"ms": self._ms(), "connection": connection, "kind": kind, **rest})

    def _ms(self) -> int:
        return int((self._now() - self._start) * 1000)

    def _line(self, told: Mapping[str, object]) -> bool:
        if self._is_full:
            return False
        line = _encoded(told)
        if len(line) > self._left:
            self._is_full = True
            self._write(_encoded({"ms": self._ms(), "connection": 0, "kind": "full"}))
            return False
        self._left -= len(line)
        self._write(line)
        return True


def _encoded(told: Mapping[str, object]) -> bytes:
    # A value that JSON has no word for, of a codec with faults, must not end the capture of it.
    return json.dumps(told, ensure_ascii=False, separators=(", ", ": "), default=repr).encode() + b"\n"


def is_capture(start: bytes) -> bool:
    """Whether a file that begins with this is one."""
    return start.startswith(b'{"iot-mqtt-capture"')


def read_header(line: bytes) -> Header:
    """The first line. Raises ``BadCapture``."""
    told = _parsed(line, 1) if is_capture(line) else None
    if told is None:
        raise BadCapture('the file is no capture: its first line does not begin with {"iot-mqtt-capture"')
    if told["iot-mqtt-capture"] != FORMAT:
        raise BadCapture(f"the capture has format {told['iot-mqtt-capture']}, this program reads {FORMAT}")
    return Header(int(told.get("started", 0)), str(told.get("codec", "")), str(told.get("version", "")))


def read_records(lines: Iterable[bytes]) -> Iterator[Record]:
    """The lines after the first. A last one that is cut off is left out; anything else wrong raises ``BadCapture``."""
    for number, line in enumerate(lines, 2):
        if not line.endswith(b"\n"):
            return
        if line.strip():
            yield _record(_parsed(line, number), number)


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > _LONGEST_LINE:
        raise BadCapture(f"line {number} has {len(line)} bytes, at most {_LONGEST_LINE} make sense")
    try:
        told = json.loads(line)
    except ValueError as error:
        raise BadCapture(f"line {number} is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise BadCapture(f"line {number} is no JSON object")
    return told


def _record(told: Mapping[str, Any], number: int) -> Record:
    try:
        kind = told["kind"]
        if kind not in get_args(Kind):
            raise ValueError(f"the kind {kind!r} is unknown")
        data = bytes.fromhex(told.get("hex", ""))
        return Record(
            int(told["ms"]), int(told["connection"]), kind, data, told.get("event"), str(told.get("text", ""))
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadCapture(f"line {number}: {error}") from error
