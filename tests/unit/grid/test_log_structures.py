"""Structures: every topic goes to a stream that every filter that matches it will look into, and few others do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.grid.log.generation import Generation, Stream
from iot_mqtt.grid.log.selection import Selection
from iot_mqtt.grid.log.structures import (
    CATCH_ALL,
    MAX_CHILDREN,
    MAX_STRUCTURES,
    Learner,
    Needed,
    Placing,
    Structures,
    needed,
)
from iot_mqtt.topics import matches

LEVELS = st.sampled_from(["", "a", "b", "c", "$SYS", "ü"]) | st.integers(0, 40).map(str)
TOPICS = st.lists(LEVELS, min_size=1, max_size=13).map("/".join)
#: Some of the million topics of a plant.
AREAS = range(0, 1_000_000, 53)
FILTER_LEVELS = st.lists(LEVELS | st.just("+"), min_size=1, max_size=13)


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(FILTER_LEVELS)
    if draw(st.booleans()):
        levels[-1] = "#"
    return "/".join(levels)


@st.composite
def filters_of(draw: st.DrawFn, topic: str) -> str:
    """A filter made of a topic, so that many match."""
    levels = [draw(st.sampled_from([level, level, "+"])) for level in topic.split("/")]
    keep = draw(st.integers(0, len(levels)))
    return "/".join([*levels[:keep], "#"]) if draw(st.booleans()) else "/".join(levels)


def admits(filter: str, placing: Placing) -> bool:
    wanted = needed(filter, placing.structure)
    return wanted is not None and placing.bucket & wanted.mask == wanted.value


@given(st.data(), st.lists(TOPICS, max_size=60), TOPICS)
def test_a_filter_that_matches_a_topic_admits_its_stream(data: st.DataObject, before: list[str], topic: str) -> None:
    """Whatever was learned before."""
    learner = Learner()
    for levels in data.draw(st.lists(st.integers(1, 13), max_size=3)):
        learner.remember("/".join("+" * levels))
    for other in before:
        learner.place(other.encode())
    placing = learner.place(topic.encode())
    assert 0 <= placing.bucket < placing.buckets
    assert matches(placing.structure, topic) or topic.startswith("$")
    for filter in (data.draw(filters()), data.draw(filters_of(topic))):
        if matches(filter, topic):
            assert admits(filter, placing)
            assert admits(filter, Placing(CATCH_ALL, 0, 1))


@given(st.data(), st.lists(TOPICS, max_size=200))
def test_structures_that_a_filter_may_need_are_found(data: st.DataObject, topics: list[str]) -> None:
    """All of them, each once; without wildcards that is few of many."""
    learner, structures = Learner(), Structures()
    there = {learner.place(topic.encode()).structure for topic in topics} | {"m/+/v", "m/7/v", "+"}
    if data.draw(st.booleans()):
        there.add(CATCH_ALL)
    for structure in there:
        structures.add(structure)
    for filter in (data.draw(filters()), data.draw(filters_of(data.draw(st.sampled_from(["m/7/v", *topics]))))):
        found = structures.of(filter)
        assert len(found) == len(set(found))
        assert there >= set(found) >= {structure for structure in there if needed(filter, structure) is not None}
    for number in range(1000):
        structures.add(f"n/{number}/v")
    assert {structure for structure in structures.of("n/8/v") if structure.startswith("n/")} == {"n/8/v"}


@given(st.lists(TOPICS, max_size=60), TOPICS)
def test_a_topic_has_one_place_at_a_time(before: list[str], topic: str) -> None:
    """Until the learner changes its mind, and it says when."""
    learner = Learner()
    for other in before:
        learner.place(other.encode())
    learner.place(topic.encode())
    version = learner.version
    assert learner.place(topic.encode()) == learner.place(topic.encode())
    assert learner.version == version


@given(st.lists(TOPICS, max_size=60))
def test_what_is_remembered_is_what_was_learned(topics: list[str]) -> None:
    """A start that takes over the structures places topics as before."""
    learner = Learner()
    version = -1
    while version != learner.version:
        version = learner.version
        for topic in topics:
            learner.place(topic.encode())
    placings = {topic: learner.place(topic.encode()) for topic in topics}
    again = Learner()
    for placing in placings.values():
        again.remember(placing.structure)
    assert {topic: again.place(topic.encode()) for topic in topics} == placings


def test_a_level_with_many_values_is_variable() -> None:
    """The topics that come afterwards share a structure, spread over its buckets."""
    learner = Learner()
    structures = [learner.place(b"m/%d/v" % number).structure for number in range(1000)]
    assert structures[:MAX_CHILDREN] == [f"m/{number}/v" for number in range(MAX_CHILDREN)]
    assert set(structures[MAX_CHILDREN:]) == {"m/+/v"}
    assert learner.place(b"m/0/v").structure == "m/+/v"
    buckets = {learner.place(b"m/%d/v" % number).bucket for number in range(1000)}
    assert len(buckets) > 500
    assert learner.place(b"other/7").structure == "other/7"


def test_structures_are_few_however_many_levels_differ_a_little() -> None:
    """Ten values in each of six levels are no million structures."""
    learner = Learner()
    rounds = []
    for _ in range(2):
        places = [
            learner.place(b"/".join(b"%d" % (number // 10**depth % 10) for depth in range(6))) for number in AREAS
        ]
        rounds.append({place.structure for place in places})
    # While it learned, and ever after.
    assert len(rounds[0]) <= 8 * MAX_STRUCTURES
    assert len(rounds[1]) <= MAX_STRUCTURES


def test_deep_topics_are_learned() -> None:
    """As many levels as a topic may have, thousands of them."""
    learner = Learner()
    for number in range(3000):
        topic = b"/".join(b"%d" % (number * depth % 50) for depth in range(1, 129))
        assert 0 <= learner.place(topic).bucket < 1024


@pytest.mark.parametrize(
    ("filter", "structure", "expected"),
    [
        ("a/b", "a/b", Needed(0, 0)),
        ("a/c", "a/b", None),
        ("a", "a/b", None),
        ("a/b/c", "a/b", None),
        ("a/#", "a", Needed(0, 0)),
        ("a/b/#", "a", None),
        ("#", "$SYS/x", None),
        ("+/x", "$SYS/x", None),
        ("$SYS/#", "$SYS/x", Needed(0, 0)),
        ("+", "+", Needed(0, 0)),
        ("a/+/v", "a/+/v", Needed(0, 0)),
        ("a/7/v", "a/+/v", Needed(0x3FF, 0x282)),
        ("a/7/#", "a/+/v", Needed(0x3FF, 0x282)),
        ("7/+", "+/+", Needed(0x3E0, 0x040)),
        ("+/7", "+/+", Needed(0x01F, 0x002)),
        ("+/7/+", "+/+/+", Needed(0b0000111000, 0b0000010000)),
        ("x/#", "#", Needed(0, 0)),
    ],
)
def test_what_a_filter_needs(filter: str, structure: str, expected: Needed | None) -> None:
    """Frozen: streams on disk were filled by it."""
    assert needed(filter, structure) == expected


def test_buckets_are_frozen() -> None:
    """The hash is the one by which streams on disk were filled."""
    learner = Learner()
    learner.remember("a/+/v")
    learner.remember("+/+")
    learner.remember("+/+/+")
    assert learner.place(b"x/7/v") == ("+/+/+", 0b0011_010_100, 1024)
    assert learner.place(b"x/7") == ("+/+", 0b00011_00010, 1024)


@given(st.data(), st.lists(TOPICS, min_size=1, max_size=80))
def test_the_streams_of_a_selection_are_those_that_it_admits(data: st.DataObject, topics: list[str]) -> None:
    """Found by structure and bucket, or, as more come, one by one."""
    generation, learner = Generation(1, 0, "#", 0.0, 0), Learner()
    wanted = data.draw(st.lists(filters() | filters_of(topics[0]), min_size=1, max_size=4))
    growing = Selection(wanted)
    for number, topic in enumerate(topics):
        generation.add(Stream(number, generation, 0, learner.place(topic.encode()), 0))
        growing.streams(generation)
    fresh = Selection(wanted)
    admitted = {stream for stream in generation.in_order if fresh.admits(stream)}
    assert fresh.streams(generation).keys() == growing.streams(generation).keys() == admitted
