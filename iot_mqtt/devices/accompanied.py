"""Commands, devices and shadows of one node, put together; and the one sweep that time comes by.

The broker's ``Accompaniment`` has one of these: what is asked there is passed on to the part that knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iot_mqtt.broker.publishing.accompanying import Accompanying
from iot_mqtt.broker.sending.commands import DOWN, Leave
from iot_mqtt.codec import Properties
from iot_mqtt.devices.accepting import Accepting
from iot_mqtt.devices.book import Book
from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.commands import Commands
from iot_mqtt.devices.departures import Departures, Fetching
from iot_mqtt.devices.elsewhere import LOOK_SECONDS, Elsewhere, Others
from iot_mqtt.devices.letters import Letters
from iot_mqtt.devices.link.messages import is_name
from iot_mqtt.devices.looking import Looking
from iot_mqtt.devices.registry import Devices
from iot_mqtt.devices.senders import Senders, UserRights
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.devices.shadows import Shadows
from iot_mqtt.devices.states import REPLY, States
from iot_mqtt.devices.telling import Telling
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import DeviceFigures, DeviceStore, Half, StoredCommand
from iot_mqtt.session import Delivery, Piece

if TYPE_CHECKING:
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.budget import Budget
    from iot_mqtt.broker.publishing.outcome import Outcome
    from iot_mqtt.broker.publishing.path import Publishing
    from iot_mqtt.broker.publishing.steps import Sender
    from iot_mqtt.broker.sending.outflow import Outflow
    from iot_mqtt.broker.session import Session
    from iot_mqtt.broker.sessions.sessions import Sessions
    from iot_mqtt.broker.turn import Turn
    from iot_mqtt.ports.clock import Clock
    from iot_mqtt.ports.store import Store

#: Deadlines are kept to this.
SWEEP_SECONDS = 0.25
_VERSIONS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class Accompanied:
    """``load`` it when the broker is loaded, and ``sweep`` it every ``SWEEP_SECONDS``."""

    def __init__(
        self,
        *,
        store: DeviceStore,
        settings: DevicesSettings,
        clock: Clock,
        turn: Turn,
        commits: Store,
        publishing: Publishing,
        budget: Budget,
        sessions: Sessions,
        outflow: Outflow,
        max_levels: int,
        rights: UserRights,
    ) -> None:
        """``commits``: what the batches of the node go through; ``max_levels``: of topics; ``rights``: of users in
        whose name somebody acts, or has sent a command.
        """
        self._store = store
        self.settings = settings
        self.lets = rights.lets
        senders = Senders(rights)
        self._clock = clock
        self._sessions = sessions
        self._changes = changes = Changes(turn, commits, store)
        self.telling = telling = Telling(publishing, senders)
        self.book = book = Book(changes, telling, clock, settings)
        self.elsewhere = elsewhere = Elsewhere(store, changes, book, sessions, commits, publishing.routes, clock)
        self._accepting = accepting = Accepting(book, telling, elsewhere, publishing, sessions, senders, clock)
        self._looking = Looking(store, accepting, elsewhere, turn, clock)
        #: What the API asks and says of commands, and what links to gateways do.
        self.commands = Commands(
            book,
            accepting,
            elsewhere,
            store,
            changes,
            budget,
            lets=rights.lets,
            enabled=settings.commands,
            max_levels=max_levels,
        )
        self.states = States(book, changes, publishing, senders, clock)
        self._departures = Departures(
            book, senders, Fetching(store, elsewhere, outflow, changes, clock), changes, clock
        )
        self.devices = Devices(store, changes, sessions, clock, settings)
        self.shadows = Shadows(store, changes, publishing, sessions, clock, settings)
        self.devices.on_values = self.shadows.report
        self._next_look = 0.0
        #: What takes commands from Kafka, if something does.
        self.letters: Letters | None = None

    def join(self, asking: Others) -> None:
        """There are other nodes; before anything is loaded."""
        self.elsewhere.join(asking)
        self.devices.join(asking)

    async def load(self, accompany: Callable[[Accompanying], None]) -> None:
        """Before a listener opens, and when the sessions are loaded: what is at home here. ``accompany`` has the broker
        ask here from then on.
        """
        sessions, clustered = self._sessions, self.elsewhere.clustered
        self._changes.begin()
        records: list[tuple[StoredCommand, Session | None]] = []
        if self.settings.commands:
            async for record in self._store.commands():
                if self.elsewhere.is_home(record.owner):
                    records.append((record, sessions.get(record.owner)))
        is_ours = self.elsewhere.is_home
        devices = [one async for one in self._store.devices() if not clustered or (one.online and is_ours(one.gateway))]

        # From here on nothing is waited for. Sessions that have left meanwhile left nobody a word, for ``accompanying``
        # was not set: what was read of their commands is old, and another node decides about these.
        fresh = [record for record, home in records if not clustered or sessions.get(record.owner) is home]
        for record in self.book.restore(fresh):
            self.book.tell(record)
        if self.settings.commands and not clustered:
            self._without_session()
        self.devices.restore([one for one in devices if is_ours(one.gateway)])
        accompany(self)

    def _without_session(self) -> None:
        """What a session was to bring that ended just when the node did."""
        owners = {tracked.record.owner for tracked in self.book if not tracked.record.state.final}
        for owner in owners:
            if self._sessions.get(owner) is None:
                self.book.end_session(owner)

    def sweep(self) -> None:
        """Everything that time does."""
        self.book.sweep()
        self.devices.sweep()
        self.shadows.sweep()
        now = self._clock.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self.elsewhere.look()

    def figures(self) -> DeviceFigures:
        """For the metrics."""
        return DeviceFigures(
            states={str(state): count for state, count in self.book.counts.items()},
            waiting=self.book.shares.waiting,
            devices=len(self.devices),
            gateways=self.devices.connected,
            duplicates=self.devices.duplicates,
            forgotten=self.devices.forgotten,
            bad_replies=self.states.bad_replies,
            shadows=self.shadows.count.total(Half.REPORTED),
            shadows_refused=self.shadows.refused,
            unreadable=self._store.unreadable,
        )

    def stopping(self) -> None:
        """Write what was put off; before the store is settled for the last time."""
        self.devices.write_all()

    # ``publishing.accompanying.Accompanying``.

    def looks(self, topic: bytes, properties: Properties, then: Callable[[], None]) -> bool:
        return self.settings.commands and self._looking.looks(topic, properties, then)

    def published(self, publication: Publication, connection: Sender | None) -> Outcome | None:
        topic = publication.topic
        outcome: Outcome | None = None
        if not topic.startswith((DOWN, REPLY)):
            self.shadows.published(publication, connection)
        elif not self.settings.commands:
            return None
        elif topic.startswith(DOWN):
            outcome = self._accepting.published(publication, connection)
        elif connection is not None and connection.session is not None:
            # Only the client that was sent a command can say what became of it.
            outcome = self.states.replied(publication)
        if outcome is not None:
            outcome.ticket = self._changes.latest
        return outcome

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        return self._departures.leaving(session, item)

    def confirmed(self, session: Session, command: str) -> None:
        self.states.confirmed(session, command)

    def refused(self, session: Session, command: str) -> None:
        self.states.refused(session, command)

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        self.states.dropped(session, command, reason)

    def client_came(self, connection: Sender) -> None:
        """What has a session, and wants its own commands, is an MQTT device."""
        session = connection.session
        if session is None or connection.patient or not session.expiry_interval or not session.subscriptions:
            return
        own = f"down/{session.client_id}"
        if not session.subscriptions.keys().isdisjoint((own, f"{own}/#", f"{own}/+")) and is_name(session.client_id):
            self.devices.client_came(session.client_id, _VERSIONS[session.version], connection.peer)

    def client_left(self, connection: Sender) -> None:
        if connection.session is not None and not connection.patient:
            self.devices.client_left(connection.session.client_id, connection.peer)

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        self.devices.came(client_id)
        self.elsewhere.session_came(client_id, inherited=inherited)

    def session_left(self, client_id: str) -> None:
        self.book.leave(client_id)
        self.devices.moved(client_id)
        self.shadows.forget(client_id)

    def session_ended(self, client_id: str) -> None:
        self.book.end_session(client_id)
