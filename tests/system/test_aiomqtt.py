"""aiomqtt against a real broker, MQTT 3.1.1 and 5.0."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from systemkit.process import BrokerProcess

VERSIONS = [
    pytest.param(aiomqtt.ProtocolVersion.V311, id="3.1.1"),
    pytest.param(aiomqtt.ProtocolVersion.V5, id="5.0"),
]
pytestmark = pytest.mark.parametrize("version", VERSIONS)


def _client(broker: BrokerProcess, version: aiomqtt.ProtocolVersion, **options: Any) -> aiomqtt.Client:
    options.setdefault("identifier", f"aio-{uuid.uuid4().hex[:10]}")
    return aiomqtt.Client("127.0.0.1", broker.ports["mqtt"], protocol=version, timeout=50, **options)


def _durable(broker: BrokerProcess, version: aiomqtt.ProtocolVersion, name: str) -> aiomqtt.Client:
    if version is aiomqtt.ProtocolVersion.V5:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 600
        return _client(broker, version, identifier=name, clean_start=False, properties=properties)
    return _client(broker, version, identifier=name, clean_session=False)


async def _take(client: aiomqtt.Client, count: int) -> list[aiomqtt.Message]:
    messages: list[aiomqtt.Message] = []
    async with asyncio.timeout(10):
        async for message in client.messages:
            messages.append(message)
            if len(messages) == count:
                break
    return messages


def test_publish_and_subscribe_at_each_qos(shared_broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    """Ten messages at each QoS, in order; a retained one meets a later subscription."""

    async def talk() -> None:
        topic = f"aio/{uuid.uuid4().hex[:8]}"
        async with _client(shared_broker, version) as client:
            await client.publish(f"{topic}/kept", b"kept", qos=1, retain=True)
            await client.subscribe(f"{topic}/#", qos=2)
            (kept,) = await _take(client, 1)
            assert (kept.payload, kept.retain) == (b"kept", True)
            for qos in (0, 1, 2):
                for number in range(10):
                    await client.publish(f"{topic}/{qos}", str(number), qos=qos)
                messages = await _take(client, 10)
                assert [int(bytes(m.payload)) for m in messages] == list(range(10))
                assert {m.qos for m in messages} == {qos}
            await client.publish(f"{topic}/kept", b"", qos=1, retain=True)

    asyncio.run(talk())


def test_a_session_gets_what_was_queued(shared_broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    """Reconnect with the session: everything that came meanwhile, in order."""

    async def talk() -> None:
        name = uuid.uuid4().hex[:8]
        async with _durable(shared_broker, version, f"aio-{name}") as reader:
            await reader.subscribe(f"aio/{name}", qos=1)
        async with _client(shared_broker, version) as writer:
            for number in range(20):
                await writer.publish(f"aio/{name}", str(number), qos=1)
        async with _durable(shared_broker, version, f"aio-{name}") as reader:
            messages = await _take(reader, 20)
            assert [int(bytes(m.payload)) for m in messages] == list(range(20))

    asyncio.run(talk())


def test_a_will_is_published(shared_broker: BrokerProcess, version: aiomqtt.ProtocolVersion) -> None:
    """The connection breaks: the watcher hears of it."""

    async def talk() -> None:
        topic = f"aio/{uuid.uuid4().hex[:8]}"
        async with _client(shared_broker, version) as watcher:
            await watcher.subscribe(topic, qos=1)
            mortal = _client(shared_broker, version, will=aiomqtt.Will(topic, b"gone", qos=1))
            with contextlib.suppress(aiomqtt.MqttError):
                async with mortal:
                    sock: Any = mortal._client.socket()
                    sock.shutdown(2)
                    (message,) = await _take(watcher, 1)
                    assert message.payload == b"gone"
                    return
            raise AssertionError("no will came")

    asyncio.run(talk())
