"""What this node wants of the others: the filters of its sessions, counted, and told as they change.

A filter is *live* while a connected session has it (publications are forwarded here) and *kept* while a durable
one has it (publications are recorded wherever they are published). What is kept is also stored, for nodes that start
while this one is down. Telling too much does no harm; telling too little loses messages, so a session that moves to
another node leaves its filters counted here for a while.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from iot_mqtt.broker.cluster.peers import PeerRoutes
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.route_turns import goes_in_turns
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Interest, Peers
from iot_mqtt.ports.store import Store
from iot_mqtt.topics import parse_replay, parse_shared

#: Seconds that the filters of a session that moved away are still counted here: its new home has told everybody
#: of them long before.
LINGER_SECONDS = 30.0


class _Counts:
    """Who wants one filter."""

    __slots__ = ("live", "kept", "members")

    def __init__(self) -> None:
        self.live = 0
        self.kept = 0
        #: Connected members, for a shared group, by client id.
        self.members: dict[str, Session] = {}

    def seen(self, filter: str) -> Interest:
        """As other nodes are told."""
        return Interest(filter, self.live > 0, self.kept > 0, tuple(self.members))


class OwnInterest:
    """The counts of a node in a cluster; a sole node has none."""

    def __init__(
        self, peers: Peers, routes: PeerRoutes, groups: SharedGroups, store: Store, turn: Turn, clock: Clock
    ) -> None:
        self._peers = peers
        self._routes = routes
        self._groups = groups
        self._store = store
        self._turn = turn
        self._clock = clock
        self._counts: dict[str, _Counts] = {}
        # What each session is counted as: (connected, durable).
        self._counted: dict[Session, tuple[bool, bool]] = {}
        self._told: dict[str, Interest] = {}
        self._changed: dict[str, None] = {}
        #: Filters that are kept for no session here, and for how many others.
        self._lingering: Counter[str] = Counter()
        #: What earlier lives have noted in the store.
        self._stored: list[str] = []
        #: While sessions that are at home here cannot be read: the groups that any of them may be a member of.
        self._guarded: dict[str, None] | None = None
        #: The newest version that anything was told in.
        self.version = 0

    def all(self) -> list[Interest]:
        """Everything as of ``version``, for a peer that begins. Not what has changed since then: if that changes back
        before it is told, it never will be, and the peer would go on believing what it was told here.
        """
        return list(self._told.values())

    def interest(self) -> list[Interest]:
        """See ``ports.cluster.Node``."""
        # A peer forgets whatever is not in this: what was loaded a moment ago must be.
        self.tell()
        return self.all()

    async def load(self) -> None:
        """What durable sessions at home on other nodes want, those that are down now included; and what those of
        earlier lives wanted. Before anything is published.
        """
        wanted: dict[int, list[Interest]] = {}
        async for number, filter in self._store.routes():
            wanted.setdefault(number, []).append(Interest(filter, kept=True))
        self._stored = [one.filter for one in wanted.pop(self._peers.number, [])]
        # Groups without anybody would be removed when their places are loaded.
        self._record_for(self._stored, kept=True)
        for number, interest in wanted.items():
            self._routes.wants(number, interest, full=True)

    def recall(self, number: int, done: Callable[[Sequence[Interest] | None], None]) -> None:
        """See ``ports.cluster.Node``."""
        drive(self._noted(number), done, lambda _: done(None))

    async def _noted(self, number: int) -> list[Interest]:
        return [Interest(filter, kept=True) async for node, filter in self._store.routes() if node == number]

    def loaded(self) -> None:
        """After the sessions were loaded: what earlier lives had stored for sessions that others have taken lingers."""
        stored, self._stored = self._stored, []
        self._linger(stored)

    # Sessions come, change and go.

    def settle(self, session: Session) -> None:
        """Its connection or durability may have changed. One with many filters that has ended is counted until they are
        ``removed``.
        """
        now = (session.connection is not None and not session.ended, session.durable and not session.ended)
        before = self._counted.get(session, (False, False))
        if now == before or (session.ended and goes_in_turns(session)):
            return
        for filter in session.subscriptions:
            self._count(session, filter, before, -1)
            self._count(session, filter, now, 1)
        if any(now):
            self._counted[session] = now
        else:
            self._counted.pop(session, None)

    def added(self, session: Session, filter: str) -> None:
        """It has subscribed to a filter that it did not have."""
        self._count(session, filter, self._counted.get(session, (False, False)), 1)

    def removed(self, session: Session, filter: str) -> None:
        """It has no longer subscribed to a filter."""
        self._count(session, filter, self._counted.get(session, (False, False)), -1)

    def gone(self, session: Session) -> None:
        """It has ended, and all its filters were removed."""
        self._counted.pop(session, None)

    def moved_away(self, session: Session) -> None:
        """Another node has it now; its filters stay kept here until that one is sure to have told everybody."""
        before = self._counted.pop(session, (False, False))
        filters = list(session.subscriptions)
        for filter in filters:
            self._count(session, filter, before, -1)
        if before[1]:
            self._linger(filters)

    def unread(self, some: bool) -> None:
        """See ``ports.cluster.Node``."""
        if some:
            self._guarded = {}
            self._keep(["#"])
            self._guard(self._routes.kept_groups())
        else:
            guarded, self._guarded = self._guarded or {}, None
            self._keep_no_more(["#", *guarded])

    def heard(self, interest: Sequence[Interest]) -> None:
        """Before the routing table follows what a peer said: whose member moves here may let go of the group there."""
        if self._guarded is not None:
            self._guard(one.filter for one in interest if one.kept)

    def _guard(self, filters: Iterable[str]) -> None:
        """The log that has everything is not enough for a group: its place there ends when nobody keeps it."""
        assert self._guarded is not None
        new = {one: None for one in filters if one not in self._guarded and parse_shared(one) is not None}
        self._guarded.update(new)
        self._keep(list(new))

    def _linger(self, filters: list[str]) -> None:
        """Sessions with these were here; what they want is recorded for a while, here as everywhere."""
        if filters:
            self._keep(filters)
            self._clock.call_later(LINGER_SECONDS, lambda: self._keep_no_more(filters))

    def _keep(self, filters: list[str]) -> None:
        for filter in filters:
            self._count(None, filter, (False, True), 1)
            self._lingering[filter] += 1
        self._record_for(filters, kept=True)

    def _keep_no_more(self, filters: list[str]) -> None:
        for filter in filters:
            self._count(None, filter, (False, True), -1)
            self._lingering[filter] -= 1
        over = [filter for filter in filters if not self._lingering[filter]]
        for filter in over:
            self._lingering.pop(filter, None)
        self._record_for(over, kept=False)
        self._turn.plan()

    def _record_for(self, filters: list[str], *, kept: bool) -> None:
        """Nobody here has these filters any more: this node keeps them for itself as it does for others."""
        if filters:
            replays = {filter: parse_replay(filter) for filter in filters}
            plain = {filter if replay is None else replay[1] for filter, replay in replays.items()}
            self._routes.wants(self._peers.number, [Interest(filter, kept=kept) for filter in plain])

    def _count(self, session: Session | None, subscribed: str, state: tuple[bool, bool], sign: int) -> None:
        connected, durable = state
        if not (connected or durable):
            return
        replay = parse_replay(subscribed)
        # History and what is live come to a replay through the log.
        filter, durable = (replay[1], True) if replay is not None else (subscribed, durable)
        counts = self._counts.get(filter)
        if counts is None:
            counts = self._counts[filter] = _Counts()
        if durable:
            counts.kept += sign
            if sign > 0 and counts.kept == 1:
                self._store.save_route(self._peers.number, filter)
            elif not counts.kept:
                self._store.remove_route(self._peers.number, filter)
        if connected:
            counts.live += sign
            if session is not None and parse_shared(filter) is not None:
                if sign > 0:
                    counts.members[session.client_id] = session
                elif counts.members.get(session.client_id) is session:
                    # Else the client has another session by now.
                    del counts.members[session.client_id]
        if not counts.live and not counts.kept:
            del self._counts[filter]
        self._changed[filter] = None
        self._turn.plan()

    # Telling.

    def when_known(self, call: Callable[[int], None]) -> None:
        """``call`` once everybody acts on everything up to now, or after a bounded time; with the version of that."""

        def tell() -> None:
            version = self.tell()
            self._peers.when_known(version, lambda: call(version))

        self._groups.when_open(tell)

    def tell(self) -> int:
        """Tell the peers what changed; returns the version that has everything up to now."""
        if self._changed:
            changed, self._changed = self._changed, {}
            told = []
            for filter in changed:
                counts = self._counts.get(filter)
                now = Interest(filter) if counts is None else counts.seen(filter)
                if now != self._told.get(filter, Interest(filter)):
                    told.append(now)
                    if now.none:
                        del self._told[filter]
                    else:
                        self._told[filter] = now
            if told:
                self.version = self._peers.changed(told)
        return self.version
