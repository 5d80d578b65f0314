"""The file of the flight recorder: what the next start reads, if this one ends without a word.

One slot for each recorded connection, written again when there is more in it; a slot that is half written is none. The
file of the life before this one is kept until the next start::

    recorder/packets.now        this life's
    recorder/packets.before     the one before
    slot    "PKT1" | CRC-32 4 | size of what it is 2 | size of the packets 2 | what it is, JSON | the packets
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import Final

from iot_mqtt.ports.endings import NODE_RESTARTED, ends_apart
from iot_mqtt.ports.recording import Recording, RecordingInfo

__all__ = ["PacketFile", "slot_of", "slots_of"]

_HEAD: Final = struct.Struct("<4sIHH")
_MAGIC: Final = b"PKT1"
#: Bytes of what a recording is, beside its packets. Texts are cut to fit.
AROUND: Final = 1024
#: What a slot begins with that is free again.
FREE: Final = bytes(_HEAD.size)
#: Slots that are read, or written, at once.
_AT_ONCE: Final = 256


def slot_of(recording: Recording) -> bytes:
    """As it is written."""
    info = recording.info
    what = _what(info)
    if _HEAD.size + len(what) > AROUND:
        # Each character of a client id, or of what is said of an end, may take six bytes: such ones are cut.
        name, _ = ends_apart(info.end)
        what = _what(info._replace(client_id=info.client_id[:64], peer=info.peer[:64], end=name))
    body = what + recording.image
    return _HEAD.pack(_MAGIC, zlib.crc32(body), len(what), len(recording.image)) + body


def _what(info: RecordingInfo) -> bytes:
    """In JSON, as ``json.dumps`` has it in three times as long."""
    until = "null" if info.until is None else _seconds(info.until)
    return (
        f'{{"client_id": {_quoted(info.client_id)}, "peer": {_quoted(info.peer)}, "end": {_quoted(info.end)}, '
        f'"since": {_seconds(info.since)}, "until": {until}}}'
    ).encode()


def _seconds(value: float) -> str:
    """Milliseconds are all that the recorder has; ``repr`` takes longer than everything else."""
    milliseconds = int(value * 1000 + 0.5)
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"


def slots_of(recordings: Mapping[int, Recording | None]) -> Iterator[tuple[int, bytes]]:
    """The same of several, in the order of the file, each when its turn comes; None: its slot is free again."""
    for slot, recording in sorted(recordings.items(), key=lambda one: one[0]):
        yield slot, FREE if recording is None else slot_of(recording)


class PacketFile:
    """Of one life of a node. All of it may block: call it in a thread."""

    def __init__(self, folder: Path, client_bytes: int, ended: str = NODE_RESTARTED) -> None:
        """``ended``: how connections did that were open when the life before was over."""
        self._ended = ended
        self.slot_bytes = AROUND + max(1024, client_bytes)
        self._folder = folder
        self._file = -1

    @property
    def before(self) -> Path:
        """What the life before this one has left."""
        return self._folder / "packets.before"

    def open(self) -> None:
        """Begin a file; the last one becomes the one before."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        now = self._folder / "packets.now"
        if now.exists():
            now.replace(self.before)
        self._file = os.open(now, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.pwrite(self._file, self.slot_bytes.to_bytes(4, "little"), 0)

    def write(self, slots: Iterable[tuple[int, bytes]]) -> None:
        """Put these in their places; raises ``OSError``."""
        if self._file < 0:
            self.open()
        first, row = 0, list[bytes]()
        for slot, data in slots:
            if slot != first + len(row) or len(row) == _AT_ONCE:
                self._write_row(first, row)
                first, row = slot, []
            row.append(data)
        self._write_row(first, row)

    def _write_row(self, first: int, row: list[bytes]) -> None:
        """Slots that stand beside one another: each call lets go of the interpreter, and has to wait for it again."""
        rest = memoryview(bytes(self.slot_bytes))
        whole = [part for data in row[:-1] for part in (data, rest[len(data) :])] + row[-1:]
        size = sum(map(len, whole))
        if os.pwritev(self._file, whole, (first + 1) * self.slot_bytes) < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Nothing more is written."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def read_before(self, client_id: str) -> list[Recording]:
        """What the life before this one had of a client, the oldest first; nothing if there is no such file."""
        try:
            with self.before.open("rb") as file:
                size = int.from_bytes(file.read(4), "little")
                found = list(_read(file.fileno(), size, client_id, self._ended)) if size > AROUND else []
        except OSError:
            return []
        return sorted(found, key=lambda one: one.info.since)


def _read(file: int, size: int, client_id: str, ended: str) -> Iterator[Recording]:
    position = size
    name = json.dumps(client_id).encode()
    while data := os.pread(file, size * _AT_ONCE, position):
        position += len(data)
        for start in range(0, len(data), size):
            if name not in data[start : start + AROUND]:
                continue
            recording = _slot(data[start : start + size], ended)
            if recording is not None and recording.info.client_id == client_id:
                yield recording


def _slot(data: bytes, ended: str) -> Recording | None:
    if len(data) < _HEAD.size:
        return None
    magic, check, what, size = _HEAD.unpack_from(data)
    body = data[_HEAD.size : _HEAD.size + what + size]
    if magic != _MAGIC or zlib.crc32(body) != check:
        return None
    try:
        info = RecordingInfo(**json.loads(body[:what]))
    except (ValueError, TypeError):
        return None
    return Recording(info if info.end else info._replace(end=ended), body[what:])
