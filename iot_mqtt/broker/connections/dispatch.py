"""What the packets of a connection mean: each is served by its handler, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from iot_mqtt.broker.connections.connection import Connection, Inbound
from iot_mqtt.broker.connections.handlers.publish_gate import PublishGate
from iot_mqtt.broker.connections.turn_shares import TurnShares
from iot_mqtt.broker.publishing.batches import flattened
from iot_mqtt.broker.publishing.budget import Budget, Pause
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.codec import Auth, Connect, Disconnect, PublishBatch, Undecoded
from iot_mqtt.errors import MqttError, ProtocolViolation
from iot_mqtt.topics import Routes

Handler = Callable[[Connection, Any], None]
#: Packets, or runs of them, after which it is looked how long they took: every eighth.
LOOKS: Final = 7


class Dispatch(Inbound):
    """Packet type → handler, for all connections of a node.

    ``gate`` says whether a batch can be served at once; ``outflow`` sends a session's messages where there is room.
    """

    __slots__ = ("_budget", "_early", "_gate", "_handlers", "_outflow", "_routes", "_shares")

    def __init__(
        self,
        handlers: Mapping[type, Handler],
        routes: Routes[Session],
        budget: Budget,
        shares: TurnShares,
        gate: PublishGate,
        outflow: Outflow,
    ) -> None:
        self._handlers = handlers
        #: Before a session is open: CONNECT, AUTH, and nothing else.
        self._early = dict.fromkeys(handlers, too_early) | {
            kind: handler
            for kind, handler in handlers.items()
            if kind in (Connect, Auth, Undecoded) or issubclass(kind, MqttError)
        }
        self._routes = routes
        self._budget = budget
        self._shares = shares
        self._gate = gate
        self._outflow = outflow

    def pump(self, session: Session) -> None:
        self._outflow.pump(session)

    def read(self, connection: Connection, batch: list[object]) -> None:
        """Serve what came together; what has to wait is held by the connection."""
        version, shares, last = self._routes.version, self._shares, len(batch) - 1
        began = shares.monotonic() if last > LOOKS else 0.0
        try:
            for position, item in enumerate(batch):
                if connection.closed:
                    return
                if isinstance(item, PublishBatch) and not (
                    version == self._routes.version and self._gate.takes(connection, item)
                ):
                    self.read(connection, flattened(batch[position:]))
                    return
                handlers = self._early if connection.session is None else self._handlers
                handlers[type(item)](connection, item)
                if connection.answers is not None and self._budget.crowded and not connection.connecting:
                    self._budget.pause(connection, Pause.UNCOMMITTED, [])
                if connection.connecting or connection.stash is not None:
                    connection.hold(batch[position + 1 :])
                    return
                if position & LOOKS == LOOKS and position < last:
                    seconds = shares.monotonic() - began
                    if seconds > shares.share:
                        shares.put_off(connection, batch[position + 1 :], seconds)
                        break
            if connection.answers is not None:
                self._budget.weigh()
        except MqttError as error:
            connection.fail(error)


def too_early(connection: Connection, packet: object) -> None:
    """[MQTT-4.12.0-2] [MQTT-3.1.2-30] a client that authenticates sends nothing but AUTH and DISCONNECT."""
    if isinstance(packet, Disconnect):
        connection.leave_quietly(packet.reason)
        return
    raise ProtocolViolation("not before the session is open")
