"""The outbox: what waits for one peer, counted in bytes and bounded. The only way to a transport.

Writes gather here until a flush, which joins the small ones and gives them to the link in one piece. A link that is a
plain TCP socket takes what the kernel takes, at once, without a round through the reactor; what it does not take
stays here, and only here, so ``pending`` is the truth. ::

        add ──▶ parts ──flush──▶ link.push ──▶ kernel
                  ▲                  │ took less
                  └──── the rest ◀───┘ … link.resume later

        pending > high_water    the channel is not writable (after what could be sent was sent)
        pending <= low_water    it is again
        pending > hard_limit    by what was written although it was not writable: the channel is closed, reason
                                ``outbox_limit``. What went beyond high_water when it still was is not counted
    all outboxes > debts    those with most are closed, reason ``outbox_total``
"""

from __future__ import annotations

from typing import Final, Protocol

from mypy_extensions import mypyc_attr

from iot_mqtt.pipeline import reasons
from iot_mqtt.pipeline.debts import Debts
from iot_mqtt.pipeline.reasons import CloseReason
from iot_mqtt.pipeline.settings import OutboxSettings

__all__ = ["Link", "Outbox", "Part"]

#: As much as one push takes when there is a backlog: a few of these make a full socket buffer.
CHUNK: Final = 256 * 1024
#: A part of this size is pushed by itself: another system call costs less than to copy it.
LARGE: Final = 32 * 1024
#: Chunks per turn of the reactor, so that one fast reader with a backlog does not hold up the others.
CHUNKS_PER_TURN = 8

Part = bytes | memoryview


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """What is below a channel. A link that took less than all calls the outbox's ``resume`` when it can take more."""

    __slots__ = ()

    def push(self, data: Part) -> int:
        """How many bytes it took, or -1 if the connection is broken."""
        raise NotImplementedError

    def set_reading(self, on: bool) -> None:
        """Take or stop taking bytes from the peer."""
        raise NotImplementedError

    def finish(self) -> None:
        """Everything was pushed: end the connection in an orderly way; not re-entrant."""
        raise NotImplementedError

    def abort(self) -> None:
        """End the connection at once and drop what is under way; not re-entrant."""
        raise NotImplementedError


class Writer(Protocol):
    """The channel, as its outbox sees it."""

    #: Kept by ``switch_writable``.
    writable: bool

    def switch_writable(self, *, writable: bool) -> None: ...

    def drained(self) -> None: ...

    def broken(self) -> None: ...

    def abort(self, reason: CloseReason) -> None: ...


class Outbox:
    """One per channel; the head adds and flushes, the link resumes."""

    #: ``retire`` does; a compiled class has to be told of it.
    __deletable__ = ("channel",)
    __slots__ = (
        "channel",
        "link",
        "pending",
        "sent",
        "_beyond",
        "_blocked",
        "_debts",
        "_limits",
        "_owed",
        "_parts",
        "_reporting",
    )

    def __init__(self, channel: Writer, limits: OutboxSettings, debts: Debts | None = None) -> None:
        self.channel = channel
        self.link: Link | None = None
        #: Bytes written and not yet taken by the link.
        self.pending = 0
        #: Bytes the link took, since the connection began.
        self.sent = 0
        self._limits = limits
        #: By how much the write went beyond the high mark that made the channel not writable.
        self._beyond = 0
        #: Where all outboxes are counted, and what is counted there of this one: since the link took less than all.
        self._debts = debts
        self._owed = 0
        #: Made by what adds to it: most connections have nothing that waits, and an empty list costs 72 bytes.
        self._parts: list[Part] | None = None
        self._blocked = False
        self._reporting = False

    @property
    def empty(self) -> bool:
        """Nothing waits."""
        return not self._parts

    def add(self, batch: list[bytes]) -> None:
        """Take these for the next flush; the list stays the caller's."""
        size = 0
        for part in batch:
            size += len(part)
        if not size:
            return
        if self._parts:
            self._parts += batch
        else:
            self._parts = list(batch)
        self.pending += size
        if self._blocked:
            self._account()
        if self.pending > self._limits.high_water:
            self._crowded(size)

    def flush(self) -> None:
        """Give the link what waits, unless it said that it is full."""
        # Looked at anew after each chunk: to push may end the connection, and what waits with it.
        parts = self._parts
        if not parts or self._blocked or self.link is None:
            return
        while parts and not self._blocked:
            self._push_chunk(parts)
            parts = self._parts
        if not self.channel.writable:
            self._report()

    def send(self, batch: list[bytes]) -> None:
        """Add and flush; what the link takes at once, as nearly always, is never kept."""
        link, several = self.link, len(batch) > 1
        if self._parts or link is None or (several and max(map(len, batch)) >= LARGE):
            self.add(batch)
            self.flush()
            return
        data = b"".join(batch) if several else batch[0]
        taken = link.push(data)
        if taken == len(data):
            self.sent += taken
        else:
            parts = self._parts = [data]
            self.pending = len(data)
            self._took_less(parts, 1, data, taken)

    def resume(self) -> None:
        """The link takes bytes again; it calls this."""
        self._blocked = False
        for _ in range(CHUNKS_PER_TURN):
            if not self._parts or self._blocked:
                break
            self._push_chunk(self._parts)
        else:
            # More than one turn's share: stay blocked, so that the link comes back next turn.
            self._blocked = bool(self._parts)
        self._account()
        self._report()
        if not self._parts:
            self.channel.drained()

    def bound(self, limits: OutboxSettings) -> None:
        """It has other limits from now on, which the next bytes are held against."""
        self._limits = limits

    @property
    def blocked(self) -> bool:
        """True while the link is to call ``resume``."""
        return self._blocked

    def discard(self) -> None:
        """Drop what waits: the connection is gone or given up."""
        self._parts = None
        self._blocked = False
        self.pending = 0
        self.link = None
        self._account()

    def retire(self) -> None:
        """The connection ended: let go of the channel, so that neither waits for the collector."""
        self.discard()
        del self.channel

    def _push_chunk(self, parts: list[Part]) -> None:
        count, size = 0, 0
        for part in parts:
            if count and len(part) >= LARGE:
                break
            count += 1
            size += len(part)
            if size >= CHUNK or len(part) >= LARGE:
                break
        data = parts[0] if count == 1 else b"".join(parts[:count])
        assert self.link is not None
        taken = self.link.push(data)
        if taken == len(data):
            del parts[:count]
            self.pending -= taken
            self.sent += taken
        else:
            self._took_less(parts, count, data, taken)

    def _took_less(self, parts: list[Part], count: int, data: Part, taken: int) -> None:
        """Keep the rest of ``data``, which is the first ``count`` of them."""
        if taken < 0:
            self.channel.broken()
            return
        self._blocked = True
        parts[:count] = [memoryview(data)[taken:]]
        self.pending -= taken
        self.sent += taken
        self._account()
        self._report()

    def _account(self) -> None:
        """Say what waits here now; this or another outbox may be cut for it."""
        by = self.pending - self._owed
        if by and self._debts is not None:
            self._owed = self.pending
            self._debts.change(self, by)

    def _crowded(self, size: int) -> None:
        """Above the high water mark: send what can be sent before anybody is told to stop."""
        was_writable = self.channel.writable
        self.flush()
        if self.pending - self._beyond > self._limits.hard_limit and not was_writable:
            self.channel.abort(reasons.OUTBOX_LIMIT)
            return
        self._report()

    def _report(self) -> None:
        """Tell the pipeline of a change. To stop is said at once; to go on in a loop rather than recursively: being
        told, it may write more.
        """
        channel, limits = self.channel, self._limits
        if channel.writable and self.pending > limits.high_water:
            self._beyond = self.pending - limits.high_water
            channel.switch_writable(writable=False)
        if self._reporting:
            return
        self._reporting = True
        try:
            while not channel.writable and self.pending <= limits.low_water:
                channel.switch_writable(writable=True)
                if not channel.writable:
                    # Whoever was not yet told to go on was told to stop first.
                    channel.switch_writable(writable=False)
        finally:
            self._reporting = False
