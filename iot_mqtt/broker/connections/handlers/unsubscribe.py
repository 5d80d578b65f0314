"""UNSUBSCRIBE: whole filters only; what is under way is still completed [MQTT-3.10.4-3]."""

from __future__ import annotations

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.filter_turns import FilterTurns
from iot_mqtt.broker.readers.replay import twin
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Unsuback, Unsubscribe
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import validate_filter


class Unsubscribing:
    """UNSUBSCRIBE, as far as it is served: a ``FilterPacket``."""

    __slots__ = ("count", "_connection", "_handler", "_packet", "_reasons", "_session")

    def __init__(
        self, handler: UnsubscribeHandler, connection: Connection, session: Session, packet: Unsubscribe
    ) -> None:
        self.count = len(packet.filters)
        self._handler = handler
        self._connection = connection
        self._session = session
        self._packet = packet
        self._reasons: list[int] = []

    @property
    def place(self) -> int:
        return len(self._reasons)

    def serve(self, until: int) -> None:
        for filter in self._packet.filters[self.place : until]:
            self._reasons.append(self._handler.removed(self._session, filter))

    def answer(self) -> None:
        unsuback = Unsuback(packet_id=self._packet.packet_id, reasons=tuple(self._reasons))
        self._connection.reply(unsuback, once_committed=self._session.durable)


class UnsubscribeHandler:
    """Removes every filter that is there and answers, whether it was or not [MQTT-3.10.4-5]."""

    __slots__ = ("_settings", "_subscriptions", "_turns", "_counters")

    def __init__(
        self, settings: MqttSettings, subscriptions: Subscriptions, turns: FilterTurns, counters: Counters
    ) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._turns = turns
        self._counters = counters

    def serve(self, connection: Connection, packet: Unsubscribe) -> None:
        """UNSUBSCRIBE came."""
        session = connection.session
        assert session is not None
        self._counters.packets_received["UNSUBSCRIBE"] += 1
        if connection.max_packet_size:
            # Before anything is done that could not be answered.
            connection.written_to_fit(Unsuback(packet_id=packet.packet_id, reasons=(0,) * len(packet.filters)))
        self._turns.serve(connection, Unsubscribing(self, connection, session, packet))

    def removed(self, session: Session, filter: str) -> ReasonCode:
        """Remove one filter; what is answered to it."""
        try:
            validate_filter(filter, max_levels=self._settings.max_topic_levels)
        except MqttError as error:
            raise error.naming("filter", filter) from None
        remove = self._subscriptions.remove
        # One that the user property made a replay has the name that the client gave it.
        there = remove(session, filter) or remove(session, twin(filter))
        return ReasonCode.SUCCESS if there else ReasonCode.NO_SUBSCRIPTION_EXISTED
