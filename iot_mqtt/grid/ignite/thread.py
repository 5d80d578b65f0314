"""One thin-client connection, used by one thread: which server, and what to do when it does not answer.

A read that meets a broken connection is asked again of the next server, until its time is over; it ends with
entries or with ``Unavailable``, never with a guess. pyignite is imported here and nowhere else.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from pyignite import Client
from pyignite.connection import Connection
from pyignite.exceptions import AuthenticationError, HandshakeError

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import thin
from iot_mqtt.grid.ignite.settings import Address, IgniteSettings
from iot_mqtt.ports.grid import CacheName, Pair

log = logging.getLogger(__name__)
# It logs every attempt to connect with a traceback; what matters of that is told here.
logging.getLogger("pyignite").setLevel(logging.CRITICAL)

T = TypeVar("T")

#: The caches without an index in key order (cluster/gateway, GridCaches): the log reads them by key.
UNORDERED: Final = frozenset((CacheName.LOG, CacheName.LOG_INDEX))
#: Entries per answer of a scan of those.
SCAN_SIZE: Final = 256
#: Seconds for which an error told by a server is worth asking again: the servers may just be finding each other.
ERROR_PATIENCE: Final = 2.0

_FROM = 'SELECT K, V FROM "{}".ENTRIES WHERE K {} ? ORDER BY K LIMIT ?'
_BETWEEN = 'SELECT K, V FROM "{}".ENTRIES WHERE K {} ? AND K < ? ORDER BY K LIMIT ?'

_BROKEN = (OSError, EOFError, HandshakeError, AuthenticationError, thin.BadAnswer)


def name_of(cache: CacheName) -> str:
    """The cache's name at the servers."""
    return f"iot_{cache.value}"


def behind(prefix: bytes) -> bytes | None:
    """The first key behind all that start with the prefix; None: there is no such key."""
    shortened = prefix.rstrip(b"\xff")
    return shortened[:-1] + bytes((shortened[-1] + 1,)) if shortened else None


class ThinThread:
    """What the thread of a reader's lane works with. Everything here blocks."""

    def __init__(self, settings: IgniteSettings, first: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._next = first
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._ids = itertools.count(1)
        #: Set to end the waiting between attempts.
        self.closing = threading.Event()
        self.trouble: str | None = "not connected yet"
        self.connects = self.bytes = 0

    @property
    def connected(self) -> bool:
        return self._connection is not None

    # Questions.

    def get_all(self, cache: CacheName, keys: Sequence[bytes], until: float) -> dict[bytes, bytes]:
        id = next(self._ids)
        request = thin.encode_get_all(id, thin.cache_id(name_of(cache)), keys)
        return self._ask(lambda connection: thin.decode_get_all(id, self._exchange(connection, request)), until)

    def page(self, cache: CacheName, prefix: bytes, after: bytes | None, limit: int, until: float) -> list[Pair]:
        if cache in UNORDERED:
            return self._ask(lambda connection: self._scan(connection, cache, prefix, after, limit), until)
        return self._ask(lambda connection: self._select(connection, cache, prefix, after, limit), until)

    def _select(
        self, connection: Connection, cache: CacheName, prefix: bytes, after: bytes | None, limit: int
    ) -> list[Pair]:
        arguments: list[bytes | int]
        sign, arguments = (">", [after]) if after is not None and after >= prefix else (">=", [prefix])
        query, end = _FROM, behind(prefix)
        if end is not None:
            query = _BETWEEN
            arguments.append(end)
        arguments.append(limit)
        name, id = name_of(cache), next(self._ids)
        request = thin.encode_sql(id, name, query.format(name, sign), arguments, limit)
        answer = thin.decode_sql(id, self._exchange(connection, request))
        rows = answer.rows
        while answer.cursor is not None:
            id = next(self._ids)
            request = thin.encode_sql_page(id, answer.cursor)
            answer = thin.decode_page(id, self._exchange(connection, request), answer.cursor)
            rows += answer.rows
        return rows

    def _scan(
        self, connection: Connection, cache: CacheName, prefix: bytes, after: bytes | None, limit: int
    ) -> list[Pair]:
        """Every entry of the cache comes here, whatever the limit: for tools and tests."""

        def wanted() -> Iterator[Pair]:
            id = next(self._ids)
            request = thin.encode_scan(id, thin.cache_id(name_of(cache)), SCAN_SIZE)
            answer = thin.decode_scan(id, self._exchange(connection, request))
            while True:
                for pair in answer.rows:
                    if pair[0].startswith(prefix) and (after is None or pair[0] > after):
                        yield pair
                if answer.cursor is None:
                    return
                id = next(self._ids)
                request = thin.encode_scan_page(id, answer.cursor)
                answer = thin.decode_page(id, self._exchange(connection, request), answer.cursor)

        return heapq.nsmallest(limit, wanted())

    def _exchange(self, connection: Connection, request: bytes) -> bytearray:
        # Not ``request``, which would connect again to the same server before it says that the connection broke.
        connection.send(request, reconnect=False)
        answer: bytearray = connection.recv(reconnect=False)
        self.bytes += len(answer)
        return answer

    # Connecting.

    def connect(self) -> bool:
        """Be connected, trying every address once."""
        addresses = self._settings.addresses
        for _ in addresses:
            if self._connection is not None or self.closing.is_set():
                break
            address = addresses[self._next]
            try:
                self._connection = self._open(address)
                self.connects += 1
                self.trouble = None
            except _BROKEN as error:
                self._next = (self._next + 1) % len(addresses)
                self.trouble = f"{address}: {error}"
        return self._connection is not None

    def _open(self, address: Address) -> Connection:
        settings = self._settings
        connection = Connection(
            Client(partition_aware=False),
            address.host,
            address.port,
            timeout=settings.read_timeout,
            handshake_timeout=settings.connect_timeout,
        )
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def drop(self, why: str) -> None:
        """Give the connection up; the next one goes to the next address."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._next = (self._next + 1) % len(self._settings.addresses)
            self.trouble = why

    def _ask(self, ask: Callable[[Connection], T], until: float) -> T:
        """Ask, and ask again elsewhere, until it is answered or too late."""
        settings = self._settings
        pause = settings.retry_first / 4
        errors_until = min(until, self._monotonic() + ERROR_PATIENCE)
        while True:
            if self.connect():
                try:
                    return ask(self._connection)
                except thin.ServerError as error:
                    trouble, over = f"the grid cannot read: {error}", self._monotonic() >= errors_until
                except _BROKEN as error:
                    self.drop(str(error))
                    trouble, over = f"the grid cannot be read: {error}", self._monotonic() >= until
            else:
                trouble, over = f"the grid cannot be reached: {self.trouble}", self._monotonic() >= until
            if over or self.closing.wait(pause):
                raise Unavailable(trouble)
            pause = min(pause * 2, settings.retry_last)
