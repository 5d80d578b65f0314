"""One thin-client connection, used by one thread: which server, and what to do when it does not answer.

A read that meets a broken connection is asked again of the next server, until its time is over; it ends with
values or with ``Unavailable``, never with a guess. pyignite is imported here and nowhere else.
"""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pyignite import Client
from pyignite.connection import Connection
from pyignite.exceptions import AuthenticationError, HandshakeError

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite import thin
from iot_mqtt.grid.ignite.settings import NOT_YET, Address, IgniteSettings
from iot_mqtt.pipeline.tls_client import ClientTls
from iot_mqtt.ports.grid import CacheName

# It logs every attempt to connect with a traceback; what matters of that is told here.
logging.getLogger("pyignite").setLevel(logging.CRITICAL)

T = TypeVar("T")

#: Seconds for which an error told by a server is worth asking again: the servers may just be finding each other.
ERROR_PATIENCE: Final = 2.0

_BROKEN = (OSError, EOFError, HandshakeError, AuthenticationError, thin.BadAnswer)


def name_of(cache: CacheName) -> str:
    """The cache's name at the servers."""
    return f"iot_{cache.value}"


class _PlainConnection(Connection):  # type: ignore[misc]
    """pyignite asks again, at once and without end, where a server refuses the very version that it says it expects: so
    does one that takes no clients now.
    """

    def _process_handshake_error(self, response: object) -> None:
        try:
            super()._process_handshake_error(response)
        except HandshakeError as error:
            if error.expected_version == self.client.protocol_context.version:
                raise ConnectionRefusedError(error.message) from error
            raise


class _TlsConnection(_PlainConnection):
    """pyignite's own TLS does not look whose certificate it is. Each socket that is put in here is wrapped."""

    def __init__(self, tls: ClientTls, *rest: object, **named: object) -> None:
        self._context = tls.context()
        super().__init__(*rest, **named)

    @property
    def _socket(self) -> socket.socket | None:
        return self._wrapped

    @_socket.setter
    def _socket(self, given: socket.socket | None) -> None:
        if given is not None and not isinstance(given, ssl.SSLSocket):
            given = self._context.wrap_socket(given, server_hostname=self.host)
        self._wrapped = given


def _connection(tls: ClientTls | None, *rest: object, **named: object) -> Connection:
    return _PlainConnection(*rest, **named) if tls is None else _TlsConnection(tls, *rest, **named)


class ThinThread:
    """What the reader's thread works with. Everything here blocks."""

    def __init__(self, settings: IgniteSettings, first: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._next = first
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._ids = itertools.count(1)
        #: Set to end the waiting between attempts.
        self.closing = threading.Event()
        self.trouble: str | None = NOT_YET

    @property
    def connected(self) -> bool:
        return self._connection is not None

    # Questions.

    def get_all(self, cache: CacheName, keys: Sequence[bytes], until: float) -> dict[bytes, bytes]:
        id = next(self._ids)
        request = thin.encode_get_all(id, thin.cache_id(name_of(cache)), keys)
        return self._ask(lambda connection: thin.decode_get_all(id, self._exchange(connection, request)), until)

    def _exchange(self, connection: Connection, request: bytes) -> bytearray:
        # Not ``request``, which would connect again to the same server before it says that the connection broke.
        connection.send(request, reconnect=False)
        answer: bytearray = connection.recv(reconnect=False)
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
                self.trouble = None
            except _BROKEN as error:
                self._next = (self._next + 1) % len(addresses)
                self.trouble = f"{address}: {error}"
        return self._connection is not None

    def _open(self, address: Address) -> Connection:
        settings = self._settings
        connection = _connection(
            settings.tls,
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
