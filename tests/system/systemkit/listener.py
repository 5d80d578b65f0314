"""A subscriber that keeps all it gets, on a thread of its own (paho)."""

from __future__ import annotations

import json
import threading
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from systemkit.process import BrokerProcess


class Listener:
    """What comes is in ``messages``, as topic and JSON."""

    def __init__(self, broker: BrokerProcess, *filters: str) -> None:
        self.messages: list[tuple[str, Any]] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_message = lambda _client, _data, message: self.messages.append(
            (message.topic, json.loads(message.payload))
        )
        ready = threading.Event()
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", broker.ports["mqtt"])
        self._client.subscribe([(filter, 1) for filter in filters])
        self._client.loop_start()
        assert ready.wait(10)

    def publish(self, topic: str, body: object, **properties: Any) -> None:
        """At QoS 1, until it is acknowledged."""
        told = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        for name, value in properties.items():
            setattr(told, name, value)
        self._client.publish(topic, json.dumps(body), qos=1, properties=told).wait_for_publish(10)

    def of(self, start: str) -> list[Any]:
        """What came on topics that begin so."""
        return [payload for topic, payload in list(self.messages) if topic.startswith(start)]

    def has(self, count: int) -> bool:
        """So many messages came, neither fewer nor more."""
        return len(self.messages) == count

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
