"""gmqtt against a real broker, MQTT 3.1.1 and 5.0."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import gmqtt
import pytest
from gmqtt.mqtt.constants import MQTTv50, MQTTv311
from systemkit.process import BrokerProcess

VERSIONS = [pytest.param(MQTTv311, id="3.1.1"), pytest.param(MQTTv50, id="5.0")]
Talk = Callable[[], Coroutine[Any, Any, None]]


class Client:
    """A gmqtt client whose callbacks become queues."""

    def __init__(self, broker: BrokerProcess, version: int, name: str = "", *, clean: bool = True, **more: Any) -> None:
        if version == MQTTv50 and not clean:
            more["session_expiry_interval"] = 600
        self.gmqtt = gmqtt.Client(name or f"gmqtt-{uuid.uuid4().hex[:10]}", clean_session=clean, **more)
        self._port, self._version = broker.ports["mqtt"], version
        self.messages: asyncio.Queue[tuple[str, bytes, int, dict[str, Any]]] = asyncio.Queue()
        self.granted: asyncio.Queue[Any] = asyncio.Queue()
        self.gmqtt.on_message = self._on_message
        self.gmqtt.on_subscribe = lambda client, mid, qos, properties: self.granted.put_nowait(qos)
        self.gmqtt.set_config({"reconnect_retries": 0})

    def _on_message(self, client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        self.messages.put_nowait((topic, payload, qos, properties))
        return 0

    async def open(self) -> None:
        await asyncio.wait_for(self.gmqtt.connect("127.0.0.1", self._port, version=self._version), 10)

    async def subscribe(self, topic: str, qos: int) -> None:
        self.gmqtt.subscribe(gmqtt.Subscription(topic, qos=qos))
        assert max(await asyncio.wait_for(self.granted.get(), 10)) <= 2

    async def take(self, count: int) -> list[tuple[str, bytes, int, dict[str, Any]]]:
        async with asyncio.timeout(10):
            return [await self.messages.get() for _ in range(count)]

    async def close(self) -> None:
        await self.gmqtt.disconnect()


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_and_subscribe_at_each_qos(shared_broker: BrokerProcess, version: int) -> None:
    """Ten messages at each QoS, in order; a retained one meets a later subscription."""

    async def talk() -> None:
        topic = f"gmqtt/{uuid.uuid4().hex[:8]}"
        client = Client(shared_broker, version)
        await client.open()
        client.gmqtt.publish(f"{topic}/kept", "kept", qos=1, retain=True)
        await client.subscribe(f"{topic}/#", 2)
        ((_, payload, _, properties),) = await client.take(1)
        assert (payload, bool(properties["retain"])) == (b"kept", True)
        for qos in (0, 1, 2):
            for number in range(10):
                client.gmqtt.publish(f"{topic}/{qos}", str(number), qos=qos)
            messages = await client.take(10)
            assert [int(message[1]) for message in messages] == list(range(10))
            assert {message[2] for message in messages} == {qos}
        client.gmqtt.publish(f"{topic}/kept", "", qos=1, retain=True)
        await client.take(1)
        await client.close()

    asyncio.run(talk())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_gets_what_was_queued(shared_broker: BrokerProcess, version: int) -> None:
    """Reconnect with the session: everything that came meanwhile, in order."""

    async def talk() -> None:
        name = f"gmqtt-{uuid.uuid4().hex[:8]}"
        reader = Client(shared_broker, version, name, clean=False)
        await reader.open()
        await reader.subscribe(f"gmqtt/{name}", 1)
        await reader.close()
        writer = Client(shared_broker, version)
        await writer.open()
        await writer.subscribe(f"gmqtt/{name}", 1)
        for number in range(20):
            writer.gmqtt.publish(f"gmqtt/{name}", str(number), qos=1)
        await writer.take(20)
        reader = Client(shared_broker, version, name, clean=False)
        await reader.open()
        assert [int(message[1]) for message in await reader.take(20)] == list(range(20))
        await reader.close()
        await writer.close()

    asyncio.run(talk())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_is_published(shared_broker: BrokerProcess, version: int) -> None:
    """The connection breaks: the watcher hears of it."""

    async def talk() -> None:
        topic = f"gmqtt/{uuid.uuid4().hex[:8]}"
        watcher = Client(shared_broker, version)
        await watcher.open()
        await watcher.subscribe(topic, 1)
        mortal = Client(shared_broker, version, will_message=gmqtt.Message(topic, "gone", qos=1))
        await mortal.open()
        mortal.gmqtt._connection._transport.abort()
        ((_, payload, _, _),) = await watcher.take(1)
        assert payload == b"gone"
        await watcher.close()

    asyncio.run(talk())


def test_v5_properties_pass_through(shared_broker: BrokerProcess) -> None:
    """User properties, content type and correlation data arrive as they were sent."""

    async def talk() -> None:
        topic = f"gmqtt/{uuid.uuid4().hex[:8]}"
        client = Client(shared_broker, MQTTv50)
        await client.open()
        await client.subscribe(topic, 1)
        client.gmqtt.publish(
            topic, "x", qos=1, user_property=[("k", "1"), ("k", "2")], content_type="json", correlation_data=b"42"
        )
        ((_, _, _, properties),) = await client.take(1)
        assert properties["user_property"] == [("k", "1"), ("k", "2")]
        assert properties["content_type"] == ["json"]
        assert properties["correlation_data"] == [b"42"]
        await client.close()

    asyncio.run(talk())
