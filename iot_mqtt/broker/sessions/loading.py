"""What the store kept, back in memory: everything before any listener accepts, or one session when its client comes.

At the start of a node the store is read straight through. On a node that serves already a session must appear whole,
because what is published meanwhile is for it: its records are gathered first and then restored in one go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from iot_mqtt.broker.driving import breath
from iot_mqtt.broker.publishing.accompanying import Accompaniment
from iot_mqtt.broker.publishing.retention import Retention
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.elsewhere_count import ElsewhereCount
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.gathering import Records, Wanted, gather
from iot_mqtt.broker.sessions.restoring import Load, SessionRestoring
from iot_mqtt.broker.sessions.restoring_clocks import ClockRestoring
from iot_mqtt.broker.sessions.restoring_messages import MessageRestoring
from iot_mqtt.broker.sessions.sessions import Sessions
from iot_mqtt.broker.shared_groups import SharedGroups, home_of
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.endings import NODE_LOST, NODE_RESTARTED
from iot_mqtt.ports.store import Store

log = logging.getLogger(__name__)

#: What is restored before others get their turn, in filters; and what a session takes beside its filters.
FILTERS_A_TURN = 500
SESSION = 25


@dataclass(frozen=True, slots=True)
class Restoring:
    """By which sessions are restored."""

    sessions: SessionRestoring
    messages: MessageRestoring
    clocks: ClockRestoring


@dataclass(frozen=True, slots=True, eq=False)
class Starting:
    """Everything that the store has for this node, when it starts."""

    steps: Restoring
    store: Store
    sessions: Sessions
    groups: SharedGroups
    retention: Retention
    turn: Turn

    async def load(self, writer: int, wanted: Wanted | None, whole: Callable[[], None], ended: str) -> None:
        """Fill sessions, routes, retained messages and wills; ``writer`` is the number of this node's log,
        ``ended`` how the connections did of the life before.
        """
        steps, alone = self.steps, self.sessions.others.alone
        load = Load(self.store, wanted or _everybody)
        await steps.sessions.restore(load)
        owned = wanted is None or alone or wanted(home_of(writer))
        if owned:
            await self.groups.load(keep=wanted is not None and alone)
        await steps.messages.outbound(load)
        self.groups.settle(owned=owned)
        await steps.messages.received(load)
        await self.retention.load()
        whole()
        steps.sessions.loaded(load)
        steps.clocks.start(load, ended)
        # Published once the node runs.
        await steps.clocks.publish_wills(load, self.turn.call_soon)
        self.turn.plan()
        retained = self.retention.index.count
        log.info("state loaded", extra={"sessions": len(self.sessions), "retained": retained})


class Gatherings:
    """The reads that are under way, and who is in memory since before, or whose records another one has used meanwhile.

    What a read has of such a client is old. A session in memory would show that; a will without a session, or a session
    that has ended again, does not.
    """

    __slots__ = ("_used",)

    def __init__(self) -> None:
        self._used: list[set[str]] = []

    @contextmanager
    def one(self) -> Iterator[set[str]]:
        """Of a read that begins: the clients whose records are used until it is over."""
        used: set[str] = set()
        self._used.append(used)
        try:
            yield used
        finally:
            self._used = [one for one in self._used if one is not used]

    def use(self, client_id: str) -> None:
        for used in self._used:
            used.add(client_id)


@dataclass(frozen=True, slots=True, eq=False)
class Arriving:
    """Sessions that come to a node that serves already."""

    steps: Restoring
    store: Store
    sessions: Sessions
    accompaniment: Accompaniment
    census: Census
    elsewhere_count: ElsewhereCount
    turn: Turn
    gatherings: Gatherings = field(default_factory=Gatherings)

    async def load(self, client_id: str, *, inherited: bool) -> Session | None:
        """One session with everything that is kept for it; None if there is none. What it left without a session (a
        will, records of an end that was cut short) is dealt with all the same.
        """
        if self.sessions.get(client_id) is None:
            with self.gatherings.one() as used:
                gathered = await gather(self.store, client_id, client_id.__eq__)
                if client_id in gathered and client_id not in used and self.sessions.get(client_id) is None:
                    await self._restore(gathered[client_id], inherited=inherited)
            self.gatherings.use(client_id)
        return self.sessions.get(client_id)

    async def adopt(self, wanted: Wanted) -> None:
        """All that are wanted, those that are in memory excepted."""
        here = self.sessions
        with self.gatherings.one() as used:
            # Also those that leave the memory while it is read: another node may have them then.
            used.update(session.client_id for session in here if wanted(session.client_id))
            # What ended here before is not read again.
            await self.turn.settled()
            gathered = await gather(self.store, None, lambda client_id: client_id not in used and wanted(client_id))
            left = FILTERS_A_TURN
            for client_id, records in gathered.items():
                # It may have come by itself meanwhile, and be gone again.
                if client_id not in used and here.get(client_id) is None:
                    self.gatherings.use(client_id)
                    await self._restore(records, inherited=True)
                left -= SESSION + len(records.of["subscriptions"])
                if left <= 0:
                    left = FILTERS_A_TURN
                    await breath(self.turn.call_soon)
        self.census.begin()
        self.elsewhere_count.again()
        log.info("sessions adopted", extra={"sessions": len(gathered)})

    async def _restore(self, records: Records, *, inherited: bool) -> None:
        """One session from records that are at hand: nothing is waited for, so nobody sees half of it."""
        steps, load = self.steps, Load(records, _everybody)
        await steps.sessions.restore(load)
        steps.messages.join_groups(load)
        await steps.messages.outbound(load)
        await steps.messages.received(load)
        steps.sessions.loaded(load)
        steps.clocks.start(load, NODE_LOST)
        # At once: the client may be about to open a session of its own.
        await steps.clocks.publish_wills(load, _at_once)
        for session in load.sessions:
            self.accompaniment.by.session_came(session.client_id, inherited=inherited)
        self.turn.plan()


class Loading:
    """The two, told apart by whether the node has started."""

    __slots__ = ("_starting", "_arriving", "_begin", "_begun", "_calls")

    def __init__(self, starting: Starting, arriving: Arriving, begin: Callable[[], int]) -> None:
        """``begin`` is called when the store is about to be read, with the log open; returns the log's number."""
        self._starting = starting
        self._arriving = arriving
        self._begin = begin
        self._begun = False
        self._calls: list[Callable[[], None]] = []

    def when_whole(self, call: Callable[[], None]) -> None:
        """``call`` when a start has everything in memory, and before any batch says so."""
        self._calls.append(call)

    def _whole(self) -> None:
        for call in self._calls:
            call()

    async def load(self, wanted: Wanted | None = None, ended: str = NODE_RESTARTED) -> None:
        """Load the sessions of the clients that are wanted; once more: those that are wanted now, too. ``ended``: how
        the connections did that this node had before.
        """
        if self._begun:
            await self._arriving.adopt(wanted or _everybody)
        else:
            self._begun = True
            await self._starting.load(self._begin(), wanted, self._whole, ended)

    async def load_session(self, client_id: str, *, inherited: bool = False) -> Session | None:
        """One session, when its client comes; ``inherited``: the node that had it is dead."""
        return await self._arriving.load(client_id, inherited=inherited)


def _everybody(_: str) -> bool:
    return True


def _at_once(call: Callable[[], None]) -> None:
    call()
