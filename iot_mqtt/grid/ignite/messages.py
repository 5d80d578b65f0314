"""Messages between nodes by way of a gateway: who listens to what, over whichever connection there is.

::

    begin(connection) ─▶ each topic is listened to (again) ─▶ all confirmed: on_flow(True)
    end()             ─▶ on_flow(False); what was sent meanwhile is lost, and senders are told so
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from iot_mqtt.errors import Unavailable
from iot_mqtt.grid.ignite.connection import Answered, Connection, Encode
from iot_mqtt.grid.ignite.frames import Done, Status, encode_listen, encode_send
from iot_mqtt.ports.messaging import Receive

log = logging.getLogger(__name__)

#: Bytes of a SEND besides topic and payload.
SEND_FRAME: Final = 11


class Way(Protocol):
    """What leads to a gateway."""

    @property
    def connected(self) -> bool: ...

    @property
    def frame_limit(self) -> int: ...

    def request(self, encode: Encode, answered: Answered) -> None: ...


class GatewayMessages:
    """``ports.messaging.Messaging``."""

    def __init__(self, way: Way, waiting_limit: int) -> None:
        self._way = way
        self._waiting_limit = waiting_limit
        self._connection: Connection | None = None
        self._listeners: dict[str, Receive] = {}
        self._asked: dict[str, list[Deferred[None]]] = {}
        self._unanswered: set[str] = set()
        self.flowing = False
        #: Whether there is, or is going to be, a connection.
        self.open = False
        self.on_flow: Callable[[bool], None] = _ignore

    @property
    def waiting(self) -> int:
        return self._connection.waiting if self._connection is not None else 0

    async def listen(self, topic: str, receive: Receive) -> None:
        if not self.open:
            raise Unavailable("the grid is not open")
        self._listeners[topic] = receive
        asked: Deferred[None] = Deferred()
        self._asked.setdefault(topic, []).append(asked)
        if self._way.connected:
            self._listen(topic)
        await asked

    def send(self, topic: str, payload: bytes) -> bool:
        connection = self._connection
        size = SEND_FRAME + len(topic) + len(payload)
        if connection is None or not self.flowing:
            return False
        if connection.waiting + size > self._waiting_limit or size > self._way.frame_limit:
            return False
        connection.send(encode_send(topic, payload))
        return True

    # Told by the gateway.

    def begin(self, connection: Connection) -> None:
        """It was welcomed: listen by it to all that was listened to."""
        self._connection = connection
        self._unanswered = set(self._listeners)
        for topic in self._listeners:
            self._listen(topic)

    def end(self) -> None:
        """The connection is gone."""
        self._connection = None
        if self.flowing:
            self.flowing = False
            self.on_flow(False)  # noqa: FBT003 - the port's signature

    def close(self) -> None:
        """There will be no connection any more: whoever waits to hear is told."""
        self.open = False
        asked, self._asked = self._asked, {}
        for waiting in [one for several in asked.values() for one in several]:
            waiting.errback(Unavailable("the grid was closed"))

    def delivered(self, topic: str, payload: bytes) -> None:
        receive = self._listeners.get(topic)
        if receive is None:
            return
        try:
            receive(payload)
        except Exception:
            log.exception("a message could not be taken")

    def flow_if_listening(self) -> None:
        """Say that messages flow, once each topic is confirmed."""
        if not self._unanswered and not self.flowing and self._way.connected:
            self.flowing = True
            self.on_flow(True)  # noqa: FBT003 - the port's signature

    def _listen(self, topic: str) -> None:
        self._way.request(partial(encode_listen, topic=topic), partial(self._listened, topic))

    def _listened(self, topic: str, done: Done | None) -> None:
        if done is None:
            return
        if done.status != Status.DONE:
            assert self._connection is not None
            self._connection.abort(f"the gateway does not listen: {done.detail}")
            return
        for asked in self._asked.pop(topic, ()):
            asked.callback(None)
        if topic in self._unanswered:
            self._unanswered.discard(topic)
            self.flow_if_listening()


def _ignore(_: object) -> None:
    """Nobody listens."""
