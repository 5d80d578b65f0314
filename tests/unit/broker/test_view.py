"""The facade for the admin side: paged listings, figures, and commands that wait for their commit."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from iot_mqtt.admin.turns import AtOnce
from iot_mqtt.broker.driving import drive
from iot_mqtt.broker.facade import ClientInfo, ClientsWanted, Published, SessionInfo, SessionsWanted
from iot_mqtt.codec import ConnectWill, PacketType, Properties
from iot_mqtt.errors import MqttError, ReasonCode, Refused
from iot_mqtt.pipeline import OutboxSettings
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.values import Message, Subscription
from tests.unit.broker.harness import OF_SESSIONS, V31, V311, Node, run

NAMES = [f"c{number:02}" for number in range(25)]
Listing = Callable[[str | None, int], Coroutine[Any, Any, Sequence[Any]]]


def crowd() -> Node:
    """Every second client is away."""
    node = Node()
    for position, name in enumerate(reversed(NAMES)):
        client = node.connect(name, clean=False, expiry=600)
        client.subscribe("b", "a")
        if position % 2:
            client.lose()
    return node


def begun(coroutine: Coroutine[Any, Any, Any]) -> list[Any]:
    """Start a command; its result, or its error, is in the list once it has one."""
    results: list[Any] = []
    drive(coroutine, results.append, results.append)
    return results


@pytest.mark.parametrize("limit", [1, 7, 25, 1000])
def test_clients_and_sessions_are_paged_by_name(limit: int) -> None:
    """Each once and in order, whatever the page."""
    node = crowd()
    listings: list[tuple[Listing, list[str]]] = [(node.view.sessions, NAMES), (node.view.clients, NAMES[0::2])]
    for listing, expected in listings:
        names: list[str] = []
        while page := run(listing(names[-1] if names else None, limit)):
            assert len(page) <= limit
            names += [one.client_id for one in page]
        assert names == expected


@pytest.mark.parametrize("limit", [1, 3, 50, 1000])
def test_subscriptions_are_paged_by_client_and_filter(limit: int) -> None:
    """Of all, and of one client; also when the client of the page before is gone."""
    node = crowd()
    found: list[tuple[str, str]] = []
    while page := run(node.view.subscriptions(None, found[-1] if found else None, limit)):
        found += [(one.client_id, one.subscription.filter) for one in page]
        if len(found) == 2:
            node.connect(NAMES[0]).disconnect()
    assert found == [(name, filter) for name in NAMES for filter in ("a", "b")]
    of_one = run(node.view.subscriptions(NAMES[3]))
    assert [(one.client_id, one.subscription.filter) for one in of_one] == [(NAMES[3], "a"), (NAMES[3], "b")]
    assert run(node.view.subscriptions("nobody")) == []


def test_retained_messages_are_paged_by_topic() -> None:
    """By filter as well; a page begins behind the last topic of the one before."""
    node = Node()
    topics = [b"a/%02d" % number for number in range(9)] + [b"b"]
    for topic in reversed(topics):
        node.broker.publishing.path.send(Message(topic, b"x", retain=True))
    found: list[bytes] = []
    while page := node.view.retained("#", found[-1] if found else None, 4):
        found += [message.topic for message in page]
    assert found == topics
    assert [message.topic for message in node.view.retained("a/+", None, 2)] == topics[:2]
    assert node.view.retained("nothing/#") == []


def test_a_client_as_it_is() -> None:
    """Figures of its connection and its session."""
    node = Node()
    node.advance(5)
    client = node.connect("c", V311, clean=False, keep_alive=30, username="u")
    client.subscribe("t", "u", qos=1)
    node.connect("writer").publish("t", b"x", qos=1)
    info = node.view.client("c")
    assert isinstance(info, ClientInfo)
    assert (info.client_id, info.username, info.claimed_user, info.protocol) == ("c", None, "u", "3.1.1")
    assert (info.clean_start, info.keep_alive, info.listener) == (False, 30, "embedded")
    assert info.connected_at == node.clock.wall()
    assert (info.subscriptions, info.inflight, info.queued) == (2, 1, 0)
    assert info.writable
    assert (info.bytes_received, info.bytes_sent) == (30, 4 + 6 + 8)
    client.lose()
    assert node.view.client("c") is None
    assert node.view.client("nobody") is None
    assert [one.protocol for one in run(node.view.clients())] == ["5.0"]
    node.connect("old", V31)
    assert [one.protocol for one in run(node.view.clients())] == ["3.1", "5.0"]


def test_a_session_as_it_is() -> None:
    """Both halves of QoS 2, what waits, what was dropped, and why the last connection ended."""
    node = Node()
    will = ConnectWill(b"w", b"", 0, False, Properties(will_delay_interval=100))
    client = node.connect("c", expiry=600, receive_maximum=2, will=will)
    client.subscribe("t", qos=2)
    client.publish("else", b"", qos=2)
    node.connect("writer").publish("t", b"1", b"2", b"3", b"44", qos=2)
    client.ack(PacketType.PUBREC, 1)
    node.advance(10)
    client.lose()
    node.connect("again").publish("t", b"5")
    info = node.view.session("c")
    assert isinstance(info, SessionInfo)
    assert (info.connected, info.durable, info.expiry_interval, info.has_will) == (False, True, 600, True)
    assert (info.inflight, info.awaiting_release, info.received, info.queued, info.backlog) == (2, 1, 1, 0, 2)
    assert (info.delivered, info.dropped, info.denied) == (1, {"offline_qos0": 1}, {})
    assert (info.last_disconnect, info.state) == ("peer_closed", "offline")
    assert info.disconnected_at == node.clock.wall()
    assert info.created_at == node.clock.wall() - 10
    assert node.view.session("nobody") is None


def test_the_state_of_a_session_says_why_it_gets_nothing() -> None:
    """In a word."""
    node = Node(outbox=OutboxSettings(high_water=100, low_water=10, hard_limit=1_000_000))
    client, writer = node.connect("c", expiry=600, receive_maximum=1), node.connect("writer")
    client.subscribe("t", qos=1)

    def state() -> str:
        info = node.view.session("c")
        assert info is not None
        return info.state

    assert state() == "caught_up"
    node.hold()
    writer.publish("t", b"1", qos=1)
    assert state() == "committing"
    node.release()
    writer.publish("t", b"2", qos=1)
    assert state() == "inflight_full"
    client.subscribe("stuff")
    client.wire.link.capacity = 0
    writer.publish("stuff", b"x" * 200)
    assert state() == "outbox_full"
    client.lose()
    assert state() == "offline"


def test_the_node_in_one_look() -> None:
    """Sums over sessions, and bytes of connections that are gone."""
    node = crowd()
    node.broker.publishing.path.send(Message(b"r", b"12345", retain=True))
    node.connect("writer").publish("a", b"x", qos=1)
    node.connect("reader", receive_maximum=1).subscribe("x", qos=1)
    node.connect("again").publish("x", b"1", b"2", b"3", qos=1)
    info = node.view.info()
    assert (info.node_id, info.version, info.ready) == ("n1", "0", False)
    assert (info.clients, info.sessions, info.subscriptions) == (16, 28, 51)
    assert (info.retained, info.retained_bytes, info.queued, info.inflight) == (1, 6, 2, 1)
    before = node.counters.bytes_received
    assert before > 0
    for client in node.clients:
        client.lose()
    node.view.info()
    assert node.counters.bytes_received == before


def test_publish_as_the_node_waits_for_its_commit() -> None:
    """And tells how many sessions matched."""
    node = Node()
    reader = node.connect("reader", expiry=60)
    reader.subscribe("t", qos=1)
    node.connect("other").subscribe("#")
    node.hold()
    result = begun(node.view.publish(Message(b"t", b"x", 1, retain=True)))
    node.turn()
    assert result == []
    node.release()
    assert result == [Published(2, elsewhere=False)]
    assert reader.drain() == [b"x"]
    assert node.records(CacheName.RETAINED) == 1


@pytest.mark.parametrize("topic", [b"", b"a/+", b"#", b"a\0b"], ids=ascii)
def test_publish_as_the_node_checks_the_topic(topic: bytes) -> None:
    """As for any client."""
    (error,) = begun(Node().view.publish(Message(topic, b"x")))
    assert isinstance(error, MqttError)


def test_kick_closes_with_0x98_and_keeps_the_session() -> None:
    """False for a client that is not there."""
    node = Node()
    client = node.connect("c", expiry=60)
    result = begun(node.view.kick("c"))
    node.turn()
    assert result == [True]
    assert client.farewell is ReasonCode.ADMINISTRATIVE_ACTION
    assert client.closed
    assert node.session("c").last_disconnect == "administrative_action"
    assert run(node.view.kick("c")) is False
    assert run(node.view.kick("nobody")) is False


@pytest.mark.parametrize("online", [True, False], ids=["connected", "away"])
def test_purge_leaves_nothing(online: bool) -> None:
    """No records, no routes; what waited is counted, and a will goes out."""
    node = Node()
    watcher = node.connect("watcher")
    watcher.subscribe("w")
    will = ConnectWill(b"w", b"gone", 0, False, Properties(will_delay_interval=100))
    client = node.connect("c", expiry=600, receive_maximum=1, will=will)
    client.subscribe("t", qos=2)
    node.connect("writer").publish("t", b"1", b"2", qos=2)
    if not online:
        client.lose()
    node.hold()
    result = begun(node.view.purge("c"))
    node.turn()
    assert result == []
    node.release()
    assert result == [True]
    assert client.closed is online
    assert node.broker.sessions.get("c") is None
    assert node.records(*OF_SESSIONS) == 0
    assert watcher.payloads() == [b"gone"]
    assert node.dropped() == {"session_ended": 2}
    assert run(node.view.purge("c")) is False


def test_removing_a_retained_message() -> None:
    """Safe when it is confirmed; False where there is none."""
    node = Node()
    run(node.view.publish(Message(b"t", b"x", retain=True)))
    assert run(node.view.remove_retained(b"t")) is True
    assert run(node.view.remove_retained(b"t")) is False
    node.restart()
    assert node.view.retained() == []


def outcome(node: Node, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Of a command, which waits for a commit."""
    results = begun(coroutine)
    node.turn()
    return results[0]


class Believing:
    """Takes every client at its word."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username)


def listed(found: Coroutine[Any, Any, Sequence[Any]]) -> list[str]:
    return [one.client_id for one in run(found)]


def test_clients_can_be_narrowed() -> None:
    """By what their ids begin with, user, address or network, and listener."""
    node = Node(authenticator=Believing())
    for name, user in (("plc-1", "ann"), ("plc-2", "bob"), ("hmi", "ann")):
        node.connect(name, username=user)
    clients = node.view.clients
    assert listed(clients(wanted=ClientsWanted(prefix="plc"))) == ["plc-1", "plc-2"]
    assert listed(clients(wanted=ClientsWanted(contains="LC-"))) == ["plc-1", "plc-2"]
    assert listed(clients(wanted=ClientsWanted(contains="-2"))) == ["plc-2"]
    assert listed(clients(wanted=ClientsWanted(user="ann"))) == ["hmi", "plc-1"]
    assert listed(clients(wanted=ClientsWanted(prefix="plc", user="ann"))) == ["plc-1"]
    assert len(listed(clients(wanted=ClientsWanted(listener="embedded")))) == 3
    assert listed(clients(wanted=ClientsWanted(listener="tls"))) == []
    assert len(listed(clients(wanted=ClientsWanted(address="192.0.2.0/24")))) == 3
    assert listed(clients(wanted=ClientsWanted(address="192.0.2.2"))) == []
    with pytest.raises(ValueError, match="nowhere"):
        run(clients(wanted=ClientsWanted(address="nowhere")))


def test_sessions_can_be_narrowed() -> None:
    """By whether they are connected, by state and by owner."""
    node = Node()
    for name, user in (("a", "ann"), ("b", "bob")):
        node.connect(name, username=user, clean=False, expiry=600)
    node.connect("c", clean=False, expiry=600).lose()
    sessions = node.view.sessions
    assert listed(sessions(wanted=SessionsWanted(connected=True))) == ["a", "b"]
    assert listed(sessions(wanted=SessionsWanted(state="offline"))) == ["c"]
    assert listed(sessions(wanted=SessionsWanted(prefix="b"))) == ["b"]
    assert listed(sessions(wanted=SessionsWanted(user="nobody"))) == []


def test_filters_are_listed_with_how_many_have_them() -> None:
    """All, or those that match a topic; a shared one by what topics are held against."""
    node = Node(breathe=AtOnce().next)
    node.connect("a").subscribe("x/+", "y")
    node.connect("b", clean=False, expiry=600).subscribe("x/+", "$share/g/x/#")
    found = run(node.view.subscribing.routes())
    assert [(one.filter, one.sessions) for one in found] == [("$share/g/x/#", 1), ("x/+", 2), ("y", 1)]
    assert [one.filter for one in run(node.view.subscribing.routes(topic="x/1"))] == ["$share/g/x/#", "x/+"]
    assert [one.filter for one in run(node.view.subscribing.routes(after="x/+"))] == ["y"]
    assert [one.client_id for one in run(node.view.subscriptions(topic="x/1"))] == ["a", "b", "b"]
    (group,) = run(node.view.subscribing.groups())
    assert (group.group, group.topics, group.members, group.client_ids) == ("g", "x/#", 1, ["b"])


def test_a_subscription_is_made_for_a_client() -> None:
    """Connected or not, as it would itself: with what was kept, and given up again."""
    node = Node()
    node.broker.publishing.path.send(Message(b"t/1", b"kept", retain=True))
    here, away = node.connect("here"), node.connect("away", clean=False, expiry=600)
    away.lose()
    subscribing = node.view.subscribing
    assert outcome(node, subscribing.subscribe("here", Subscription("t/+", 1))) == Subscription("t/+", 1)
    assert outcome(node, subscribing.subscribe("away", Subscription("t/+", 1))) == Subscription("t/+", 1)
    node.connect("writer").publish("t/2", b"new", qos=1)
    assert here.payloads() == [b"kept", b"new"]
    assert node.records(CacheName.SUBSCRIPTIONS) == 1
    back = node.connect("away", clean=False, expiry=600)
    assert b"new" in back.payloads()
    assert outcome(node, subscribing.unsubscribe("here", "t/+")) is True
    assert outcome(node, subscribing.unsubscribe("here", "t/+")) is False
    assert outcome(node, subscribing.unsubscribe("nobody", "t/+")) is None
    assert outcome(node, subscribing.subscribe("nobody", Subscription("t/+"))) is None
    assert run(node.view.subscriptions("here")) == []


@pytest.mark.parametrize("wanted", [Subscription("$replay/0/a"), Subscription("$share/g/a", no_local=True)])
def test_a_subscription_that_cannot_be_made_is_refused(wanted: Subscription) -> None:
    """And changes nothing."""
    node = Node()
    node.connect("c")
    assert isinstance(outcome(node, node.view.subscribing.subscribe("c", wanted)), MqttError)
    assert run(node.view.subscriptions("c")) == []


def test_many_are_published_and_removed_at_once() -> None:
    """In their order; retained ones are removed by filter, so many at a time."""
    node = Node()
    client = node.connect("c")
    client.subscribe("#")
    messages = [Message(b"m/%d" % number, b"%d" % number, retain=True) for number in range(5)]
    found = outcome(node, node.view.publish_all([*messages, Message(b"$SYS/x", b"")]))
    assert found[:5] == [Published(1, elsewhere=False)] * 5
    assert isinstance(found[5], Refused)
    assert client.payloads() == [b"0", b"1", b"2", b"3", b"4"]
    assert outcome(node, node.view.remove_all_retained("m/+", 3)) == 3
    assert [one.topic for one in node.view.retained("m/+")] == [b"m/3", b"m/4"]
    assert outcome(node, node.view.remove_all_retained("m/+", 3)) == 2
