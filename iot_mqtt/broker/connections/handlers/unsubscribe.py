"""UNSUBSCRIBE: whole filters only; what is under way is still completed [MQTT-3.10.4-3]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.broker.readers.replay import twin
from iot_mqtt.codec import Unsuback, Unsubscribe
from iot_mqtt.errors import ReasonCode
from iot_mqtt.topics import validate_filter

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection


def on_unsubscribe(connection: Connection, packet: Unsubscribe) -> None:
    """Remove every filter that is there and answer, whether it was or not [MQTT-3.10.4-5]."""
    broker, session = connection.broker, connection.session
    assert session is not None
    broker.counters.packets_received["UNSUBSCRIBE"] += 1
    if connection.max_packet_size:
        # Before anything is done that could not be answered.
        connection.written_to_fit(Unsuback(packet_id=packet.packet_id, reasons=(0,) * len(packet.filters)))
    reasons = []
    for filter in packet.filters:
        validate_filter(filter, max_levels=broker.settings.max_topic_levels)
        # One that the user property made a replay has the name that the client gave it.
        if broker.subscriptions.remove(session, filter) or broker.subscriptions.remove(session, twin(filter)):
            reasons.append(ReasonCode.SUCCESS)
        else:
            reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
    answer = Unsuback(packet_id=packet.packet_id, reasons=tuple(reasons))
    connection.reply(answer, broker.store.latest if session.durable else 0)
