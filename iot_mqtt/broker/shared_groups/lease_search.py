"""What a client has begun of the messages that were leased to it, when no node says so: it is in its records.

The records of a client on a living node are behind what that one has, and say nothing of what is on its way there. So
they are read when every node on the list is heard, and has had the time to answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from iot_mqtt.broker.driving import RETRY_SECONDS, done, drive
from iot_mqtt.broker.shared_groups.cursor import Lease
from iot_mqtt.broker.shared_groups.lease_book import LeaseBook
from iot_mqtt.broker.shared_groups.node import Sessions
from iot_mqtt.broker.shared_groups.references import places_of, split
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.store import Store

log = logging.getLogger(__name__)

#: Seconds until what nobody knows the place of is looked for in the store: by then the peers have said what is with
#: their members.
LOOK_AFTER = 5.0


class LeaseSearch:
    """Looks for the leases of clients whose node is not known, or dead."""

    def __init__(
        self,
        book: LeaseBook,
        store: Store,
        sessions: Sessions,
        clock: Clock,
        answer: Callable[[str, Iterable[Lease]], None],
    ) -> None:
        """``answer`` says what has become of them, where the session is here."""
        self._book = book
        self._store = store
        self._sessions = sessions
        self._clock = clock
        self._answer = answer
        #: Whether what sessions here have is in memory: before that they would have nothing.
        self._begun = False
        #: Clients whose records are being read; whether they are to be read once more, for leases that came too late.
        self._looking: dict[str, bool] = {}
        #: Whether a node on the list is.
        self._unheard = False
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Everything is restored. What was to be looked for before is looked for with all."""
        self._begun = True

    def unheard(self, some: bool) -> None:
        """See ``ports.cluster.Node``."""
        self._unheard = some
        self.look_later()

    def look_later(self) -> None:
        """For all that nobody knows the place of, if nobody has said it by then."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if self._unheard else self._clock.call_later(LOOK_AFTER, self._look_for_all)

    def _look_for_all(self) -> None:
        self._timer = None
        for client_id in dict.fromkeys(lease.client_id for lease in self._book.all() if lease.peer is None):
            self.look(client_id)

    def look(self, client_id: str) -> None:
        """One client's."""
        if not self._begun:
            return
        if client_id in self._looking:
            self._looking[client_id] = True
            return
        if self._sessions.get(client_id) is not None:
            self._answer(client_id, self._book.all(client_id))
            return
        self._looking[client_id] = False
        drive(self._read(client_id), done, partial(self._failed, client_id))

    async def _read(self, client_id: str) -> None:
        book = self._book
        leases = [lease for lease in book.all(client_id) if lease.peer is None]
        held: dict[str, set[int]] = {}
        over: dict[str, set[int]] = {}
        async for _, _, flights in self._store.segments(client_id):
            for flight in flights:
                for offset, ids in flight.pieces:
                    kind = held if ids[0] else over
                    places = places_of(flight.reference.part(offset, offset + len(ids)))
                    kind.setdefault(flight.origin, set()).update(places)
        again = self._looking.pop(client_id)
        for lease in leases:
            if lease.peer is not None or not lease.left or lease.origin.closed:
                # Heard of meanwhile, or given out elsewhere by now.
                continue
            name = lease.origin.name
            book.take_back(lease.origin, client_id, split(lease.left, over.get(name, ()))[0])
            book.give_back(lease.origin, client_id, split(lease.left, held.get(name, ()))[1])
        if again:
            self.look(client_id)

    def _failed(self, client_id: str, error: BaseException) -> None:
        self._looking.pop(client_id, None)
        log.error("what a client has begun cannot be read, trying again: %s", error, extra={"client": client_id})
        self._clock.call_later(RETRY_SECONDS, partial(self.look, client_id))
