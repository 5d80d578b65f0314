"""The busiest topics, the tree of topics and the last value of one: counted while somebody looks, bounded."""

from __future__ import annotations

from iot_mqtt.admin.json_text import fields_of
from iot_mqtt.admin.topic_resources import Branch, BusyTopic, TopicResources, level_together, top_together
from iot_mqtt.app.node.topic_flow import ARMED, EXACT, KEPT, TopicDesk
from iot_mqtt.codec import Publish, encode
from iot_mqtt.metrics.topic_flow import PUBLISHERS, WINDOW, TopicFlow
from tests.unit.admin.adminkit import FakeView, make_browser
from tests.unit.broker.harness import Node


def desk_of(node: Node) -> TopicDesk:
    """Over a node in this process."""
    retained = node.broker.publishing.retention.index.page
    return TopicDesk(lambda: node.broker, lambda: retained, node.clock)


def test_the_sketch_is_bounded_and_knows_what_it_may_have_missed() -> None:
    flow = TopicFlow(0.0, most=10)
    for number in range(1000):
        flow.note(1.0, b"rare/%d" % number, 1, 10, f"c{number}")
        flow.note(1.0, b"often", 2, 100, f"c{number}")
    rates = {one.topic: one for one in flow.rates(1.0)}
    assert len(rates) <= 20
    assert rates[b"often"].messages == 2000
    assert rates[b"often"].missed == 0
    assert len(rates[b"often"].publishers) == PUBLISHERS
    # 1 of each of them came: what is shown of any and what is missed of it are no less.
    assert all(one.messages + one.missed >= 1 for one in rates.values())


def test_rates_are_of_two_windows_and_end() -> None:
    flow = TopicFlow(0.0)
    flow.note(1.0, b"t", 10, 100, "c")
    assert [one.messages for one in flow.rates(5.0)] == [2.0]
    assert [one.messages for one in flow.rates(WINDOW + 1)] == [10 / (WINDOW + 1)]
    assert list(flow.rates(3 * WINDOW)) == []


def test_nothing_is_counted_until_somebody_asks_and_a_minute_later() -> None:
    node = Node()
    desk, plain = desk_of(node), dict(node.broker.inbound.handlers)
    writer = node.connect("writer")
    writer.publish("t", b"1")
    assert node.broker.inbound.handlers == plain
    assert desk.busiest("messages", 10) == []
    assert node.broker.inbound.handlers != plain
    writer.publish("t", b"1")
    assert [one.topic for one in desk.busiest("messages", 10)] == ["t"]
    node.clock.advance(ARMED + 1)
    writer.publish("t", b"1")
    assert node.broker.inbound.handlers == plain


def test_the_busiest_with_who_publishes_and_how_many_get_it() -> None:
    node = Node()
    desk = desk_of(node)
    for name in ("a", "b"):
        node.connect(name).subscribe("big/#", qos=1)
    writer, other = node.connect("writer"), node.connect("other")
    desk.seconds()
    for number in range(5):
        writer.publish("small", b"x", qos=number % 3)
    other.publish("big/1", b"x" * 5000, qos=1)
    first, second = desk.busiest("messages", 10)
    assert (first.topic, first.publishers, first.receivers) == ("small", ("writer",), 0)
    assert (second.topic, second.publishers, second.receivers) == ("big/1", ("other",), 2)
    assert first.messages_per_second == 5 * second.messages_per_second
    assert [one.topic for one in desk.busiest("bytes", 1)] == ["big/1"]


def test_batches_count_topic_by_topic_and_many_are_sampled() -> None:
    node = Node()
    desk = desk_of(node)
    writer = node.connect("writer")
    desk.seconds()
    packets = b"".join(encode(Publish(b"t/%d" % (n % 2), b"x", 0), writer.version) for n in range(10))
    for _ in range(8 * EXACT):
        writer.wire.feed(packets)
    found = {one.topic: one.messages_per_second for one in desk.busiest("messages", 10)}
    assert found.keys() == {"t/0", "t/1"}
    assert 0.7 < found["t/0"] / (5 * 8 * EXACT) < 1.3


def test_the_tree_level_by_level_with_what_is_retained() -> None:
    node = Node()
    desk = desk_of(node)
    writer = node.connect("writer")
    desk.seconds()
    for topic in ("hall/a/temp", "hall/a/rpm", "hall/b", "hall-2", "/x"):
        writer.publish(topic, b"1")
    for topic in ("hall", "hall/a/kept", "quiet/1", "quiet/2"):
        writer.publish(topic, b"1", retain=True)
    first = desk.below("", None, 10)
    assert [one.topic for one in first] == ["", "hall", "hall-2", "quiet"]
    assert [(one.leaf, one.deeper) for one in first] == [(False, True), (True, True), (True, False), (False, True)]
    assert [one.topic for one in desk.below("hall/", None, 10)] == ["hall/a", "hall/b"]
    assert [(one.topic, one.retained) for one in desk.below("hall/a/", None, 10)] == [
        ("hall/a/kept", True),
        ("hall/a/rpm", False),
        ("hall/a/temp", False),
    ]
    assert [one.topic for one in desk.below("", "hall", 1)] == ["hall-2"]
    assert [one.topic for one in desk.below("", "hall-2", 10)] == ["quiet"]
    assert [one.topic for one in desk.below("/", None, 10)] == ["/x"]
    assert desk.below("none/", None, 10) == []
    assert [one.topic for one in desk.containing(["HALL", "a/"], None, 10)] == [
        "hall/a/kept",
        "hall/a/rpm",
        "hall/a/temp",
    ]


def test_the_last_value_is_kept_of_what_is_asked_for() -> None:
    node = Node()
    desk = desk_of(node)
    writer = node.connect("writer")
    writer.publish("kept", b"old", retain=True)
    assert desk.last("other") is None
    retained = desk.last("kept")
    assert retained is not None
    assert (retained.source, retained.payload) == ("retained", b"old")
    writer.publish("kept", b"x" * 9000)
    watched = desk.last("kept")
    assert watched is not None
    assert (watched.source, watched.size, len(watched.payload)) == ("watched", 9000, 4096)
    for number in range(KEPT):
        desk.last(f"many/{number}")
    again = desk.last("kept")
    assert again is not None
    assert again.source == "retained"


def test_what_was_denied_or_sent_twice_is_not_counted() -> None:
    node = Node()
    desk = desk_of(node)
    writer = node.connect("writer")
    desk.seconds()
    packet = encode(Publish(b"t", b"x", 2, packet_id=7), writer.version)
    writer.wire.feed(packet)
    writer.wire.feed(packet)
    seconds = max(1.0, desk.seconds())
    assert [one.messages_per_second * seconds for one in desk.busiest("messages", 10)] == [1.0]


def test_the_api_answers_and_refuses_rubbish() -> None:
    node = Node()
    desk = desk_of(node)
    browser = make_browser(FakeView(), further=(TopicResources(desk),))
    assert browser.get("/api/v1/topics/top").json["items"] == []
    node.connect("writer").publish("a/b", b"1")
    (item,) = browser.get("/api/v1/topics/top?by=bytes&limit=5").json["items"]
    assert item["topic"] == "a/b"
    (level,) = browser.get("/api/v1/topics").json["items"]
    assert (level["topic"], level["deeper"], level["topics"]) == ("a", True, 1)
    assert [one["topic"] for one in browser.get("/api/v1/topics?prefix=a/").json["items"]] == ["a/b"]
    assert [one["topic"] for one in browser.get("/api/v1/topics?contains=B").json["items"]] == ["a/b"]
    assert browser.get("/api/v1/topics/a%2Fb/last").json["source"] is None
    node.connect("writer2").publish("a/b", b"2")
    found = browser.get("/api/v1/topics/a%2Fb/last").json
    assert (found["source"], found["payload"]) == ("watched", "2")
    for wrong in ("topics?prefix=a", "topics?prefix=%23/", "topics/top?by=x", "topics/%23/last", "topics?limit=0"):
        assert browser.get(f"/api/v1/{wrong}").status == 400, wrong
    assert {route.role.name for route in TopicResources(desk).routes} == {"OPERATOR"}


def test_nodes_are_added_up_and_a_page_ends_where_one_has_more() -> None:
    def level(names: str, after: str | None) -> dict[str, object]:
        items = [{**fields_of(Branch(name, 2, leaf=name == "b")), "messages_per_second": 1.5} for name in names]
        return {"limit": 3, "seconds": 5.0, "items": items, "after": after, "node": "n"}

    found = level_together([level("abx", "x"), level("bc", None)], {})
    assert [(one["topic"], one["messages_per_second"]) for one in found["items"]] == [
        ("a", 1.5),
        ("b", 3.0),
        ("c", 1.5),
    ]
    assert found["after"] == "c"
    assert level_together([level("ab", None), level("a", None)], {})["after"] is None
    busy = fields_of(BusyTopic("t", 2.0, 8.0, 0.0, ("a",), 1, elsewhere=False))
    other = {**busy, "publishers": ["b"], "elsewhere": True}
    answer = {"by": "messages", "limit": 5, "seconds": 9.0}
    (top,) = top_together([{**answer, "items": [busy]}, {**answer, "items": [other]}], {})["items"]
    assert (top["messages_per_second"], top["publishers"], top["receivers"]) == (4.0, ["a", "b"], 2)
    assert top["elsewhere"]
