"""What the store has of sessions, written as they change; removed record by record, for it keeps no index of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.broker.session import Session
from iot_mqtt.ports.store import Store
from iot_mqtt.session import Delivery, Flight
from iot_mqtt.values import Subscription


class Progress(Protocol):
    """What is kept of a session's way through the log."""

    def moved(self, session: KeptSession) -> None: ...

    def begin(self, session: KeptSession) -> None: ...

    def forget(self, session: KeptSession) -> None: ...


class Outflow(Protocol):
    """What sessions have under way."""

    def store(self, session: KeptSession, delivery: Delivery) -> None: ...

    def forget(self, session: Session, entry: Delivery) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class SessionRecords:
    """Those of durable sessions."""

    store: Store
    logs: Logs
    progress: Progress
    outflow: Outflow

    def save(self, session: KeptSession) -> None:
        """What is to be kept of the session itself has changed."""
        self.store.save_session(session.stored())

    def moved(self, session: KeptSession) -> None:
        """What is to be kept of its cursors has changed."""
        self.progress.moved(session)

    def begin(self, session: KeptSession) -> None:
        """Its client is back, and will get what waits for it."""
        self.progress.begin(session)

    def subscribed(self, session: KeptSession, subscription: Subscription) -> None:
        """A subscription is there, or another than before, with its claims on the logs."""
        own = self.logs.own
        since = session.since(subscription.filter) or {own.writer: own.end}
        self.store.save_subscription(session.client_id, subscription, since)
        self.progress.moved(session)

    def unsubscribed(self, session: KeptSession, filter: str) -> None:
        """A subscription is gone."""
        self.store.remove_subscription(session.client_id, filter)
        self.progress.moved(session)

    def save_deliveries(self, session: KeptSession) -> None:
        """Keep the messages that it has by value, and that are not kept yet."""
        for entry in (*session.outbound.entries.values(), *session.queue):
            if isinstance(entry, Delivery) and not entry.sequence:
                self.outflow.store(session, entry)

    def forget(self, session: KeptSession) -> None:
        """Remove every record."""
        store, client_id = self.store, session.client_id
        store.remove_session(client_id)
        for filter in session.subscriptions:
            store.remove_subscription(client_id, filter)
        self.progress.forget(session)
        session.unfollowed = None
        for packet_id, entry in session.outbound.entries.items():
            if isinstance(entry, Delivery):
                self.outflow.forget(session, entry)
                entry.sequence = 0
            elif not isinstance(entry, Flight):
                store.remove_pubrel(client_id, packet_id)
        for delivery in session.queue:
            self.outflow.forget(session, delivery)
            delivery.sequence = 0
        for packet_id in session.inbound.received or ():
            store.remove_received(client_id, packet_id)
