"""Topics on which only the broker speaks: no client publishes there, whatever rules there are or are not."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="our own topics")

VERSIONS = pytest.mark.parametrize("version", [4, 5], ids=["v311", "v5"])
NOT_AUTHORIZED, REFUSED_3X = 0x87, 5
RESERVED = [
    "$SYS/broker/uptime",
    "$SYS",
    "status/press-1/c-17",
    "status",
    "shadow/press-1/delta",
    "shadow/gw/press-1/refused",
    "$share/group/x",
    "$replay/0/x",
]
#: What only looks so, and what clients of other platforms use.
FREE = ["$aws/things/x", "$SYSTEM/x", "statuses/x", "a/status/x", "shadow/press-1/other", "shadow/delta"]


@pytest.fixture(scope="module", params=["no rules", "all allowed"])
def open_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as `make run` starts it, and one whose rules allow these topics by name."""
    folder = tmp_path_factory.mktemp("open")
    settings: dict[str, object] = {}
    if request.param == "all allowed":
        names = ("#", "$SYS/#", "status/#", "shadow/#", "$aws/#", "$SYSTEM/#")
        (folder / "acl").write_text("[all]\n" + "".join(f"allow all {name}\n" for name in names))
        settings["auth.acl_file"] = folder / "acl"
    with brokers(folder) as start:
        yield start(settings=settings)


def _client(broker: BrokerProcess, name: str, version: int = 5) -> Plain:
    client = Plain(broker.ports["mqtt"], version=version)
    client.connect(name)
    return client


def _watcher(broker: BrokerProcess) -> Plain:
    client = _client(broker, "watcher")
    client.subscribe(("#", 0), ("$SYS/broker/uptime", 0), ("$SYS", 0), ("$aws/#", 0), ("$SYSTEM/#", 0), ("edge", 0))
    return client


def _seen(watcher: Plain) -> set[tuple[str, bytes]]:
    """What was published by clients up to now, without what the broker says of itself."""
    watcher.publish("edge", b"")
    came = set()
    while (message := watcher.expect_publication()).topic != "edge":
        if not message.topic.startswith("$SYS/broker/") or message.payload == b"forged":
            came.add((message.topic, message.payload))
    return came


def _denied(broker: BrokerProcess, action: str) -> float:
    samples = broker.metrics()
    assert samples is not None
    return samples.get(f'iot_mqtt_requests_denied_total{{action="{action}"}}', 0.0)


@VERSIONS
@pytest.mark.parametrize("qos", [0, 1, 2], ids=["qos0", "qos1", "qos2"])
def test_no_client_speaks_as_the_broker(open_broker: BrokerProcess, qos: int, version: int) -> None:
    """v5: 0x87 with a reason; 3.x: closed; QoS 0: counted and dropped. Nobody gets it and nothing is retained."""
    with _watcher(open_broker) as watcher:
        for topic in RESERVED:
            before = _denied(open_broker, "publish")
            with _client(open_broker, "forger", version) as forger:
                forger.publish(topic, b"forged", qos=qos, packet_id=7, retain=True)
                if qos == 0:
                    forger.ping()
                elif version == 5:
                    answer = forger.expect(wire.PUBACK if qos == 1 else wire.PUBREC)
                    assert (answer.packet_id, answer.reason()) == (7, NOT_AUTHORIZED), topic
                    assert b"only the broker publishes" in answer.body, topic
                    forger.ping()
                else:
                    assert forger.until_closed() == [], topic
            assert _denied(open_broker, "publish") - before == 1, topic
        assert _seen(watcher) == set()
    with _client(open_broker, "late") as late:
        late.subscribe(*((topic, 0) for topic in RESERVED if not topic.startswith("$s") and "replay" not in topic))
        late.publish("free", b"")
        late.send(b"\xc0\x00")
        while (got := late.receive()) is not None and got.kind != wire.PINGRESP:
            assert wire.publication(got, 5).payload != b"forged"


def test_an_alias_leads_to_no_reserved_topic(open_broker: BrokerProcess) -> None:
    """The topic that is meant counts, also where the packet names none."""
    with _client(open_broker, "aliased") as client:
        for packet_id, topic in ((1, "status/x/y"), (2, "")):
            client.send(wire.publish(topic, b"", qos=1, packet_id=packet_id, version=5, properties=b"\x23\x00\x01"))
            assert client.expect(wire.PUBACK).reason() == NOT_AUTHORIZED


@VERSIONS
def test_no_will_speaks_as_the_broker(open_broker: BrokerProcess, version: int) -> None:
    """Such a CONNECT is refused, and says why."""
    for topic in RESERVED:
        with Plain(open_broker.ports["mqtt"], version=version) as client:
            client.send(wire.connect("dying", version=version, will=(topic, b"forged", 1, True)))
            answer = client.expect(wire.CONNACK)
            assert answer.reason() == (NOT_AUTHORIZED if version == 5 else REFUSED_3X), topic
            assert client.until_closed() == []


def test_other_topics_are_free(open_broker: BrokerProcess) -> None:
    """What only resembles a reserved topic is a topic like any other, `$` or not."""
    with _watcher(open_broker) as watcher, _client(open_broker, "free") as client:
        for number, topic in enumerate(FREE, start=1):
            client.publish(topic, b"x", qos=1, packet_id=number)
            assert client.expect(wire.PUBACK).reason() == 0, topic
        assert _seen(watcher) == {(topic, b"x") for topic in FREE}


def test_the_broker_itself_is_heard(open_broker: BrokerProcess) -> None:
    """Whoever may subscribe gets what it says: its state, and what becomes of a command."""
    with _client(open_broker, "listener") as listener:
        listener.subscribe(("$SYS/broker/version", 0), ("status/#", 0))
        assert listener.expect_publication().topic == "$SYS/broker/version"
        with _client(open_broker, "sender") as sender:
            sender.publish("down/nobody/x", b"{}", qos=1, packet_id=1)
            sender.expect(wire.PUBACK)
        assert listener.expect_publication().topic.startswith("status/nobody/x/")


def test_the_broker_answers_to_no_reserved_topic(open_broker: BrokerProcess) -> None:
    """A response topic does not make the broker say something where only it speaks."""
    with _client(open_broker, "listener") as listener, _client(open_broker, "sender") as sender:
        listener.subscribe(("status/#", 0), ("shadow/+/delta", 0))
        for number, topic in enumerate(("status/press-1/c-17", "shadow/press-1/delta"), start=1):
            response = b"\x08" + wire.text(topic)
            sender.send(wire.publish("down/nobody/x", b"", qos=1, packet_id=number, version=5, properties=response))
            sender.expect(wire.PUBACK)
            assert listener.expect_publication().topic.startswith("status/nobody/x/")
        listener.ping()


def test_the_api_does_not_speak_as_the_broker(open_broker: BrokerProcess) -> None:
    """Whoever holds the token publishes as an operator, not as the broker."""
    token = (Path(open_broker.data_dir) / "admin.token").read_text().strip()
    request = urllib.request.Request(
        f"http://127.0.0.1:{open_broker.ports['admin']}/api/v1/publish",
        json.dumps({"topic": "status/press-1/c-17", "payload": "forged"}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    assert refused.value.code == 400
    assert "only the broker publishes" in refused.value.read().decode()
