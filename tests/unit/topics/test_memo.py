"""The memo is bounded in entries and in memory, and forgets no more than it must."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.topics.match import Match
from iot_mqtt.topics.memo import Memo
from iot_mqtt.topics.route import Route
from iot_mqtt.values import Subscription
from tests.unit.topics.receivers import Client


def counting(limit: int, size: Callable[[bytes], int] = lambda _: 0) -> tuple[Memo[Client], list[bytes]]:
    asked: list[bytes] = []
    route = Route(Client(), Subscription("a"))

    def find(topic: bytes) -> Match[Client]:
        asked.append(topic)
        return Match((route,) * size(topic))

    return Memo(find, limit), asked


def test_a_topic_is_looked_up_once() -> None:
    """Also one that nobody wants."""
    memo, asked = counting(10)
    assert memo[b"a"] is memo[b"a"]
    assert asked == [b"a"]


def test_topics_without_end_do_not_grow_it() -> None:
    """The limit holds, and the newest topics are the ones that are kept."""
    memo, _ = counting(100)
    for number in range(10_000):
        assert memo[b"%d" % number] is not None
        assert len(memo) <= 100
    assert b"9999" in memo
    assert len(memo) > 90
    assert memo._weight == sum(match.weight for match in memo.values())


def test_heavy_matches_are_bounded_by_their_weight() -> None:
    """A thousand topics with a thousand receivers each must not cost a million slots."""
    memo, _ = counting(100, lambda _: 1_000)
    for number in range(50):
        assert memo[b"%d" % number].weight == 1_001
    assert len(memo) == 6
    assert memo._weight == 6 * 1_001


def test_a_match_beyond_the_whole_bound_is_found_but_not_kept() -> None:
    """And does not push the others out."""
    memo, _ = counting(10, lambda topic: 10_000 if topic == b"huge" else 1)
    assert memo[b"a"].weight == 2
    assert memo[b"huge"].weight == 10_001
    assert list(memo) == [b"a"]


def test_very_long_topics_are_not_kept() -> None:
    """65,536 topics of 64 KB would be 4 GB of keys."""
    memo, _ = counting(10)
    assert memo[b"x" * 10_000] is not None
    assert not memo


def test_a_wildcard_change_forgets_only_what_begins_with_its_prefix() -> None:
    """Several filters at once take one look through the memo."""
    memo, _ = counting(100)
    for topic in (b"a/1", b"a", b"ab", b"b/1", b"c/1", b"d"):
        assert memo[topic] is not None
    memo.forget_prefixes([b"a/1", b"c"])
    assert sorted(memo) == [b"a", b"ab", b"b/1", b"d"]
    memo.forget_prefixes([])
    assert len(memo) == 4
    memo.forget_prefixes([b""])
    assert not memo
    assert memo._weight == 0


def test_a_storm_of_wildcard_changes_ends_in_clearing_it() -> None:
    """Looking through a full memo for every change would cost more than finding its matches again."""
    memo, _ = counting(1_000)
    for number in range(1_000):
        assert memo[b"t/%d" % number] is not None
    looks = 0
    while memo:
        memo.forget_prefixes([b"other"])
        looks += 1
    assert 10 < looks < 100
