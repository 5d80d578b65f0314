"""The one place where ZooKeeper's client library is called, and where its threads cross into the reactor.

    reactor                                      kazoo's threads
    create, get, … ──▶ *_async, never waits ──▶  connection thread ⇄ ZooKeeper
    Deferred, told.… ◀── cross ◀───────────────  results, watches, states

A ``Session`` is one ZooKeeper session and no more: when that ends the object has ended too, and whatever the
library does after (it would quietly open another one) is not passed on. Before anything is passed on,
``told.awake()`` is called, so that a process that was stopped for long learns first that it was.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    WriterNotClosedException,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl
from twisted.internet.defer import Deferred

from iot_mqtt.cluster.registry.library_log import LibraryLines
from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.pipeline.tls_client import ClientTls

log = logging.getLogger(__name__)
#: The library's own words. Never below INFO: it writes passwords into its debug messages.
library = logging.getLogger(__name__ + ".kazoo")
library.setLevel(logging.INFO)
library.addFilter(LibraryLines())

#: What a call ends with when the connection is away; it may have been carried out all the same.
AWAY = (ConnectionLoss, ConnectionClosedError, SessionExpiredError, OperationTimeoutError)

#: What operations of a transaction say of which one could not be done: that one, and those that were undone for it.
_NOT_DONE = (NodeExistsError, NoNodeError, BadVersionError, RolledBackError, RuntimeInconsistency)

#: Of a check: whatever the version is.
ANY_VERSION = -1

T = TypeVar("T")
#: Runs a callable in the reactor's thread, some time soon, in the order of calls: ``reactor.callFromThread``.
Cross = Callable[[Callable[[], None]], object]


class Stat(NamedTuple):
    """What ZooKeeper knows of a node besides its data."""

    #: The session that made it, if it goes with that; else 0.
    owner: int
    version: int
    #: The number of the transaction that made it: greater than that of everything made before.
    created: int


class Told(Protocol):
    """Who uses a session. Called in the reactor's thread."""

    def awake(self) -> None:
        """Called before everything else that a session has to say; may end it."""
        ...

    def granted(self, seconds: float) -> None:
        """The server keeps the session for so long without a word."""
        ...

    def connected(self, session_id: int) -> None: ...

    def disconnected(self) -> None: ...

    def expired(self, why: str) -> None: ...

    def changed(self, path: str) -> None:
        """Something that was read with ``watch`` is different now, or was for a time."""
        ...


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]
    """A host that takes no connection, or does not answer on it, may cost a part of a session's time, not all of it."""

    def __init__(self, patience: float, tls: ClientTls | None = None) -> None:
        super().__init__()
        self._patience = patience
        self._tls = tls

    def select(self, reads: list[Any], writes: list[Any], other: list[Any], timeout: float) -> Any:
        """One socket alone is waited for by whoever is in the middle of a packet; that begins with the first answer."""
        if len(reads) + len(writes) == 1:
            timeout = min(timeout, self._patience)
        return super().select(reads, writes, other, timeout)

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["timeout"] = min(kwargs.get("timeout", self._patience), self._patience)
        if self._tls is None:
            return super().create_connection(*args, **kwargs)
        # kazoo's own would believe every authority of the system, too.
        address, name = kwargs["address"], kwargs["hostname"]
        plain = socket.create_connection(address, kwargs["timeout"])
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.context().wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise


class Session:
    """Calls answer with a Deferred; with an error of ``AWAY`` while not connected."""

    def __init__(self, settings: ZooKeeperSettings, cross: Cross, told: Told) -> None:
        self._told = told
        self._cross = cross
        self._ended = False
        self._pending: set[Deferred[Any]] = set()
        hosts = settings.servers.count(",") + 1
        threads = _Threads(max(0.5, settings.session_timeout / (hosts + 2)), settings.tls)
        secret: dict[str, Any] = {}
        if settings.username is not None:
            secret["auth_data"] = {("digest", f"{settings.username}:{settings.password}")}
            secret["default_acl"] = [make_digest_acl(settings.username, settings.password, all=True)]
        self._client = KazooClient(
            hosts=settings.servers,
            timeout=settings.session_timeout,
            handler=threads,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=0.1,
                backoff=2,
                max_jitter=0.4,
                max_delay=settings.session_timeout / 3,
                sleep_func=threads.sleep_func,
            ),
            logger=library,
            use_ssl=settings.tls is not None,
            **secret,
        )
        self._client.add_listener(self._stated)
        _watch_grant(self._client, self._granted)

    def start(self) -> None:
        """Connect, however long that takes. Returns at once."""
        self._client.start_async()

    def end(self) -> Deferred[None]:
        """Nothing is passed on from now. Fires when the server has been told, or cannot be."""
        done: Deferred[None] = Deferred()
        if not self._ended:
            self._ended = True
            pending, self._pending = self._pending, set()
            threading.Thread(target=self._stop, args=(done,), name="registry-stop", daemon=True).start()
            for call in pending:
                call.errback(ConnectionClosedError("the session has ended"))
        return done

    # Calls.

    def create(self, path: str, data: bytes, ephemeral: bool) -> Deferred[None]:
        return self._call(self._client.create_async(path, data, ephemeral=ephemeral), _none)

    def replace(self, path: str, version: int, data: bytes) -> Deferred[bool]:
        """Delete what has this version and create it anew as ours, both or none."""
        transaction = self._client.transaction()
        transaction.delete(path, version)
        transaction.create(path, data, ephemeral=True)
        return self._call(transaction.commit_async(), _all_done)

    def get(self, path: str) -> Deferred[tuple[bytes, Stat]]:
        return self._call(self._client.get_async(path, watch=self._watched), _data)

    def exists(self, path: str, watch: bool = False) -> Deferred[Stat | None]:
        return self._call(self._client.exists_async(path, watch=self._watched if watch else None), _stat)

    def children(self, path: str) -> Deferred[list[str]]:
        return self._call(self._client.get_children_async(path, watch=self._watched), list)

    def set(self, path: str, data: bytes, version: int) -> Deferred[Stat]:
        return self._call(self._client.set_async(path, data, version), _a_stat)

    def delete(self, path: str, version: int = -1) -> Deferred[None]:
        """If it has this version; -1: whichever it has."""
        return self._call(self._client.delete_async(path, version), _none)

    def prove(self, path: str) -> Deferred[None]:
        """Answered when more than half of the servers have agreed: who gets an answer is no part that was cut off, and
        reads after it what was written before. A transaction that changes nothing; no watch fires.

        ``sync`` is not enough: a leader that is cut off answers it until it notices, ``syncLimit`` later.
        """
        transaction = self._client.transaction()
        transaction.check(path, ANY_VERSION)
        return self._call(transaction.commit_async(), _proved)

    def _call(self, result: Any, read: Callable[[Any], T]) -> Deferred[T]:
        call: Deferred[Any] = Deferred()
        if self._ended:
            call.errback(ConnectionClosedError("the session has ended"))
            return call
        self._pending.add(call)
        # The library has no order of "linked" and "answered": either may come first, and in either thread.
        result.rawlink(lambda answered: self._hand_over(lambda: self._answer(call, answered)))
        return call.addCallback(read)

    def _answer(self, call: Deferred[Any], answered: Any) -> None:
        if call not in self._pending:
            return
        self._pending.discard(call)
        if answered.successful():
            call.callback(answered.value)
        else:
            call.errback(answered.exception)

    # In kazoo's threads, except what they hand over.

    def _hand_over(self, call: Callable[[], None]) -> None:
        self._cross(lambda: self._arrive(call))

    def _arrive(self, call: Callable[[], None]) -> None:
        """In the reactor: look at the clock, then do it, unless the session has ended by that."""
        if not self._ended:
            self._told.awake()
        if not self._ended:
            call()

    def _stated(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            session_id = self._client.client_id[0]
            self._hand_over(lambda: self._told.connected(session_id))
        elif state == KazooState.SUSPENDED:
            self._hand_over(self._told.disconnected)
        else:
            refused = self._client.client_state == KeeperState.AUTH_FAILED
            why = "ZooKeeper refused the user name" if refused else "the ZooKeeper session has expired"
            self._hand_over(lambda: self._told.expired(why))

    def _watched(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:  # those come with a lost connection, after which all is read anew
            self._hand_over(lambda: self._told.changed(event.path))

    def _granted(self, seconds: float) -> None:
        self._hand_over(lambda: self._told.granted(seconds))

    def _stop(self, done: Deferred[None]) -> None:
        """Waits for the connection's thread: hence in a thread of its own."""
        try:
            try:
                self._client.stop()
            except WriterNotClosedException:  # a name server that does not answer, perhaps: it ends some time
                self._client._connection.stop()
            self._client.close()
        except (KazooException, OSError) as error:
            log.warning("a ZooKeeper session did not end in an orderly way: %s", error)
        self._cross(lambda: done.callback(None))


def _watch_grant(client: KazooClient, granted: Callable[[float], None]) -> None:
    """The library keeps the session time that the server grants to itself; it returns 2/3 of it here."""
    connection = client._connection  # there is no public way
    inner = connection._connect

    def connect(*args: Any) -> Any:
        timeouts = inner(*args)
        granted(timeouts[0] * 1.5 / 1000.0)
        return timeouts

    connection._connect = connect


def _none(_value: Any) -> None:
    return None


def _proved(results: Any) -> None:
    """That nothing is there is an answer, too."""
    _all_done(results)


def _a_stat(value: Any) -> Stat:
    return Stat(value.ephemeralOwner, value.version, value.czxid)


def _stat(value: Any) -> Stat | None:
    return None if value is None else _a_stat(value)


def _data(value: Any) -> tuple[bytes, Stat]:
    data, stat = value
    return data or b"", _a_stat(stat)


def _all_done(results: Any) -> bool:
    """False if something was changed meanwhile; what cannot work at all is raised."""
    errors = [one for one in results if isinstance(one, Exception)]
    for error in errors:
        if not isinstance(error, _NOT_DONE):
            raise error
    return not errors
