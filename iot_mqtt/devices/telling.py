"""Telling what has become of a command: on ``status/<target>/<command id>``, and to whoever sent it.

Every state is told after its commit, so a restart between the two can make one be told twice, and none be missed:
what changed last before a stop is told again at the start. Nothing is retained; a state can be asked for any time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iot_mqtt.broker.publishing.accompanying import SPECIAL
from iot_mqtt.codec import Properties
from iot_mqtt.codec.properties import passed_on
from iot_mqtt.ports.devices import StoredCommand
from iot_mqtt.ports.events import COMMAND_CHANGED, Events
from iot_mqtt.topics import is_reserved
from iot_mqtt.values import Message

if TYPE_CHECKING:
    from iot_mqtt.broker.publishing.path import Publishing
    from iot_mqtt.devices.senders import Senders

STATUS = "status/"


def status_payload(command: StoredCommand) -> bytes:
    """What is published, as JSON."""
    status: dict[str, object] = {
        "id": command.id,
        "target": command.target,
        "state": command.state.value,
        "detail": command.detail,
        "values": None if command.values is None else dict(command.values),
        "at": round(command.changed_at * 1000),
    }
    return json.dumps(status, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def may_answer_to(topic: str) -> bool:
    """Whether the node publishes to a response topic: never what would be an order again, or what it
    says itself.
    """
    if not topic or topic.startswith("$"):
        return False
    name = topic.encode("utf-8", "replace")
    return not name.startswith(SPECIAL) and not is_reserved(name)


class Telling:
    """Publishes states as the node."""

    __slots__ = ("events", "_publishing", "_senders")

    def __init__(self, publishing: Publishing, senders: Senders) -> None:
        self._publishing = publishing
        self._senders = senders
        #: Who is told of events of the node; None: nobody.
        self.events: Events | None = None

    def tell(self, command: StoredCommand) -> None:
        """Everybody who wants to know, and the sender where he may publish himself now."""
        if self.events is not None:
            self.events.publish(
                COMMAND_CHANGED, {"id": command.id, "target": command.target, "state": command.state.value}
            )
        payload = status_payload(command)
        topic = f"{STATUS}{command.target}/{command.id}"
        self._publish(topic, payload, command.correlation)
        answered = command.response_topic
        if answered and answered != topic and self._senders.may_answer(command):
            self._publish(answered, payload, command.correlation)

    def answer(self, command: StoredCommand, response_topic: str, correlation: bytes) -> None:
        """Only who asks again for something that was accepted before, or that cannot be."""
        if response_topic:
            self._publish(response_topic, status_payload(command), correlation)

    def _publish(self, topic: str, payload: bytes, correlation: bytes) -> None:
        properties = passed_on(Properties(content_type="application/json", correlation_data=correlation or None))
        self._publishing.send(Message(topic.encode("utf-8", "replace"), payload, 1, properties=properties))
