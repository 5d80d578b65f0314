"""Clients of the class application: room of their own, everything at QoS 1 and 2, and a share of each turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iot_mqtt.broker.settings import ApplicationSettings, LogUse, MqttSettings
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.codec import Connack
from iot_mqtt.ports.limits import Limits
from tests.unit.broker.harness import Node
from tests.unit.broker.test_limits import ByName, by_user, limited

APPLICATION = Limits(client_class="application")


def test_an_application_has_more_room() -> None:
    """In place of the keys of mqtt; what is said of it by number counts more."""
    settings = MqttSettings(application=ApplicationSettings(max_inflight=3000, receive_maximum=2000))
    node = limited(Limits(client_class="application", queue_messages=7), settings)
    ann = node.connect("a", username="ann")
    assert isinstance(ann.connack, Connack) and ann.connack.properties.receive_maximum == 2000
    session = node.session("a")
    assert (session.outbound.limit, session.queue.max_messages) == (3000, 7)
    assert session.queue.max_bytes == settings.application.max_queued_bytes
    connection = session.connection
    assert connection is not None and connection.ctx is not None
    ann.wire.link.capacity = 0
    connection.ctx.channel.outbox.add([b"x" * settings.application.outbox_high])
    assert connection.ctx.channel.writable
    node.limits = by_user()
    node.broker.clients.limiting.changed()
    node.turn()
    connection.ctx.channel.outbox.add([b"x"])
    assert not connection.ctx.channel.writable


@pytest.mark.parametrize("expiry", [None, 600], ids=["for its connection", "kept"])
def test_an_application_that_is_behind_loses_nothing(expiry: int | None) -> None:
    """It does not answer, and its queue would be full at once: all of it is in the log, also where the session ends
    with its connection. A device's would have been dropped.
    """
    node = Node(
        MqttSettings(
            max_queued_messages=3,
            max_inflight=3,
            application=ApplicationSettings(max_queued_messages=3, max_inflight=10),
        ),
        authenticator=ByName(),
        limits=by_user(app=APPLICATION),
    )
    app, device = node.connect("app", username="app", expiry=expiry), node.connect("device", username="dev")
    app.subscribe("t", qos=2)
    device.subscribe("t", qos=2)
    writer = node.connect("writer")
    payloads = [b"%04d" % number for number in range(100)]
    for number in range(0, 100, 10):
        writer.publish("t", *payloads[number : number + 10], qos=1 + number // 10 % 2)
    assert node.session("app").dropped is None
    assert node.session("device").dropped
    assert app.drain() == payloads
    app.disconnect()
    assert (node.broker.sessions.get("app") is None) is (expiry is None)


def test_what_ends_with_its_connection_is_not_there_after_a_crash() -> None:
    node = limited(Limits(client_class="application"))
    app = node.connect("app", username="ann")
    app.subscribe("t", qos=1)
    assert node.session("app").durable
    node.restart()
    node.advance(1)
    assert node.broker.sessions.get("app") is None and not node.broker.sessions.by_owner


def test_several_that_are_behind_get_everything() -> None:
    """One share a turn for all of them."""
    node = Node(
        MqttSettings(application=ApplicationSettings(messages_a_turn=10)),
        authenticator=ByName(),
        limits=by_user(app=APPLICATION),
        log_use=LogUse(batch_size=10),
    )
    names = ("one", "two", "three")
    for name in names:
        app = node.connect(name, username="app", clean=False, expiry=600)
        app.subscribe("t", qos=1)
        app.lose()
    node.connect("writer").publish("t", *[b"x"] * 100, qos=1)
    apps = [node.connect(name, username="app", clean=False, expiry=600) for name in names]
    assert [len(app.drain()) for app in apps] == [100, 100, 100]


def test_a_share_is_divided_in_the_order_of_asking() -> None:
    soon: list[Callable[[], None]] = []
    went: list[str] = []

    class Reader:
        def __init__(self, name: str) -> None:
            self.name, self.left = name, 3

        def read_on(self) -> None:
            if self.left and not turns.must_wait(self):
                turns.effort.left -= 10
                went.append(self.name)
                self.left -= 1
                soon.append(self.read_on)

    turns: TurnEffort[Reader] = TurnEffort(10, soon.append, Reader.read_on)
    readers = [Reader(name) for name in "abc"]
    for reader in readers:
        reader.read_on()
    each = []
    while soon:
        before = len(went)
        calls = soon[:]
        soon.clear()
        for call in calls:
            call()
        each.append(len(went) - before)
    assert went == list("abcabcabc")
    assert max(each) == 1
