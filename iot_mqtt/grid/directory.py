"""``ports.directory.Directory`` on any grid: every document in memory, and one row that tells what changed.

::

    put     row: a write begins ─▶ compare-and-set of the document ─▶ row: it is over     acknowledged
    refresh row ─ as before? ─▶ nothing to do
                └ another ─▶ read the documents it names (all of them, if too much was missed) ─▶ tell listeners

``refresh`` is to be called every ``POLL_SECONDS`` where others write to the same grid. A write that is under way in the
row, or whose writer died, is looked at by every call until it is over, so none is missed.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from twisted.internet.defer import DeferredLock

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.directory import (
    CHANGES_KEY,
    PREFIX,
    Changes,
    decode_changes,
    decode_document,
    document_key,
    encode_changes,
    encode_document,
    names_of,
)
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.directory import Conflict, Document, Listener, TooMuch
from iot_mqtt.ports.grid import CacheName, Grid
from iot_mqtt.ports.scanning import scan

log = logging.getLogger(__name__)

#: Seconds between two looks at what others changed.
POLL_SECONDS: Final = 0.5
#: Bytes of a document, as JSON; of all documents together; and how many there may be of a kind.
MAX_DOCUMENT: Final = 256 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
MAX_OF_KIND: Final = 20_000
MAX_NAME: Final = 512
#: Documents read at once.
PAGE: Final = 500
#: How often a write tries again, because another node changed the row at the same moment.
ATTEMPTS: Final = 50

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


class GridDirectory:
    """Not thread-safe; coroutines await Deferreds. ``load`` first, once the grid is open."""

    def __init__(self, grid: Grid, clock: Clock, *, max_of_kind: int = MAX_OF_KIND, max_bytes: int = MAX_BYTES) -> None:
        self._grid = grid
        self._clock = clock
        self._max_of_kind = max_of_kind
        self._max_bytes = max_bytes
        self._kinds: dict[str, dict[str, Document]] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._bytes = 0
        self._listeners: dict[str, list[Listener]] = {}
        #: One write or look at a time: what is in memory never goes back to an older version.
        self._lock = DeferredLock()
        self._seen: bytes | None = None
        self._row = Changes()

    def get(self, kind: str, name: str) -> Document | None:
        return self._kinds.get(kind, {}).get(name)

    def of(self, kind: str) -> Mapping[str, Document]:
        return MappingProxyType(self._kinds.setdefault(kind, {}))

    def page(self, kind: str, after: str = "", limit: int = 100) -> list[Document]:
        documents = self._kinds.get(kind, {})
        names = sorted(documents)
        start = bisect_right(names, after) if after else 0
        return [documents[name] for name in names[start : start + limit]]

    def watch(self, kind: str, listener: Listener) -> Callable[[], None]:
        listeners = self._listeners.setdefault(kind, [])
        listeners.append(listener)
        return partial(listeners.remove, listener)

    # Writing.

    async def put(self, kind: str, name: str, body: Mapping[str, Any], version: int | None = None) -> Document:
        _check(kind, name)
        # Through JSON and back: what is kept is what every node will read, and nobody else has a hand on it.
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
        if size > MAX_DOCUMENT:
            raise TooMuch(f"a document has at most {MAX_DOCUMENT} bytes; this one has {size}")
        return (await self._write(kind, name, version, json.loads(text), size))[1]  # type: ignore[return-value]

    async def delete(self, kind: str, name: str, version: int | None = None) -> bool:
        _check(kind, name)
        return (await self._write(kind, name, version, None, 0))[0] is not None

    async def _write(
        self, kind: str, name: str, version: int | None, body: dict[str, Any] | None, size: int
    ) -> tuple[Document | None, Document | None]:
        """The document before and after."""
        await self._lock.acquire()
        try:
            self._check_room(kind, name, size)
            token = secrets.token_hex(8)
            row = await self._change(lambda row: row.begin(token, kind, name, self._clock.wall()))
            before, after, fault = await self._swap(kind, name, version, body, row.seq, token)
            # What others changed meanwhile is between the two rows and still to be looked at: ``_seen`` stays.
            await self._change(lambda row: row.end(token, kind, name))
            if fault is not None:
                raise fault
            self._apply(((kind, name, after, size),))
        finally:
            self._lock.release()
        return before, after

    async def _swap(
        self, kind: str, name: str, version: int | None, body: dict[str, Any] | None, seq: int, token: str
    ) -> tuple[Document | None, Document | None, Conflict | None]:
        key = document_key(kind, name)
        present = await self._grid.get(CacheName.META, key)
        before = None if present is None else decode_document(key, present)
        if version is not None and version != (before.version if before else 0):
            return before, before, Conflict(f"{kind} {name!r} has changed: it is at version {_version(before)}")
        after = None if body is None else Document(kind, name, seq, body)
        value = None if after is None else encode_document(after, token)
        if present == value or await self._grid.compare_and_set(CacheName.META, key, present, value):
            return before, after, None
        return before, before, Conflict(f"{kind} {name!r} was changed by somebody else at the same moment")

    async def _change(self, change: Callable[[Changes], Changes]) -> Changes:
        """Change the row, whoever else does."""
        for _ in range(ATTEMPTS):
            present = await self._grid.get(CacheName.META, CHANGES_KEY)
            row = change(decode_changes(present))
            if await self._grid.compare_and_set(CacheName.META, CHANGES_KEY, present, encode_changes(row)):
                return row
        raise Unavailable("too many nodes write to the directory at once")

    def _check_room(self, kind: str, name: str, size: int) -> None:
        if not size:
            return
        known = self._kinds.get(kind, {})
        if name not in known and len(known) >= self._max_of_kind:
            raise TooMuch(f"there are {len(known)} {kind} already; there may be {self._max_of_kind}")
        if self._bytes + size - self._sizes.get((kind, name), 0) > self._max_bytes:
            raise TooMuch(f"all documents together have at most {self._max_bytes} bytes")

    # Reading.

    async def load(self) -> None:
        """Read everything. Raises ``Unavailable``."""
        await self._lock.acquire()
        try:
            self._seen, self._row = None, Changes()
            row = await self._grid.get(CacheName.META, CHANGES_KEY)
            await self._read_all()
            self._seen, self._row = row, decode_changes(row)
        finally:
            self._lock.release()

    async def refresh(self) -> None:
        """Look at what others have changed. Raises ``Unavailable``; then this node knows what it knew."""
        await self._lock.acquire()
        try:
            row = await self._grid.get(CacheName.META, CHANGES_KEY)
            if row == self._seen and not self._row.pending:
                return
            changes = decode_changes(row)
            news = changes.since(decode_changes(self._seen).seq)
            if news is None:
                await self._read_all()
            elif news:
                await self._read(news)
            self._seen, self._row = row, changes
        finally:
            self._lock.release()

    async def _read(self, news: Iterable[tuple[str, str]]) -> None:
        keys = [document_key(kind, name) for kind, name in news]
        values = await self._grid.get_many(CacheName.META, keys)
        read = (self._decode(key, value) for key, value in zip(keys, values, strict=True))
        self._apply(one for one in read if one is not None)

    async def _read_all(self) -> None:
        read: dict[tuple[str, str], tuple[str, str, Document | None, int]] = {
            (kind, name): (kind, name, None, 0) for kind, documents in self._kinds.items() for name in documents
        }
        async for key, value in scan(self._grid, CacheName.META, PREFIX, PAGE):
            one = self._decode(key, value)
            if one is None:
                read.pop(names_of(key), None)  # what was known of it stays
            else:
                read[one[0], one[1]] = one
        self._apply(read.values())

    def _decode(self, key: bytes, value: bytes | None) -> tuple[str, str, Document | None, int] | None:
        """None if this version cannot read it."""
        kind, name = names_of(key)
        if value is None:
            return kind, name, None, 0
        try:
            return kind, name, decode_document(key, value), len(value)
        except Unreadable as error:
            log.error("%s %r cannot be read and stays what it was: %s", kind, name, error)
            return None

    def _apply(self, read: Iterable[tuple[str, str, Document | None, int]]) -> None:
        """Take what was read into memory, and tell whoever wants to know."""
        changed: dict[str, set[str]] = {}
        for kind, name, document, size in read:
            documents = self._kinds.setdefault(kind, {})
            if documents.get(name) == document:
                continue
            self._bytes += size - self._sizes.pop((kind, name), 0)
            if document is None:
                del documents[name]
            else:
                documents[name] = document
                self._sizes[kind, name] = size
            changed.setdefault(kind, set()).add(name)
        for kind, names in changed.items():
            for listener in tuple(self._listeners.get(kind, ())):
                try:
                    listener(frozenset(names))
                except Exception:
                    log.exception("a listener of the directory failed")


def _check(kind: str, name: str) -> None:
    if not _KIND.fullmatch(kind):
        raise ValueError(f"{kind!r} is no kind of documents")
    if not name or "\0" in name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME:
        raise ValueError(f"a name has 1 to {MAX_NAME} bytes and no NUL")
    name.encode()  # UnicodeEncodeError is a ValueError


def _version(document: Document | None) -> int:
    return 0 if document is None else document.version
