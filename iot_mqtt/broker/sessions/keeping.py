"""Sessions become durable, are left behind, and are durable no more."""

from __future__ import annotations

from dataclasses import dataclass

from iot_mqtt.broker.kept_session import KeptSession, is_durable
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.records import SessionRecords
from iot_mqtt.broker.sessions.session_readers import SessionReaders
from iot_mqtt.broker.shared_groups import SharedGroups
from iot_mqtt.topics import parse_shared


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """What is done so that a session outlives its connection, and the node."""

    records: SessionRecords
    readers: SessionReaders
    groups: SharedGroups

    def attached(self, session: KeptSession, *, durable: bool) -> None:
        """A connection has it; ``durable``: it is to be kept from now on, whatever it was."""
        was_durable, session.durable = session.durable, durable
        if durable:
            self.records.save(session)
            if was_durable:
                # With what is written anyway, or it would take a second commit before anything is sent.
                self.records.begin(session)
            else:
                self._keep(session)
        elif was_durable:
            # It was kept and is now to end with this connection; a crash must not bring it back.
            self.records.forget(session)

    def _keep(self, session: KeptSession) -> None:
        """From now on it reads the log, and what it has is stored."""
        self.readers.begin(session)
        for subscription in session.subscriptions.values():
            if parse_shared(subscription.filter) is not None:
                self.groups.joined(session, subscription.filter)
            self.records.subscribed(session, subscription)
        self.records.save_deliveries(session)
        self.records.moved(session)

    def left(self, session: KeptSession) -> None:
        """Its connection is gone, and its client may be back."""
        self.readers.fall_behind(session)
        self.groups.member_gone(session, ended=False)
        if session.durable:
            self.records.save(session)
            self.records.moved(session)

    def ended(self, session: Session) -> None:
        """It is no more."""
        if is_durable(session):
            self.records.forget(session)
