"""Sending clients to other nodes: so many a second, with a reason and a place to go, and nothing lost by it."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import Connack, Disconnect, PacketType, Publish, encode
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.values import ProtocolVersion
from tests.unit.broker.harness import V5, V311, Client, Node

VERSIONS = pytest.mark.parametrize("version", [V311, V5], ids=["v3.1.1", "v5"])


def crowd(node: Node, count: int, version: ProtocolVersion = V5) -> list[Client]:
    """Clients c0, c1, … in the order in which they came."""
    return [node.connect(f"c{number}", version) for number in range(count)]


def gone(clients: list[Client]) -> list[bool]:
    return [client.closed for client in clients]


def test_clients_leave_at_the_rate_that_was_asked_for() -> None:
    """Ten a second are one every tenth of a second, those first who were here first."""
    node = Node()
    clients = crowd(node, 12)
    node.broker.clients.draining.begin(rate=10)
    assert gone(clients) == [False] * 12
    node.advance(0.1)
    assert gone(clients) == [True] + [False] * 11
    for _ in range(9):
        node.advance(0.1)
    assert gone(clients) == [True] * 10 + [False] * 2
    for _ in range(3):
        node.advance(0.1)
    assert node.broker.clients.connections.clients == 0


@pytest.mark.parametrize(("rate", "seconds", "expected"), [(1, 3.0, 3), (3, 2.0, 6), (45, 0.2, 9), (1000, 0.1, 20)])
def test_any_rate_is_kept(rate: int, seconds: float, expected: int) -> None:
    """Those that do not fit into a step as well."""
    node = Node()
    clients = crowd(node, 20)
    node.broker.clients.draining.begin(rate)
    for _ in range(round(seconds * 10)):
        node.advance(0.1)
    assert sum(gone(clients)) == expected


def test_the_state_says_what_ready_means() -> None:
    """A node that refuses newcomers is not ready, whyever it does."""
    node = Node()
    assert (node.view.info().ready, node.view.info().state) == (False, "not_ready")
    node.view.ready = True
    assert (node.view.info().ready, node.view.info().state) == (True, "serving")
    node.broker.clients.draining.begin()
    assert (node.view.info().ready, node.view.info().state) == (False, "drained")
    node.broker.clients.draining.resume()
    assert node.view.serving
    node.broker.clients.door.refusing = Refused("apart", ReasonCode.SERVER_UNAVAILABLE)
    assert (node.view.info().ready, node.view.info().state) == (False, "apart")


def test_a_node_that_was_busy_does_not_make_up_for_it_at_once() -> None:
    """Two steps' worth and one at most: a burst of clients is what the rate is there to prevent."""
    node = Node()
    clients = crowd(node, 20)
    node.broker.clients.draining.begin(rate=10)
    node.broker.clients.draining._stepped_at = -60.0
    node.advance(0.1)
    assert sum(gone(clients)) == 3


@pytest.mark.parametrize(
    "reason", [ReasonCode.USE_ANOTHER_SERVER, ReasonCode.SERVER_MOVED], ids=["for a while", "for ever"]
)
def test_version_5_is_told_why_and_where_to_go(reason: ReasonCode) -> None:
    """[MQTT-4.13.1] 0x9C, or 0x9D if the node will not come back, and the address behind the same listener."""
    node = Node()
    node.broker.clients.connections.reference = lambda listener: f"other.example:1883 (as {listener})"
    client = node.connect("c")
    listener = next(iter(node.broker.clients.connections)).ctx.channel.listener  # type: ignore[union-attr]
    node.broker.clients.draining.begin(rate=10, reason=reason)
    node.advance(0.1)
    (farewell,) = client.take(Disconnect)
    assert farewell.reason is reason
    assert farewell.properties.server_reference == f"other.example:1883 (as {listener})"
    assert farewell.properties.reason_string
    assert client.closed
    assert node.counters.disconnects == {reason.name.lower(): 1}


def test_version_3_is_closed_without_a_word() -> None:
    """It has none for this."""
    node = Node()
    client = node.connect("c", V311)
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    assert client.closed
    assert client.take_all() == []


@VERSIONS
def test_newcomers_are_refused(version: ProtocolVersion) -> None:
    """Version 5: 0x9C and where to go; version 3: server unavailable. And again for the next."""
    node = Node()
    node.broker.clients.connections.reference = lambda listener: "other.example:1883"
    node.broker.clients.draining.begin()
    for _ in range(3):
        late = node.connect("late", version)
        assert late.closed
        assert late.connack is not None
        if version is V5:
            assert late.connack.reason is ReasonCode.USE_ANOTHER_SERVER
            assert late.connack.properties.server_reference == "other.example:1883"
        else:
            assert late.connack.reason is ReasonCode.SERVER_UNAVAILABLE
    assert node.broker.clients.draining.progress().refused == 3


def test_refusing_keeps_nothing_of_those_it_refused() -> None:
    """The refusal is raised anew each time: one exception would collect the frames of all."""
    node = Node()
    node.broker.clients.draining.begin()
    refusal = node.broker.clients.door.refusing
    assert refusal is not None
    node.connect("late")
    assert refusal.__traceback__ is None


def test_resume_lets_clients_in_and_keeps_those_who_are_here() -> None:
    """As if nothing had been."""
    node = Node()
    clients = crowd(node, 5)
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    node.advance(0.1)
    node.broker.clients.draining.resume()
    node.advance(10.0)
    assert gone(clients) == [True, True, False, False, False]
    assert node.connect("c0").connack is not None
    assert node.broker.clients.connections.clients == 4
    clients[2].subscribe("t")
    node.connect("writer").publish("t", b"1")
    assert clients[2].payloads() == [b"1"]


def test_draining_again_changes_the_rate() -> None:
    """And does not begin from the start."""
    node = Node()
    clients = crowd(node, 15)
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    node.broker.clients.draining.begin(rate=50)
    node.advance(0.1)
    assert sum(gone(clients)) == 6
    node.broker.clients.draining.begin()
    assert node.broker.clients.draining.progress().rate == 50
    assert node.broker.clients.draining.progress().sent_away == 6


def test_another_refusal_stays_when_draining_ends() -> None:
    """A node that is not part of its cluster lets nobody in, whatever the operator says."""
    node = Node()
    node.broker.clients.draining.begin()
    better = node.broker.clients.door.refusing = Refused("not part of the cluster", ReasonCode.SERVER_UNAVAILABLE)
    node.broker.clients.draining.begin(rate=5)
    assert node.broker.clients.door.refusing is better
    node.broker.clients.draining.resume()
    assert node.broker.clients.door.refusing is better


def test_progress_is_told() -> None:
    """In numbers that add up, until nobody is left."""
    node = Node()
    crowd(node, 4)
    draining = node.broker.clients.draining
    assert (draining.progress().state, draining.progress().began_at) == ("serving", None)
    draining.begin(rate=10)
    node.advance(0.1)
    seen = draining.progress()
    assert (seen.state, seen.refusing, seen.moved, seen.rate) == ("draining", True, False, 10)
    assert (seen.clients, seen.sent_away, seen.remaining, seen.leaving) == (3, 1, 3, 0)
    assert seen.estimate == pytest.approx(0.3)
    for _ in range(4):
        node.advance(0.1)
    seen = draining.progress()
    assert (seen.state, seen.clients, seen.sent_away, seen.estimate) == ("drained", 0, 4, None)
    draining.resume()
    assert draining.progress().state == "serving"


def test_others_are_told_once_that_this_node_drains_and_once_that_it_does_not() -> None:
    """The hook for the entry in the list of members."""
    node = Node()
    told: list[bool] = []
    draining = node.broker.clients.draining
    draining.on_change = lambda: told.append(draining.active)
    draining.begin()
    draining.begin(rate=7)
    draining.resume()
    draining.resume()
    draining.shed(1)
    assert told == [True, False]


@VERSIONS
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_received_is_acknowledged_before_the_client_goes(version: ProtocolVersion, qos: int) -> None:
    """While the commit is under way the client waits; what it sends behind that was not received."""
    node = Node()
    node.connect("reader", expiry=60).subscribe("t", qos=1)
    node.session("reader").connection.disconnect(ReasonCode.SUCCESS)  # type: ignore[union-attr]
    client = node.connect("c", version, clean=False, expiry=60 if version is V5 else None)
    node.hold()
    client.publish("t", b"1", qos=qos, packet_id=1)
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    assert not client.closed
    assert node.broker.clients.draining.progress().leaving == 1
    client.publish("t", b"2", qos=qos, packet_id=2)
    node.release()
    assert client.closed
    kind = PacketType.PUBACK if qos == 1 else PacketType.PUBREC
    assert [one.packet_id for one in client.acks(kind)] == [1]
    assert client.farewell is (ReasonCode.USE_ANOTHER_SERVER if version is V5 else None)
    assert node.session("reader").backlog == 1


def test_a_client_that_is_not_read_from_does_not_fall_silent() -> None:
    """It may be talking while it waits for its commit; its keep-alive says nothing then."""
    node = Node()
    node.connect("reader", clean=False, expiry=60).subscribe("t", qos=1)
    client = node.connect("c", clean=False, expiry=60, keep_alive=1)
    node.hold()
    client.publish("t", b"1", qos=1, packet_id=1)
    node.broker.clients.draining.begin(rate=10)
    for _ in range(4):
        node.advance(1)
    assert not client.closed
    node.release()
    assert client.farewell is ReasonCode.USE_ANOTHER_SERVER


def test_a_publisher_that_was_sent_away_sends_again_and_nothing_comes_twice() -> None:
    """A QoS 2 exchange goes on where its session does, here after ``resume``."""
    node = Node()
    reader = node.connect("reader")
    reader.subscribe("t", qos=2)
    client = node.connect("c", clean=False, expiry=60)
    client.publish("t", b"1", qos=2, packet_id=1)
    node.broker.clients.draining.begin(rate=10)
    for _ in range(3):
        node.advance(0.1)
    assert client.closed
    node.broker.clients.draining.resume()
    again = node.connect("c", clean=False, expiry=60)
    again.publish("t", b"1", qos=2, packet_id=1, dup=True)
    again.ack(PacketType.PUBREL, 1)
    assert reader.payloads() == [b"1"]


@VERSIONS
def test_durable_sessions_stay_as_they_are(version: ProtocolVersion) -> None:
    """Subscriptions, what is in flight and what comes meanwhile are there for whoever takes the session over."""
    node = Node()
    client = node.connect("c", version, clean=False, expiry=3600 if version is V5 else None)
    client.subscribe("t", qos=1)
    writer = node.connect("writer")
    writer.publish("t", b"1", qos=1)
    assert client.payloads() == [b"1"]
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    assert client.closed
    writer.publish("t", b"2", qos=1)
    session = node.session("c")
    assert session.durable
    assert session.inflight_count == 1
    node.broker.clients.draining.resume()
    back = node.connect("c", version, clean=False, expiry=3600 if version is V5 else None)
    assert back.drain() == [b"1", b"2"]


def test_no_more_than_a_second_of_clients_waits_for_a_grid_that_takes_nothing() -> None:
    """They cannot leave, and the rest goes on being served; ``resume`` lets those go on as well."""
    node = Node()
    clients = crowd(node, 10)
    node.hold()
    node.connect("d", expiry=60)
    node.broker.clients.draining.begin(rate=2)
    for _ in range(50):
        node.advance(0.1)
    seen = node.broker.clients.draining.progress()
    assert (seen.leaving, seen.remaining) == (2, 9)
    clients[0].publish("t", b"1")
    clients[9].subscribe("u")
    node.broker.clients.draining.resume()
    node.release()
    clients[0].publish("u", b"2")
    assert clients[9].payloads() == [b"2"]
    assert gone(clients) == [False] * 10


def test_a_client_that_was_being_let_in_leaves_as_well() -> None:
    """Its CONNACK waits for a commit when the draining begins."""
    node = Node()
    node.hold()
    client = node.connect("c", expiry=60)
    assert client.connack is None
    node.broker.clients.draining.begin(rate=100)
    node.advance(0.1)
    node.release()
    for _ in range(3):
        node.advance(0.1)
    assert [one.reason for one in client.take(Connack)] == [ReasonCode.SUCCESS]
    assert client.farewell is ReasonCode.USE_ANOTHER_SERVER
    assert node.broker.clients.draining.progress().state == "drained"


def test_a_surplus_leaves_and_newcomers_are_welcome() -> None:
    """Rebalancing: three of five, and then it is over."""
    node = Node()
    clients = crowd(node, 5)
    draining = node.broker.clients.draining
    draining.shed(3, rate=10)
    assert draining.progress().state == "rebalancing"
    late = node.connect("late")
    for _ in range(10):
        node.advance(0.1)
    assert gone([*clients, late]) == [True, True, True, False, False, False]
    assert draining.progress().state == "serving"
    assert draining.progress().sent_away == 3
    (farewell,) = clients[0].take(Disconnect)
    assert farewell.reason is ReasonCode.USE_ANOTHER_SERVER


def test_a_surplus_that_is_larger_than_what_is_there_is_everybody() -> None:
    """Clients may have left by themselves meanwhile."""
    node = Node()
    clients = crowd(node, 2)
    node.broker.clients.draining.shed(5, rate=10)
    clients[0].lose()
    for _ in range(5):
        node.advance(0.1)
    assert node.broker.clients.connections.clients == 0
    assert node.broker.clients.draining.progress().state == "serving"


def test_a_node_that_drains_sheds_no_surplus() -> None:
    """Everybody leaves anyway."""
    node = Node()
    crowd(node, 3)
    node.broker.clients.draining.begin(rate=10)
    node.broker.clients.draining.shed(1, rate=99)
    seen = node.broker.clients.draining.progress()
    assert (seen.state, seen.rate, seen.remaining) == ("draining", 10, 3)


def test_draining_goes_on_from_rebalancing() -> None:
    """What was a surplus becomes everybody."""
    node = Node()
    clients = crowd(node, 4)
    node.broker.clients.draining.shed(1, rate=10)
    node.broker.clients.draining.begin(rate=100)
    for _ in range(3):
        node.advance(0.1)
    assert gone(clients) == [True] * 4


def test_a_restart_is_not_draining() -> None:
    """Nothing of it is kept."""
    node = Node()
    node.broker.clients.draining.begin()
    node.restart()
    assert node.connect("c").connack is not None
    assert not node.broker.clients.draining.active


def test_packets_in_one_piece_with_the_last_ones_are_not_half_done() -> None:
    """What came is acknowledged as far as it was read."""
    node = Node()
    client = node.connect("c")
    packets = [Publish(b"t", b"x", 1, packet_id=number) for number in (1, 2, 3)]
    client.feed(b"".join(encode(packet, V5) for packet in packets))
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    assert len(client.acks(PacketType.PUBACK)) == 3
    assert client.closed


def test_a_drained_node_looks_no_more() -> None:
    """Nobody can become a client whom it would have to send away; one whose CONNECT has yet to come is refused."""
    node = Node()
    early = node.open()
    node.connect("c")
    node.broker.clients.draining.begin(rate=10)
    for _ in range(3):
        node.advance(0.1)
    assert node.broker.clients.draining.progress().state == "drained"
    assert node.broker.clients.draining._timer is not None
    early.lose()
    node.advance(0.2)
    assert node.broker.clients.draining._timer is None
    assert node.broker.clients.draining.progress().state == "drained"
    node.broker.clients.draining.resume()
    client = node.connect("c")
    node.broker.clients.draining.begin(rate=10)
    node.advance(0.1)
    assert client.closed
