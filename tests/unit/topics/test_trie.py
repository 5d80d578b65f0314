"""The trie keeps a value per filter and leaves nothing behind."""

from __future__ import annotations

import pytest

from iot_mqtt.topics.trie import FilterTrie

FILTERS = ["#", "+", "a", "a/#", "a/+", "a/b", "+/b", "+/+/#", "/", "$SYS/#", "a/b/c/d/e"]


def full_trie() -> FilterTrie[str]:
    trie: FilterTrie[str] = FilterTrie()
    for filter in FILTERS:
        trie.put(filter, filter.upper())
    return trie


def test_every_filter_is_a_key_of_its_own() -> None:
    """Wildcards are looked up as they are written, not matched."""
    trie = full_trie()
    assert len(trie) == len(FILTERS)
    assert {filter: trie.get(filter) for filter in FILTERS} == {filter: filter.upper() for filter in FILTERS}
    assert trie.get("b") is trie.get("a/b/c") is trie.get("x/#") is trie.get("a/+/c") is trie.get("a/b/#") is None


def test_items_gives_back_what_was_put() -> None:
    """Filters are spelt out again from the path."""
    assert dict(full_trie().items()) == {filter: filter.upper() for filter in FILTERS}


def test_putting_again_replaces_the_value() -> None:
    """And does not count twice."""
    trie = full_trie()
    trie.put("a/#", "new")
    trie.put("a", "newer")
    assert (trie.get("a/#"), trie.get("a"), len(trie)) == ("new", "newer", len(FILTERS))


def test_removing_leaves_the_others_and_says_whether_there_was_one() -> None:
    """A filter that only lies on the path of another is not there."""
    trie = full_trie()
    assert trie.remove("a/b")
    assert not trie.remove("a/b")
    assert not trie.remove("a/b/c")
    assert not trie.remove("x/#")
    assert not trie.remove("+/b/#")
    assert trie.get("a/b/c/d/e") == "A/B/C/D/E"
    assert len(trie) == len(FILTERS) - 1


def test_an_emptied_trie_holds_no_nodes() -> None:
    """Or subscription churn would leak."""
    trie = full_trie()
    for filter in FILTERS:
        assert trie.remove(filter)
    assert len(trie) == 0
    assert trie._root.children is None
    assert trie._root.hash is None


def test_all_matching_values_are_found_once() -> None:
    """Several filters may reach the same topic by different paths."""
    assert sorted(full_trie().match("a/b")) == sorted(["#", "A/#", "A/+", "A/B", "+/B", "+/+/#"])
    assert full_trie().match("$SYS/x") == ["$SYS/#"]


def test_a_topic_of_very_many_levels_costs_no_stack() -> None:
    """The walk is a loop: depth comes from the peer."""
    trie: FilterTrie[str] = FilterTrie()
    deep = "/".join(["x"] * 30_000)
    trie.put(deep, "deep")
    trie.put("#", "all")
    assert sorted(trie.match(deep)) == ["all", "deep"]
    assert trie.remove(deep)


def nodes(trie: FilterTrie[str]) -> int:
    """Without the root."""
    pending, seen = [trie._root], 0
    while pending:
        below = pending.pop().children or {}
        seen += len(below)
        pending += below.values()
    return seen


def test_a_chain_of_levels_is_one_node() -> None:
    """Until a filter ends or branches off in it; and again when that is gone."""
    trie: FilterTrie[str] = FilterTrie()
    deep = "/".join(["a", "+", "+", "b", "+"] * 20)
    trie.put(deep, "deep")
    assert nodes(trie) == 1
    for other in ("a/+/#", "a/+/+/b", "a/+/+/c", "a/x", "+", deep + "/c"):
        before = nodes(trie)
        trie.put(other, "other")
        assert nodes(trie) <= before + 2
        assert (trie.get(deep), trie.get(other)) == ("deep", "other")
    for other in ("a/+/#", deep + "/c", "+", "a/x", "a/+/+/b", "a/+/+/c"):
        assert trie.remove(other)
    assert nodes(trie) == 1
    assert dict(trie.items()) == {deep: "deep"}


#: Filters of the attack: all combinations of so many levels, and a tail of many.
BITS, TAIL = 10, 100


@pytest.mark.parametrize(
    ("last", "topic", "most"),
    [
        ("+", ["z"] * (TAIL - 1), 10),
        ("+", ["z"] * (TAIL + 1), 10),
        ("b", ["z"] * (TAIL - 1), 10),
        # Each filter has to be looked at: nodes of two branches each, and one level of each tail.
        ("b", ["z"] * TAIL, 2 * 2 * 2**BITS + 2**BITS),
    ],
    ids=["too short", "too long", "too short, a last level", "another last level"],
)
def test_many_deep_filters_that_do_not_match_cost_a_lookup_little(last: str, topic: list[str], most: int) -> None:
    """Not their number times their levels: one small PUBLISH would stop everybody for seconds."""
    trie: FilterTrie[str] = FilterTrie()
    for number in range(2**BITS):
        branch = ["+" if number >> bit & 1 else "a" for bit in range(BITS)]
        filter = "/".join([*branch, *["+"] * (TAIL - 1), last])
        trie.put(filter, filter)
    assert trie.match("/".join(["a"] * BITS + topic)) == []
    assert trie.looked <= most
    assert len(trie.match("/".join(["a"] * BITS + ["z"] * (TAIL - 1) + ["b"]))) == 2**BITS


def test_what_is_compared_counts() -> None:
    """Long texts are not free."""
    trie: FilterTrie[str] = FilterTrie()
    trie.put("/".join(["a"] * 100) + "/+", "long")
    trie.match("/".join(["a"] * 99) + "/b/c")
    assert trie.looked > 100 // 4
