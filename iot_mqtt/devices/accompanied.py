"""Commands, devices and shadows of one node, put together; and the one sweep that time comes by.

``broker.accompaniment`` has one of these: what is asked there is passed on to the part that knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iot_mqtt.broker.sending.commands import DOWN, Leave
from iot_mqtt.codec import Properties
from iot_mqtt.devices.accepting import Accepting
from iot_mqtt.devices.book import Book
from iot_mqtt.devices.changes import Changes
from iot_mqtt.devices.commands import REPLY, Commands
from iot_mqtt.devices.elsewhere import LOOK_SECONDS, Asking, Elsewhere
from iot_mqtt.devices.letters import Letters
from iot_mqtt.devices.link.messages import is_name
from iot_mqtt.devices.looking import Looking
from iot_mqtt.devices.registry import Devices
from iot_mqtt.devices.settings import DevicesSettings
from iot_mqtt.devices.shadows import Shadows
from iot_mqtt.devices.telling import Telling
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import DeviceFigures, DeviceStore, StoredCommand
from iot_mqtt.session import Delivery, Piece

if TYPE_CHECKING:
    from iot_mqtt.broker.broker import Broker
    from iot_mqtt.broker.connections.connection import Connection
    from iot_mqtt.broker.publication import Publication
    from iot_mqtt.broker.publishing.outcome import Outcome
    from iot_mqtt.broker.session import Session

#: Deadlines are kept to this.
SWEEP_SECONDS = 0.25
_VERSIONS = {3: "3.1", 4: "3.1.1", 5: "5.0"}


class Accompanied:
    """``load`` it when the broker is loaded, and ``sweep`` it every ``SWEEP_SECONDS``."""

    def __init__(self, broker: Broker, store: DeviceStore, settings: DevicesSettings) -> None:
        self._broker = broker
        self._store = store
        self.settings = settings
        changes = Changes(broker, store)
        telling = Telling(broker)
        self.book = Book(broker, changes, telling, settings)
        self.elsewhere = Elsewhere(broker, store, changes, self.book, telling, settings)
        accepting = Accepting(broker, self.book, telling, self.elsewhere)
        self.commands = Commands(broker, store, changes, self.book, accepting, self.elsewhere, telling)
        self._looking = Looking(broker, store, accepting, self.elsewhere)
        self.devices = Devices(broker, store, changes, settings)
        self.shadows = Shadows(broker, store, changes, settings)
        self.commands.enabled = settings.commands
        self.elsewhere.found = self.commands.found
        self.elsewhere.cancel_here = self.commands.cancel_here
        self.devices.on_values = self.shadows.report
        self._changes = changes
        self._telling = telling
        self._next_look = 0.0
        #: What takes commands from Kafka, if something does.
        self.letters: Letters | None = None

    def join(self, asking: Asking) -> None:
        """There are other nodes; before anything is loaded."""
        self.elsewhere.join(asking)

    async def load(self) -> None:
        """Before a listener opens, and behind ``broker.loading.load``: what is at home here."""
        broker, clustered = self._broker, self.elsewhere.clustered
        self._changes.begin()
        records: list[tuple[StoredCommand, Session | None]] = []
        if self.settings.commands:
            async for record in self._store.commands():
                if self.elsewhere.is_home(record.owner):
                    records.append((record, broker.sessions.get(record.owner)))
        is_ours = self.elsewhere.is_home
        devices = [one async for one in self._store.devices() if not clustered or (one.online and is_ours(one.gateway))]

        # From here on nothing is waited for. Sessions that have left meanwhile left nobody a word, for ``accompanying``
        # was not set: what was read of their commands is old, and another node decides about these.
        fresh = [record for record, home in records if not clustered or broker.sessions.get(record.owner) is home]
        for record in self.book.restore(fresh):
            self._telling.tell(record)
        if self.settings.commands and not clustered:
            self._without_session()
        self.devices.restore([one for one in devices if is_ours(one.gateway)])
        broker.accompany(self)
        broker.turn.plan()

    def _without_session(self) -> None:
        """What a session was to bring that ended just when the node did."""
        owners = {tracked.record.owner for tracked in self.book if not tracked.record.state.final}
        for owner in owners:
            if self._broker.sessions.get(owner) is None:
                self.book.end_session(owner)

    def sweep(self) -> None:
        """Everything that time does."""
        self.book.sweep()
        self.devices.sweep()
        self.shadows.sweep()
        now = self._broker.clock.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self.elsewhere.look()

    def figures(self) -> DeviceFigures:
        """For the metrics."""
        return DeviceFigures(
            states={str(state): count for state, count in self.book.counts.items()},
            waiting=self.book.waiting,
            devices=len(self.devices),
            gateways=self.devices.connected,
            duplicates=self.devices.duplicates,
            forgotten=self.devices.forgotten,
            bad_replies=self.commands.bad_replies,
            shadows_refused=self.shadows.refused,
            unreadable=self._store.unreadable,
        )

    def stopping(self) -> None:
        """Write what was put off; before the store is settled for the last time."""
        self.devices.write_all()

    # ``publishing.accompanying.Accompanying``.

    def looks(self, topic: bytes, properties: Properties, then: Callable[[], None]) -> bool:
        return self.settings.commands and self._looking.looks(topic, properties, then)

    def published(self, publication: Publication, connection: Connection | None) -> Outcome | None:
        topic = publication.topic
        if topic.startswith((DOWN, REPLY)):
            return self.commands.published(publication, connection) if self.settings.commands else None
        self.shadows.published(publication, connection)
        return None

    def leaving(self, session: Session, item: Delivery | Piece) -> Leave:
        return self.commands.leaving(session, item)

    def confirmed(self, session: Session, command: str) -> None:
        self.commands.confirmed(session, command)

    def refused(self, session: Session, command: str) -> None:
        self.commands.refused(session, command)

    def dropped(self, session: Session, command: str, reason: Drop) -> None:
        self.commands.dropped(session, command, reason)

    def client_came(self, connection: Connection) -> None:
        """What has a session, and wants its own commands, is an MQTT device."""
        session = connection.session
        if session is None or connection.patient or not session.expiry_interval or not session.subscriptions:
            return
        own = f"down/{session.client_id}"
        if not session.subscriptions.keys().isdisjoint((own, f"{own}/#", f"{own}/+")) and is_name(session.client_id):
            self.devices.client_came(session.client_id, _VERSIONS[session.version], _peer(connection))

    def client_left(self, connection: Connection) -> None:
        if connection.session is not None and not connection.patient:
            self.devices.client_left(connection.session.client_id, _peer(connection))

    def session_came(self, client_id: str, *, inherited: bool) -> None:
        self.devices.came(client_id)
        self.commands.session_came(client_id, inherited=inherited)

    def session_left(self, client_id: str) -> None:
        self.commands.session_left(client_id)
        self.devices.moved(client_id)
        self.shadows.forget(client_id)

    def session_ended(self, client_id: str) -> None:
        self.commands.session_ended(client_id)


def _peer(connection: Connection) -> str:
    return "" if connection.ctx is None else connection.ctx.channel.peer
