"""Retained messages: counted, replaced, removed, and read in pages that survive changes."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from iot_mqtt.topics import RetainedIndex
from iot_mqtt.topics.retained import LOOK
from iot_mqtt.topics.seeking import next_candidate
from iot_mqtt.topics.sorted_topics import Effort, SortedTopics
from iot_mqtt.values import Message


def index_of(*topics: str) -> RetainedIndex:
    index = RetainedIndex()
    for topic in topics:
        assert index.set(topic.encode(), Message(topic.encode(), b"x")) is None
    return index


def names(messages: list[Message]) -> list[str]:
    return [message.topic.decode() for message in messages]


TREE = [
    "$SYS/uptime",
    "$",
    "/",
    "/a",
    "a",
    "a-b",
    "a-b/status",
    "a/",
    "a/run",
    "a/status",
    "a/status-old",
    "a/status/x",
    "a/temp",
    "a0/status",
    "b",
    "b/status",
    "b/status/x/y",
    "é/status",
]

# filter → what it finds, in topic order
READS = {
    "#": [topic for topic in TREE if topic[0] != "$"],
    "$SYS/#": ["$SYS/uptime"],
    "+": ["a", "a-b", "b"],
    "a": ["a"],
    "nothing": [],
    "nothing/#": [],
    "a/#": ["a", "a/", "a/run", "a/status", "a/status-old", "a/status/x", "a/temp"],
    "a/+": ["a/", "a/run", "a/status", "a/status-old", "a/temp"],
    "+/status": ["a-b/status", "a/status", "a0/status", "b/status", "é/status"],
    "+/status/#": ["a-b/status", "a/status", "a/status/x", "a0/status", "b/status", "b/status/x/y", "é/status"],
    "+/status/+": ["a/status/x"],
    "+/+/x": ["a/status/x"],
    "+/+/x/+": ["b/status/x/y"],
    "/+": ["/", "/a"],
    "/#": ["/", "/a"],
    "+/": ["/", "a/"],
    "$SYS/+": ["$SYS/uptime"],
    "$/#": ["$"],
    "a/status/#": ["a/status", "a/status/x"],
    "b/+/+/#": ["b/status/x/y"],
}


@pytest.mark.parametrize("filter", READS)
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_filter_finds_its_topics_in_order(filter: str, limit: int) -> None:
    """By pages of any size; [MQTT-4.7.2-1] holds for retained messages too."""
    index = index_of(*reversed(TREE))
    expected = sorted(READS[filter], key=str.encode)
    assert names(index.page(filter, None, 100)) == expected
    found: list[str] = []
    while page := index.page(filter, found[-1].encode() if found else None, limit):
        assert len(page) <= limit
        found += names(page)
    assert found == expected


def test_count_and_bytes_follow_every_change() -> None:
    """They are what quotas are made of; replacing counts the difference."""
    index = RetainedIndex()
    first, second = Message(b"a/b", b"12345", properties=b"pp"), Message(b"a/b", b"1")
    assert index.set(b"a/b", first) is None
    assert (index.count, index.bytes) == (1, 10)
    assert index.set(b"a/b", second) is first
    assert (index.count, index.bytes) == (1, 4)
    assert index.get(b"a/b") is second
    assert index.remove(b"a/b") is second
    assert index.remove(b"a/b") is None
    assert (index.count, index.bytes, index.get(b"a/b")) == (0, 0, None)


def test_setting_and_removing_shows_whether_or_not_it_was_sorted_in() -> None:
    """The order is lazy; what is read is not."""
    index = index_of("p/a", "p/b", "p/c")
    index.remove(b"p/a")
    assert names(index.page("p/+", None, 10)) == ["p/b", "p/c"]
    index.remove(b"p/b")
    index.set(b"p/a", Message(b"p/a", b"again"))
    index.set(b"p/c", Message(b"p/c", b"replaced"))
    assert [message.payload for message in index.page("p/#", None, 10)] == [b"again", b"replaced"]


def test_changes_between_pages_harm_no_reader() -> None:
    """What is removed is not seen, what is added behind is, and the last topic read may itself be gone."""
    index = index_of(*[f"p/{number:02}" for number in range(0, 20, 2)])
    page = index.scan("p/#", None, 4)
    assert names(page.messages) == ["p/00", "p/02", "p/04", "p/06"]
    for topic in (b"p/06", b"p/08", b"p/00"):
        index.remove(topic)
    for number in (1, 7, 11):
        topic = b"p/%02d" % number
        index.set(topic, Message(topic, b""))
    page = index.scan("p/#", page.after, 4)
    assert names(page.messages) == ["p/07", "p/10", "p/11", "p/12"]


def test_a_page_ends_with_its_effort_and_the_next_goes_on() -> None:
    """A turn must not take long because a filter passes over many topics between two hits."""
    index = index_of(*[f"{number:03}/{leaf}" for number in range(100) for leaf in ("a", "b")], "050/x")
    pages = []
    after: bytes | None = None
    while True:
        page = index.scan("+/x", after, 10, Effort(20 * LOOK))
        pages.append(page)
        after = page.after
        if after is None:
            break
    assert [names(page.messages) for page in pages if page.messages] == [["050/x"]]
    assert len(pages) > 5
    assert names(index.page("+/x", None, 10)) == ["050/x"]


def test_reading_seeks_past_what_cannot_match() -> None:
    """A thousand leaves beside each hit are passed over in one step."""
    index = index_of(*[f"{device}/{leaf:03}" for device in "abcdef" for leaf in range(1_000)])
    page = index.scan("+/500", None, 10, Effort(20 * LOOK))
    assert names(page.messages) == [f"{device}/500" for device in "abcdef"]
    assert page.after is None


@pytest.mark.parametrize("filter", ["+/+/x", "+/+/+/x/#", "r/+/+"])
def test_topics_that_are_not_deep_enough_are_hardly_looked_at(filter: str) -> None:
    """A chunk of them is passed over in one step, the neighbours of a deep one nearly as fast."""
    index = index_of(*[f"r/{number:05}" for number in range(20_000)], "r/00007/x/y")
    effort = Effort(100_000)
    assert index.scan(filter, None, 10, effort) == ([], None)
    assert effort.left > 100_000 - 1_200


def test_passing_over_topics_ends_with_the_effort_and_the_next_goes_on() -> None:
    """Also where one was deep, and was removed."""
    index = index_of(*[f"r/{number:05}" for number in range(20_000)], "r/00007/x", "r/15000/x")
    index.settle()
    index.remove(b"r/00007/x")
    after: bytes | None = None
    pages: list[list[str]] = []
    while not pages or after is not None:
        messages, after = index.scan("r/+/x", after, 10, Effort(5))
        pages.append(names(messages))
    assert [name for page in pages for name in page] == ["r/15000/x"]
    assert 3 < len(pages) < 10


def test_a_candidate_is_never_behind_a_match() -> None:
    """The byte before "/" is a valid character: siblings lie between a topic and its children."""
    assert next_candidate([b"+", b"x"], b"a") == b"a\0"
    assert next_candidate([b"a", b"x"], b"a") == b"a/"
    assert next_candidate([b"+", b"st", b"y"], b"a/st-a/y") == b"a/st/"
    assert next_candidate([b"+", b"st"], b"a/st-a") == b"a0"
    assert next_candidate([b"+", b"b"], b"a/c") == b"a0"
    assert next_candidate([b"+", b"b"], b"a/a/q") == b"a/b"
    assert next_candidate([b"+"], b"a/c") == b"a0"
    assert next_candidate([b"+"], b"$SYS") == b"%"
    assert next_candidate([b"b", b"+"], b"c/x") == b""
    assert next_candidate([b"+", b"#"], b"c/x") is None


def test_sorted_topics_stay_sorted_through_splits_and_removals() -> None:
    """Chunks split as they grow and vanish when empty."""
    topics = SortedTopics()
    assert topics.ceiling(b"a", 0, Effort(1)) is None
    assert topics.run(b"", None, 10) == []
    numbers = [number * 7_919 % 10_007 for number in range(10_007)]
    topics.add_all([b"%05d" % number for number in numbers[:5_000]])
    for number in numbers[5_000:]:
        topics.add_all([b"%05d" % number])
    assert len(topics) == 10_007
    assert topics.run(b"", None, 20_000) == [b"%05d" % number for number in range(10_007)]
    assert topics.run(b"02000", b"02003", 20_000) == [b"02000", b"02001", b"02002"]
    assert topics.run(b"02000", b"08000", 2) == [b"02000", b"02001"]
    for number in numbers[:9_000]:
        topics.remove(b"%05d" % number)
    left = sorted(numbers[9_000:])
    assert topics.run(b"", None, 20_000) == [b"%05d" % number for number in left]
    for number in range(left[-1] + 1):
        # Also where the last of a chunk was removed, and the answer begins the next one.
        assert topics.ceiling(b"%05d" % number, 0, Effort(1)) == b"%05d" % left[bisect_left(left, number)]
    assert topics.ceiling(b"99999", 0, Effort(1)) is None
    for number in left:
        topics.remove(b"%05d" % number)
    assert len(topics) == 0
    assert topics.ceiling(b"", 0, Effort(1)) is None
