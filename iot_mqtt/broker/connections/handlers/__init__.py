"""One file per packet; ``table`` says which value is served by which."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iot_mqtt.broker.connections.handlers.acks import on_acks
from iot_mqtt.broker.connections.handlers.auth import on_auth
from iot_mqtt.broker.connections.handlers.connect import on_connect
from iot_mqtt.broker.connections.handlers.disconnect import on_disconnect
from iot_mqtt.broker.connections.handlers.pingreq import on_pingreq
from iot_mqtt.broker.connections.handlers.publish import on_batch, on_publish
from iot_mqtt.broker.connections.handlers.subscribe import on_subscribe
from iot_mqtt.broker.connections.handlers.unsubscribe import on_unsubscribe
from iot_mqtt.codec import (
    AckRun,
    Auth,
    Connect,
    Disconnect,
    Pingreq,
    PublishBatch,
    PublishRun,
    RunBatch,
    Subscribe,
    Unsubscribe,
)
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation, Refused, Unavailable

if TYPE_CHECKING:
    from iot_mqtt.broker.connections.connection import Connection


def on_error(_connection: Connection, error: MqttError) -> None:
    """The codec found something wrong behind the packets before it."""
    raise error


def table() -> dict[type, Callable[[Connection, Any], None]]:
    """Value type → handler. The decoder lets nothing else through."""
    return {
        PublishRun: on_publish,
        PublishBatch: on_batch,
        RunBatch: on_batch,
        AckRun: on_acks,
        Connect: on_connect,
        Subscribe: on_subscribe,
        Unsubscribe: on_unsubscribe,
        Pingreq: on_pingreq,
        Disconnect: on_disconnect,
        Auth: on_auth,
        MqttError: on_error,
        Malformed: on_error,
        ProtocolViolation: on_error,
        Refused: on_error,
        Unavailable: on_error,
    }


def early_table() -> dict[type, Callable[[Connection, Any], None]]:
    """The same before a session is open: CONNECT, AUTH, and nothing else."""
    early = dict.fromkeys(table(), too_early)
    return early | {
        kind: handler for kind, handler in table().items() if kind in (Connect, Auth) or handler is on_error
    }


def too_early(connection: Connection, packet: object) -> None:
    """[MQTT-4.12.0-2] [MQTT-3.1.2-30] a client that authenticates sends nothing but AUTH and DISCONNECT."""
    if isinstance(packet, Disconnect):
        connection.broker.client_left(connection, packet.reason)
        return
    raise ProtocolViolation("not before the session is open")


__all__ = ["early_table", "table"]
