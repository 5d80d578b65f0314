"""What every turn of the reactor asks of the system: the twin of ``_sockets``."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

_IN: Final = select.EPOLLIN
#: Events of one turn at most: what they are received into must not grow with the connections.
MOST: Final = 1024
#: Seconds after which a turn ends without an event: what epoll takes as milliseconds has 31 bits.
LONGEST: Final = 2_000_000


def accept(descriptor: int) -> tuple[int, tuple[Any, ...]] | None:
    """A connection that a listening socket has, which never waits, and where its peer is, as ``socket.accept`` has it;
    None when there is none now.
    """
    # The system says of which family it is, and so are the addresses.
    listening = socket.socket(fileno=descriptor)
    try:
        accepted, address = listening._accept()  # type: ignore[attr-defined]
    except BlockingIOError:
        return None
    finally:
        listening.detach()
    os.set_blocking(accepted, False)
    return accepted, address


def send_end(descriptor: int) -> None:
    """Have the peer told that nothing follows; it may go on."""
    # With a family, whichever it is, the system is not asked for it.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    try:
        sock.shutdown(socket.SHUT_WR)
    finally:
        sock.detach()


def receive(descriptor: int, room: int) -> bytes | None:
    """What a socket has, up to ``room`` bytes; empty when its peer has ended, None when nothing is there now."""
    try:
        return os.read(descriptor, room)
    except BlockingIOError:
        return None


def send(descriptor: int, data: bytes | memoryview) -> int:
    """How many of these bytes the kernel took; -1: the connection is broken."""
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return 0
    except OSError:  # also when it is closed
        return -1


class Turns:
    """The turns of a reactor: each waits for descriptors, lets those that can only be read do so, which is the usual
    case, and makes the calls of ``at_end``.

    ``over`` is told of a selectable why its ``doRead`` says that it is, ``raised`` what that raised; everything else is
    for ``other``: a selectable, its descriptor, what is there. ``failed`` is told what a call of ``at_end`` raised.
    """

    __slots__ = (
        "interrupted",
        "ready",
        "_at_end",
        "_failed",
        "_other",
        "_over",
        "_poller",
        "_raised",
        "_reads",
        "_selectables",
    )

    def __init__(
        self,
        poller: select.epoll,
        selectables: dict[int, Any],
        reads: set[int],
        at_end: list[Callable[[], None]],
        over: Callable[[Any, BaseException], None],
        raised: Callable[[Any, Exception], None],
        other: Callable[[Any, int, int], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._poller = poller
        self._selectables = selectables
        self._reads = reads
        self._at_end = at_end
        self._over = over
        self._raised = raised
        self._other = other
        self._failed = failed
        #: Descriptors that have something in this turn.
        self.ready = 1
        #: There is something else to do than turns; whoever has it to do sets it.
        self.interrupted = False

    def watch(self, descriptor: int, reader: Any) -> None:
        """A descriptor that is new, and known to be a socket, is to be read."""
        self._poller.register(descriptor, _IN)
        self._reads.add(descriptor)
        self._selectables[descriptor] = reader

    def run(self, until: float) -> None:
        """Turns until they are interrupted, or the monotonic clock says so."""
        while not self.interrupted:
            left = until - time.monotonic()
            if left <= 0:
                return
            self.turn(left)

    def turn(self, seconds: float) -> None:
        """One turn, which waits for so long at most; not at all where calls were asked for before it."""
        if self._at_end:
            self._end()
            seconds = 0
        events = self._poller.poll(min(max(seconds, 0), LONGEST), MOST)
        self.ready = len(events)
        selectables = self._selectables
        for descriptor, event in events:
            selectable = selectables.get(descriptor)
            if selectable is None:
                continue  # closed by an earlier event of this turn
            if event != _IN:
                self._other(selectable, descriptor, event)
                continue
            try:
                why = selectable.doRead()
            except Exception as error:  # noqa: BLE001 - whoever is told of it logs it
                self._raised(selectable, error)
            else:
                if why:
                    self._over(selectable, why)
        if self._at_end:
            self._end()

    def _end(self) -> None:
        calls = self._at_end.copy()
        self._at_end.clear()
        for call in calls:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - one failing call must not stop the others
                self._failed(error)
