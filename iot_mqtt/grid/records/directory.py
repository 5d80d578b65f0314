"""Records of the directory in cache ``meta``: a document each, and one row that says which of them changed.

    directory/d/ │ kind │ NUL │ name     a document:  version byte │ {"version", "body", "by"}
    directory/changes                    the row:     version byte │ {"seq", "floor", "recent", "pending"}

``recent`` are the last changes as [seq, kind, name]; the last one that was dropped from it had the number ``floor``.
Who knows everything up to a number of at least ``floor`` finds there what is new. ``pending`` are writes that have
begun: {token: [kind, name, seconds since 1970]}. A writer who dies leaves his there, so that everybody keeps looking at
what he may have changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from iot_mqtt.grid.records.base import VERSION, Unreadable, check_version
from iot_mqtt.ports.directory import Document

PREFIX: Final = b"directory/d/"
CHANGES_KEY: Final = b"directory/changes"
#: Changes that the row names; whoever has missed more reads everything.
RECENT: Final = 64
#: Seconds after which a write that never ended is not under way any more.
PENDING_SECONDS: Final = 60.0

_VERSION = bytes((VERSION,))


def document_key(kind: str, name: str) -> bytes:
    return PREFIX + kind.encode() + b"\0" + name.encode()


def names_of(key: bytes) -> tuple[str, str]:
    """Kind and name."""
    kind, _, name = key.removeprefix(PREFIX).partition(b"\0")
    return kind.decode(), name.decode()


def encode_document(document: Document, by: str) -> bytes:
    """``by`` is this write's own word: two writes are never the same bytes."""
    return _dump({"version": document.version, "body": document.body, "by": by})


def decode_document(key: bytes, record: bytes) -> Document:
    fields = _load(record)
    try:
        kind, name = names_of(key)
        body = fields["body"]
        if not isinstance(body, dict):
            raise Unreadable("a document whose body is no object")
        return Document(kind, name, int(fields["version"]), body)
    except (KeyError, TypeError, ValueError) as lacking:
        raise Unreadable("a document without all its fields") from lacking


@dataclass(frozen=True, slots=True)
class Changes:
    """The row."""

    seq: int = 0
    floor: int = 0
    recent: tuple[tuple[int, str, str], ...] = ()
    pending: Mapping[str, tuple[str, str, float]] = field(default_factory=dict)

    def begin(self, token: str, kind: str, name: str, now: float) -> Changes:
        """A write is under way; the new ``seq`` is its version."""
        alive = {key: one for key, one in self.pending.items() if abs(now - one[2]) < PENDING_SECONDS}
        # What a dead writer may have done counts as done: whoever reads the row looks at it once more.
        row = self
        for key in self.pending.keys() - alive.keys():
            row = row.end(key, *self.pending[key][:2])
        return replace(row, seq=row.seq + 1, pending={**alive, token: (kind, name, now)})

    def end(self, token: str, kind: str, name: str) -> Changes:
        """A write is over, and is a change."""
        pending = {key: one for key, one in self.pending.items() if key != token}
        recent = (*self.recent, (self.seq + 1, kind, name))
        floor = recent[-RECENT - 1][0] if len(recent) > RECENT else self.floor
        return Changes(self.seq + 1, floor, recent[-RECENT:], pending)

    def since(self, seq: int) -> set[tuple[str, str]] | None:
        """Kind and name of what may have changed after that number; None: anything may."""
        if seq < self.floor or seq > self.seq:
            return None
        news = {(kind, name) for number, kind, name in self.recent if number > seq}
        return news | {(kind, name) for kind, name, _ in self.pending.values()}


def encode_changes(row: Changes) -> bytes:
    return _dump({"seq": row.seq, "floor": row.floor, "recent": row.recent, "pending": dict(row.pending)})


def decode_changes(record: bytes | None) -> Changes:
    """The row; an empty one while there is none."""
    if record is None:
        return Changes()
    fields = _load(record)
    try:
        recent = tuple((int(seq), str(kind), str(name)) for seq, kind, name in fields["recent"])
        pending = {str(key): (str(one[0]), str(one[1]), float(one[2])) for key, one in fields["pending"].items()}
        return Changes(int(fields["seq"]), int(fields["floor"]), recent, pending)
    except (KeyError, TypeError, ValueError, IndexError) as lacking:
        raise Unreadable("a row of changes without all its fields") from lacking


def _dump(fields: Mapping[str, Any]) -> bytes:
    return _VERSION + json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _load(record: bytes) -> dict[str, Any]:
    check_version(record)
    try:
        fields = json.loads(record[1:])
    except ValueError as error:
        raise Unreadable("a document that is no JSON") from error
    if not isinstance(fields, dict):
        raise Unreadable("a document that is no object")
    return fields
