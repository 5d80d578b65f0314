"""One file per packet; ``table`` says which value is served by which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.filter_turns import FilterTurns
from iot_mqtt.broker.connections.handlers.acks import AcksHandler
from iot_mqtt.broker.connections.handlers.auth import AuthHandler
from iot_mqtt.broker.connections.handlers.connect import ConnectHandler
from iot_mqtt.broker.connections.handlers.disconnect import DisconnectHandler
from iot_mqtt.broker.connections.handlers.pingreq import PingreqHandler
from iot_mqtt.broker.connections.handlers.publish import PublishHandler
from iot_mqtt.broker.connections.handlers.publish_answers import PublishAnswers
from iot_mqtt.broker.connections.handlers.publish_gate import PublishGate
from iot_mqtt.broker.connections.handlers.publish_whole import WholeHandler
from iot_mqtt.broker.connections.handlers.subscribe import Requests, Subacks, SubscribeHandler, Subscribing
from iot_mqtt.broker.connections.handlers.unsubscribe import UnsubscribeHandler, Unsubscribing
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.codec import (
    AckRun,
    Auth,
    Connect,
    Disconnect,
    Pingreq,
    PublishBatch,
    PublishRun,
    Subscribe,
    Undecoded,
    Unsubscribe,
)
from iot_mqtt.errors import Malformed, MqttError, ProtocolViolation, Refused, Unavailable


def on_error(_connection: Connection, error: MqttError) -> None:
    """The codec found something wrong behind the packets before it."""
    raise error


def table(
    connect: ConnectHandler,
    auth: AuthHandler,
    publish: PublishHandler,
    acks: AcksHandler,
    subscribe: SubscribeHandler,
    unsubscribe: UnsubscribeHandler,
    pingreq: PingreqHandler,
    disconnect: DisconnectHandler,
    filters: FilterTurns,
    shares: TurnShares,
) -> dict[type, Callable[[Connection, Any], None]]:
    """Value type → handler. The decoder lets nothing else through."""
    return {
        PublishRun: publish.serve,
        PublishBatch: publish.serve_batch,
        AckRun: acks.serve,
        Connect: connect.serve,
        Subscribe: subscribe.serve,
        Unsubscribe: unsubscribe.serve,
        # Those that a turn had no room for, or not for all of it.
        Subscribing: filters.serve,
        Unsubscribing: filters.serve,
        Pingreq: pingreq.serve,
        Disconnect: disconnect.serve,
        Auth: auth.serve,
        Undecoded: shares.undecoded,
        MqttError: on_error,
        Malformed: on_error,
        ProtocolViolation: on_error,
        Refused: on_error,
        Unavailable: on_error,
    }


__all__ = [
    "AcksHandler",
    "AuthHandler",
    "ConnectHandler",
    "DisconnectHandler",
    "PingreqHandler",
    "PublishAnswers",
    "PublishGate",
    "PublishHandler",
    "Requests",
    "Subacks",
    "SubscribeHandler",
    "UnsubscribeHandler",
    "WholeHandler",
    "table",
]
