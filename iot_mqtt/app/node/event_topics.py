"""This node's events as MQTT messages: ``client.connected`` is published to ``$events/client/connected``, as JSON.

Only the broker publishes there (``topics.reserved``), and it does so at the end of the turn: whoever tells of an event
is in the middle of something. What is gathered for that is what happened in one turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.publishing.path import Publishing
from iot_mqtt.ports.events import Event, Events
from iot_mqtt.values import Message

ROOT: Final = "$events/"


class EventTopics:
    """Of one life of a node."""

    def __init__(self, node: str, publishing: Publishing, call_soon: Callable[[Callable[[], None]], None]) -> None:
        self._node = node
        self._publishing = publishing
        self._call_soon = call_soon
        self._gathered: list[Event] = []

    def begin(self, events: Events) -> None:
        """What happens from now on is published."""
        events.watchers = (*events.watchers, self._happened)

    def _happened(self, event: Event) -> None:
        if not self._gathered:
            self._call_soon(self._publish)
        self._gathered.append(event)

    def _publish(self) -> None:
        gathered, self._gathered = self._gathered, []
        publishing = self._publishing
        wanted = {kind: self._is_wanted(kind) for kind in {event.kind for event in gathered}}
        for event in gathered:
            if wanted[event.kind]:
                topic = topic_of(event.kind)
                told = {"node": self._node, "at": event.at, "kind": event.kind, **event.fields}
                payload = json.dumps(told, separators=(",", ":")).encode()
                # Subscribers have it at QoS 0 or 1, as they asked for.
                publishing.quietly(Message(topic, payload, 1))

    def _is_wanted(self, kind: str) -> bool:
        match = self._publishing.routes.match(topic_of(kind))
        return bool(match.plain or match.shared)


def topic_of(kind: str) -> bytes:
    """Where events of a kind are published."""
    return f"{ROOT}{kind.replace('.', '/')}".encode()
