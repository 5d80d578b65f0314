"""UNSUBSCRIBE: whole filters only; what is under way is still completed [MQTT-3.10.4-3]."""

from __future__ import annotations

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.readers.replay import twin
from iot_mqtt.broker.sessions.subscriptions import Subscriptions
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.codec import Unsuback, Unsubscribe
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.counters import Counters
from iot_mqtt.topics import validate_filter


class UnsubscribeHandler:
    """Removes every filter that is there and answers, whether it was or not [MQTT-3.10.4-5]."""

    __slots__ = ("_settings", "_subscriptions", "_counters")

    def __init__(self, settings: MqttSettings, subscriptions: Subscriptions, counters: Counters) -> None:
        self._settings = settings
        self._subscriptions = subscriptions
        self._counters = counters

    def serve(self, connection: Connection, packet: Unsubscribe) -> None:
        """UNSUBSCRIBE came."""
        session = connection.session
        assert session is not None
        self._counters.packets_received["UNSUBSCRIBE"] += 1
        if connection.max_packet_size:
            # Before anything is done that could not be answered.
            connection.written_to_fit(Unsuback(packet_id=packet.packet_id, reasons=(0,) * len(packet.filters)))
        reasons, remove = [], self._subscriptions.remove
        for filter in packet.filters:
            validate_filter(filter, max_levels=self._settings.max_topic_levels)
            # One that the user property made a replay has the name that the client gave it.
            if remove(session, filter) or remove(session, twin(filter)):
                reasons.append(ReasonCode.SUCCESS)
            else:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
        connection.reply(Unsuback(packet_id=packet.packet_id, reasons=tuple(reasons)), once_committed=session.durable)
