"""Topics against the simplest thing that could be right: naive matchers, a list of subscriptions, a dict."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from iot_mqtt.topics import (
    RetainedIndex,
    RoundRobin,
    Routes,
    SharedGroup,
    covers,
    matches,
    parse_shared,
    validate_filter,
    validate_topic,
)
from iot_mqtt.topics.retained import LOOK
from iot_mqtt.topics.route import Route
from iot_mqtt.topics.sorted_topics import Effort, SortedTopics
from iot_mqtt.topics.trie import FilterTrie
from iot_mqtt.values import Message, Subscription
from tests.unit.topics.receivers import Client

# Few and treacherous levels: empty ones, "$", and neighbours of "/" in byte order.
LEVELS = st.sampled_from(["", "a", "b", "a-", "a0", "$x", "é"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def plain_filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.one_of(LEVELS, st.just("+")), max_size=4))
    if not levels or draw(st.booleans()):
        levels.append(draw(st.sampled_from(["#", "+", "a"])))
    return "/".join(levels) or "#"


FILTERS = plain_filters()
SHARED_FILTERS = st.builds("$share/{}/{}".format, st.sampled_from(["g", "h"]), FILTERS)


def naive(filter: str, topic: str) -> bool:
    """The specification's prose as a regular expression."""
    if topic.startswith("$") and re.match("[+#]", filter):
        return False
    pattern = re.escape(filter).replace(r"\+", "[^/]*").replace(r"/\#", "(/.*)?").replace(r"\#", ".*")
    return re.fullmatch(pattern, topic, re.DOTALL) is not None


@given(FILTERS, TOPICS)
@settings(max_examples=500)
def test_matching_equals_a_naive_matcher(filter: str, topic: str) -> None:
    """The simple matcher, for any filter and topic."""
    validate_filter(filter)
    validate_topic(topic)
    assert matches(filter, topic) == naive(filter, topic)


@given(st.sets(FILTERS, max_size=20), TOPICS)
@settings(max_examples=300)
def test_the_trie_finds_what_a_loop_over_all_filters_finds(filters: set[str], topic: str) -> None:
    """Each once."""
    trie: FilterTrie[str] = FilterTrie()
    for filter in filters:
        trie.put(filter, filter)
    assert sorted(trie.match(topic)) == sorted(filter for filter in filters if naive(filter, topic))
    assert dict(trie.items()) == {filter: filter for filter in filters}


#: Of few levels, so that long chains have much in common, and branch off late.
DEEP_LEVELS = st.sampled_from(["a", "a", "+", "+", "b", "", "$x"])
DEEP_FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(DEEP_LEVELS, min_size=1, max_size=9),
    st.sampled_from([[], [], ["#"]]),
).filter(bool)
DEEP_TOPICS = st.lists(st.sampled_from(["a", "a", "b", "", "$x"]), min_size=1, max_size=10).map("/".join).filter(bool)


class TrieModel(RuleBasedStateMachine):
    """A trie against a dict of filters; what it matches against the specification's prose."""

    def __init__(self) -> None:
        super().__init__()
        self.trie: FilterTrie[int] = FilterTrie()
        self.model: dict[str, int] = {}

    @rule(filters=st.lists(DEEP_FILTERS, min_size=1, max_size=6), value=st.integers())
    def put(self, filters: list[str], value: int) -> None:
        for filter in filters:
            self.trie.put(filter, value)
            self.model[filter] = value

    @rule(filter=DEEP_FILTERS)
    def remove(self, filter: str) -> None:
        assert self.trie.get(filter) == self.model.get(filter)
        assert self.trie.remove(filter) == (self.model.pop(filter, None) is not None)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove_known(self, data: st.DataObject) -> None:
        filter = data.draw(st.sampled_from(sorted(self.model)))
        assert self.trie.remove(filter)
        del self.model[filter]

    @rule(topic=DEEP_TOPICS)
    def match(self, topic: str) -> None:
        wanted = sorted(value for filter, value in self.model.items() if naive(filter, topic))
        assert sorted(self.trie.match(topic)) == wanted

    @invariant()
    def no_node_is_in_vain(self) -> None:
        """Each has a value or two branches; so nothing is left of what is gone."""
        pending = list((self.trie._root.children or {}).values())
        while pending:
            node = pending.pop()
            below = list((node.children or {}).values())
            assert node.hash is not None or node.here is not None or len(below) > 1
            pending += below

    @invariant()
    def all_are_there(self) -> None:
        assert dict(self.trie.items()) == self.model
        assert self.trie.count == len(self.model)

    def teardown(self) -> None:
        for filter in self.model:
            assert self.trie.remove(filter)
        assert self.trie._root.children is None


TestTrieModel = TrieModel.TestCase
TestTrieModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@given(FILTERS, FILTERS, TOPICS)
@settings(max_examples=500)
def test_what_an_inner_filter_matches_its_outer_one_matches(outer: str, inner: str, topic: str) -> None:
    """``covers`` never says yes wrongly."""
    assert covers(inner, inner)
    if covers(outer, inner) and matches(inner, topic):
        assert matches(outer, topic)


CLIENTS = [Client(f"c{number}") for number in range(4)]
SOMEBODY = st.sampled_from(CLIENTS)


class RoutesModel(RuleBasedStateMachine):
    """Routes with exact dict, trie, groups and a tiny memo, against a dict of subscriptions in order."""

    def __init__(self) -> None:
        super().__init__()
        self.routes: Routes[Client] = Routes(memo_limit=8)
        self.model: dict[tuple[Client, str], Subscription] = {}

    @rule(
        client=SOMEBODY,
        subscription=st.builds(
            Subscription,
            filter=st.one_of(FILTERS, SHARED_FILTERS),
            qos=st.integers(0, 2),
            no_local=st.booleans(),
            retain_as_published=st.booleans(),
            identifier=st.one_of(st.none(), st.integers(1, 9)),
        ),
    )
    def subscribe(self, client: Client, subscription: Subscription) -> None:
        key = client, subscription.filter
        assert self.routes.subscribe(client, subscription) == (key not in self.model)
        self.model[key] = subscription

    @rule(client=SOMEBODY, filter=st.one_of(FILTERS, SHARED_FILTERS))
    def unsubscribe(self, client: Client, filter: str) -> None:
        assert self.routes.unsubscribe(client, filter) == (self.model.pop((client, filter), None) is not None)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def unsubscribe_known(self, data: st.DataObject) -> None:
        client, filter = data.draw(st.sampled_from(sorted(self.model, key=lambda key: (key[0].client_id, key[1]))))
        assert self.routes.unsubscribe(client, filter)
        del self.model[client, filter]

    @rule(client=SOMEBODY, extra=st.lists(FILTERS, max_size=2))
    def drop(self, client: Client, extra: list[str]) -> None:
        self.routes.drop(client, [*extra, *(filter for owner, filter in self.model if owner is client)])
        self.model = {key: value for key, value in self.model.items() if key[0] is not client}

    @rule(topic=TOPICS)
    def match(self, topic: str) -> None:
        """Twice, since the second answer comes from the memo."""
        for _ in range(2):
            match = self.routes.match(topic.encode())
            plain = {route.receiver: route for route in match.plain}
            assert len(plain) == len(match.plain)
            expected, groups = self.expected(topic)
            assert plain.keys() == expected.keys()
            for client, parts in expected.items():
                self.check_route(plain[client], parts)
            found = {shared.group.full_filter: shared.group.members for shared in match.shared}
            assert len(found) == len(match.shared)
            assert found == groups

    def expected(self, topic: str) -> tuple[dict[Client, list[Subscription]], dict[str, dict[Client, Subscription]]]:
        plain: dict[Client, list[Subscription]] = {}
        groups: dict[str, dict[Client, Subscription]] = {}
        for (client, filter), subscription in self.model.items():
            shared = parse_shared(filter)
            if not naive(filter if shared is None else shared[1], topic):
                continue
            if shared is None:
                plain.setdefault(client, []).append(subscription)
            else:
                groups.setdefault(filter, {})[client] = subscription
        return plain, groups

    def check_route(self, route: Route[Client], parts: list[Subscription]) -> None:
        assert route.qos == max(part.qos for part in parts)
        assert route.retain_as_published == any(part.retain_as_published for part in parts)
        assert route.no_local == all(part.no_local for part in parts)
        assert route.identifiers == tuple(part.identifier for part in parts if part.identifier is not None)
        simple = len(parts) == 1 and not parts[0].no_local
        assert route.parts == (() if simple else tuple(parts))

    @invariant()
    def counts_agree(self) -> None:
        filters = {filter for _, filter in self.model}
        assert sorted(self.routes.filters()) == sorted(filters)
        assert self.routes.subscription_count == len(self.model)
        assert len(self.routes._memo) <= 8
        assert self.routes._memo._weight == sum(match.weight for match in self.routes._memo.values())


TestRoutesModel = RoutesModel.TestCase
TestRoutesModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class RetainedModel(RuleBasedStateMachine):
    """The index against a dict, with one reader that pages slowly while everything changes."""

    def __init__(self) -> None:
        super().__init__()
        self.index = RetainedIndex()
        self.model: dict[str, Message] = {}
        self.begin("#")

    def begin(self, filter: str) -> None:
        self.filter = filter
        self.after: bytes | None = None
        self.reading = True
        self.seen: list[str] = []
        # What was there all the time the reader read, and what was there at some time.
        self.always = set(self.model)
        self.ever = set(self.model)

    @rule(topic=TOPICS, payload=st.binary(max_size=3))
    def set(self, topic: str, payload: bytes) -> None:
        message = Message(topic.encode(), payload)
        assert self.index.set(topic.encode(), message) is self.model.get(topic)
        self.model[topic] = message
        self.ever.add(topic)

    @rule(topic=TOPICS)
    def remove(self, topic: str) -> None:
        assert self.index.remove(topic.encode()) is self.model.pop(topic, None)
        self.always.discard(topic)

    @rule(filter=FILTERS)
    def start_reading(self, filter: str) -> None:
        self.begin(filter)

    @precondition(lambda self: self.reading)
    @rule(limit=st.integers(1, 3), effort=st.integers(1, 4 * LOOK))
    def read_page(self, limit: int, effort: int) -> None:
        page = self.index.scan(self.filter, self.after, limit, Effort(effort))
        assert len(page.messages) <= limit
        for message in page.messages:
            assert self.model[message.topic.decode()] is message
            self.seen.append(message.topic.decode())
        self.after = page.after
        if page.after is None:
            self.reading = False
            self.check_what_was_read()

    def check_what_was_read(self) -> None:
        """In order, nothing twice, all that was there throughout, nothing that never was."""
        assert self.seen == sorted(set(self.seen), key=str.encode)
        assert {topic for topic in self.always if naive(self.filter, topic)} <= set(self.seen)
        assert set(self.seen) <= {topic for topic in self.ever if naive(self.filter, topic)}

    @rule(filter=FILTERS, limit=st.integers(1, 5))
    def pages_equal_naive_filtering(self, filter: str, limit: int) -> None:
        wanted = sorted((topic for topic in self.model if naive(filter, topic)), key=str.encode)
        found = [m.topic.decode() for m in self.index.page(filter, None, len(self.model) + 1)]
        assert found == wanted
        middle = wanted[len(wanted) // 2].encode() if wanted else None
        rest = self.index.page(filter, middle, limit)
        assert [m.topic.decode() for m in rest] == (wanted[len(wanted) // 2 + 1 :][:limit] if wanted else [])

    @invariant()
    def counts_agree(self) -> None:
        assert self.index.count == len(self.model)
        assert self.index.bytes == sum(message.size for message in self.model.values())


TestRetainedModel = RetainedModel.TestCase
TestRetainedModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@given(st.lists(st.tuples(st.booleans(), st.sets(st.binary(min_size=1, max_size=2), max_size=40)), max_size=12))
def test_sorted_topics_equal_a_sorted_set(steps: list[tuple[bool, set[bytes]]]) -> None:
    """However additions and removals are mixed."""
    topics, model = SortedTopics(), set[bytes]()
    for add, chosen in steps:
        if add:
            topics.add_all(chosen - model)
            model |= chosen
        else:
            for topic in chosen & model:
                topics.remove(topic)
            model -= chosen
        assert topics.run(b"", None, 10_000) == sorted(model)
        assert topics.run(b"a", b"z", 5) == sorted(topic for topic in model if b"a" <= topic < b"z")[:5]
        assert topics.ceiling(b"m", 0, Effort(1)) == min((topic for topic in model if topic >= b"m"), default=None)


@given(st.integers(1, 9), st.lists(st.integers(1, 30), max_size=40))
def test_round_robin_is_fair_to_one_at_every_moment(members: int, runs: list[int]) -> None:
    """Runs of any length, for any number of members that are all available."""
    group: SharedGroup[Client] = SharedGroup("g", "a", RoundRobin())
    for number in range(members):
        group.join(Route(Client(f"c{number}"), Subscription("$share/g/a")))
    seen: Counter[Client] = Counter(dict.fromkeys(group.members, 0))
    for count in runs:
        for client, share in group.pick_many(count, "p", b"a", lambda _: True):
            seen[client] += share
        assert max(seen.values()) - min(seen.values()) <= 1
    assert seen.total() == sum(runs)
