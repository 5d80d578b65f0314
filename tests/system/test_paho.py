"""paho-mqtt against a real broker, MQTT 3.1.1 and 5.0."""

from __future__ import annotations

import queue
import time
import uuid
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from systemkit.process import BrokerProcess

WAIT = 20.0
VERSIONS = [
    pytest.param(paho.MQTTv31, id="3.1"),
    pytest.param(paho.MQTTv311, id="3.1.1"),
    pytest.param(paho.MQTTv5, id="5.0"),
]


def _properties(packet: int) -> Any:
    """Properties of a packet; paho sets them as attributes that no type knows."""
    return Properties(packet)  # type: ignore[no-untyped-call]


class Client:
    """A paho client with its network thread; callbacks become queues."""

    def __init__(self, broker: BrokerProcess, version: int, client_id: str = "", *, clean: bool = True) -> None:
        five = version == paho.MQTTv5
        self.id = client_id or f"paho-{uuid.uuid4().hex[:12]}"
        session: dict[str, Any] = {} if five else {"clean_session": clean}
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, self.id, protocol=version, **session)  # type: ignore[arg-type]
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.connected: queue.Queue[Any] = queue.Queue()
        self.granted: queue.Queue[Any] = queue.Queue()
        self.paho.on_message = lambda client, data, message: self.messages.put(message)
        self.paho.on_connect = lambda client, data, flags, reason, properties: self.connected.put((flags, reason))
        self.paho.on_subscribe = lambda client, data, mid, reasons, properties: self.granted.put(reasons)
        self._broker, self._five, self._clean = broker, five, clean

    def open(self) -> Any:
        """Connect; returns the flags of CONNACK."""
        options: dict[str, Any] = {}
        if self._five:
            properties = _properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0 if self._clean else 600
            options = {"clean_start": self._clean, "properties": properties}
        self.paho.connect("127.0.0.1", self._broker.ports["mqtt"], 60, **options)
        self.paho.loop_start()
        flags, reason = self.connected.get(timeout=WAIT)
        assert reason == 0, reason
        return flags

    def subscribe(self, topic: str, **options: Any) -> None:
        self.paho.subscribe(topic, **options)
        assert all(not reason.is_failure for reason in self.granted.get(timeout=WAIT))

    def publish(self, topic: str, payload: bytes, **options: Any) -> None:
        """Publish and wait until the exchange is finished."""
        info = self.paho.publish(topic, payload, **options)
        info.wait_for_publish(WAIT)
        assert info.is_published()

    def message(self) -> paho.MQTTMessage:
        return self.messages.get(timeout=WAIT)

    def close(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def vanish(self) -> None:
        """End the connection without DISCONNECT."""
        self.paho.loop_stop()
        sock = self.paho.socket()
        assert sock is not None
        sock.close()


@pytest.fixture
def topic() -> str:
    return f"paho/{uuid.uuid4().hex[:8]}"


@pytest.fixture
def client_id() -> str:
    return f"paho-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("version", VERSIONS)
def test_publish_and_subscribe_at_each_qos(shared_broker: BrokerProcess, version: int, topic: str) -> None:
    """Ten messages each way at QoS 0, 1 and 2, in order."""
    client = Client(shared_broker, version)
    client.open()
    client.subscribe(f"{topic}/#", qos=2)
    for qos in (0, 1, 2):
        for number in range(10):
            client.publish(f"{topic}/{qos}", b"%d" % number, qos=qos)
        messages = [client.message() for _ in range(10)]
        assert [int(m.payload) for m in messages] == list(range(10))
        assert {(m.qos, m.topic, m.retain) for m in messages} == {(qos, f"{topic}/{qos}", False)}
    client.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_retained_message_meets_the_next_subscriber(shared_broker: BrokerProcess, version: int, topic: str) -> None:
    """With the retain flag set, at the QoS it was published with; empty takes it away."""
    writer = Client(shared_broker, version)
    writer.open()
    writer.publish(topic, b"kept", qos=1, retain=True)
    reader = Client(shared_broker, version)
    reader.open()
    reader.subscribe(topic, qos=1)
    message = reader.message()
    assert (message.payload, message.retain, message.qos) == (b"kept", True, 1)
    writer.publish(topic, b"", qos=1, retain=True)
    assert reader.message().payload == b""
    reader.subscribe(topic, qos=1)
    with pytest.raises(queue.Empty):
        reader.messages.get(timeout=0.2)
    writer.close()
    reader.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_is_published_for_a_client_that_vanishes(shared_broker: BrokerProcess, version: int, topic: str) -> None:
    """And not for one that says goodbye."""
    watcher = Client(shared_broker, version)
    watcher.open()
    watcher.subscribe(topic, qos=1)
    for payload, end in ((b"polite", Client.close), (b"gone", Client.vanish)):
        client = Client(shared_broker, version)
        client.paho.will_set(topic, payload, qos=1)
        client.open()
        end(client)
    assert watcher.message().payload == b"gone"
    assert watcher.messages.empty()
    watcher.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_gets_what_was_queued(shared_broker: BrokerProcess, version: int, topic: str, client_id: str) -> None:
    """Away while 20 messages came; all there, each QoS in order, on return, and no subscription needed."""
    reader = Client(shared_broker, version, client_id, clean=False)
    assert not reader.open().session_present
    reader.subscribe(topic, qos=2)
    reader.close()
    writer = Client(shared_broker, version)
    writer.open()
    for number in range(20):
        writer.publish(topic, b"%d" % number, qos=1 + number % 2)
    writer.close()
    reader = Client(shared_broker, version, client_id, clean=False)
    present = reader.open().session_present
    assert present or version == paho.MQTTv31, "session present"
    messages = [reader.message() for _ in range(20)]
    for qos in (1, 2):  # paho hands out QoS 2 at PUBREL, so the two are not in one order
        assert [int(m.payload) for m in messages if m.qos == qos] == list(range(qos - 1, 20, 2))
    reader.close()
    reader = Client(shared_broker, version, client_id, clean=True)
    assert not reader.open().session_present
    reader.close()


def test_paho_reconnects_by_itself_after_a_restart(broker: BrokerProcess, topic: str, client_id: str) -> None:
    """The library's own reconnect finds its session on the broker that came back."""
    reader = Client(broker, paho.MQTTv311, client_id, clean=False)
    reader.paho.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
    reader.open()
    reader.subscribe(topic, qos=1)
    broker.restart(kill=False)
    flags, reason = reader.connected.get(timeout=WAIT)
    assert reason == 0
    assert flags.session_present
    writer = Client(broker, paho.MQTTv311)
    writer.open()
    writer.publish(topic, b"after", qos=1)
    assert reader.message().payload == b"after"
    writer.close()
    reader.close()


def test_v5_properties_pass_through(shared_broker: BrokerProcess, topic: str) -> None:
    """User properties in order, content type, response topic, correlation data, format and the identifier."""
    reader = Client(shared_broker, paho.MQTTv5)
    reader.open()
    subscription = _properties(PacketTypes.SUBSCRIBE)
    subscription.SubscriptionIdentifier = 77
    reader.subscribe(topic, options=SubscribeOptions(qos=1), properties=subscription)
    writer = Client(shared_broker, paho.MQTTv5)
    writer.open()
    properties = _properties(PacketTypes.PUBLISH)
    properties.UserProperty = [("b", "2"), ("a", "1"), ("b", "3")]
    properties.ContentType = "text/plain"
    properties.ResponseTopic = "answers/here"
    properties.CorrelationData = b"\x00\x01\xff"
    properties.PayloadFormatIndicator = 1
    properties.MessageExpiryInterval = 60
    writer.publish(topic, b"with properties", qos=1, properties=properties)
    got: Any = reader.message().properties
    assert got is not None
    assert got.UserProperty == [("b", "2"), ("a", "1"), ("b", "3")]
    assert (got.ContentType, got.ResponseTopic, got.CorrelationData) == ("text/plain", "answers/here", b"\x00\x01\xff")
    assert got.PayloadFormatIndicator == 1
    assert 58 <= got.MessageExpiryInterval <= 60
    assert got.SubscriptionIdentifier == [77]
    writer.close()
    reader.close()


def test_v5_subscription_options(shared_broker: BrokerProcess, topic: str) -> None:
    """No-local keeps one's own messages away; retain-as-published keeps the flag; handling 2 sends nothing kept."""
    client = Client(shared_broker, paho.MQTTv5)
    client.open()
    client.publish(f"{topic}/own", b"kept", qos=1, retain=True)
    client.subscribe(f"{topic}/own", options=SubscribeOptions(qos=1, noLocal=True, retainHandling=2))
    client.subscribe(f"{topic}/other", options=SubscribeOptions(qos=1, retainAsPublished=True))
    other = Client(shared_broker, paho.MQTTv5)
    other.open()
    client.publish(f"{topic}/own", b"mine", qos=1)
    other.publish(f"{topic}/own", b"theirs", qos=1)
    other.publish(f"{topic}/other", b"flagged", qos=1, retain=True)
    first, second = client.message(), client.message()
    assert (first.payload, first.retain) == (b"theirs", False)
    assert (second.payload, second.retain) == (b"flagged", True)
    other.close()
    client.close()


def test_v5_message_expiry_is_counted_in_the_queue(shared_broker: BrokerProcess, topic: str, client_id: str) -> None:
    """A message that expired while its reader was away does not come; a longer one comes with what is left."""
    reader = Client(shared_broker, paho.MQTTv5, client_id, clean=False)
    reader.open()
    reader.subscribe(topic, qos=1)
    reader.close()
    writer = Client(shared_broker, paho.MQTTv5)
    writer.open()
    for seconds in (1, 60):
        properties = _properties(PacketTypes.PUBLISH)
        properties.MessageExpiryInterval = seconds
        writer.publish(topic, b"%d" % seconds, qos=1, properties=properties)
    writer.close()
    time.sleep(2.1)
    reader = Client(shared_broker, paho.MQTTv5, client_id, clean=False)
    reader.open()
    message: Any = reader.message()
    assert message.payload == b"60"
    assert 50 <= message.properties.MessageExpiryInterval <= 58
    assert reader.messages.empty()
    reader.close()


def test_v5_shared_subscription_divides(shared_broker: BrokerProcess, topic: str) -> None:
    """Two members of a group get each message once between them, and both get some."""
    members = [Client(shared_broker, paho.MQTTv5) for _ in range(2)]
    for member in members:
        member.open()
        member.subscribe(f"$share/group/{topic}", qos=1)
    writer = Client(shared_broker, paho.MQTTv5)
    writer.open()
    for number in range(40):
        writer.publish(topic, b"%d" % number, qos=1)
    deadline = time.monotonic() + WAIT
    while sum(member.messages.qsize() for member in members) < 40 and time.monotonic() < deadline:
        time.sleep(0.01)
    got = [[int(m.payload) for m in list(member.messages.queue)] for member in members]
    assert sorted(got[0] + got[1]) == list(range(40))
    assert min(map(len, got)) > 0
    for client in (*members, writer):
        client.close()
