"""Rights never reach further than their rules: a naive matcher says so, topic by topic."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from iot_mqtt.auth.acl import Rule, decide, parse_rules
from iot_mqtt.auth.names import NameRule
from iot_mqtt.auth.rights import RulePermissions
from iot_mqtt.ports.access import ALL_FORMS, OF_NAMES, Action, Principal, form_of
from iot_mqtt.topics.filters import covers, overlaps

# Few names, so that filters and topics meet; "$" both where it is special and where it is not; empty levels.
NAMES = st.sampled_from(["a", "b", "", "$S", "%c", "%u"])
TOPICS = st.lists(st.sampled_from(["a", "b", "", "$S"]), min_size=1, max_size=4).map("/".join).filter(bool)


@st.composite
def filters(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> str:
    """Valid filters of up to four levels."""
    levels = draw(st.lists(st.one_of(names, st.just("+")), max_size=3))
    last = draw(st.one_of(names, st.sampled_from("+#")))
    text = "/".join([*levels, last])
    assume(text)
    return text


PLAIN = filters(st.sampled_from(["a", "b", "", "$S"]))


def naive(filter: str, topic: str) -> bool:
    """Section 4.7 of the specification, word by word and without regard to speed."""
    if topic.startswith("$") and filter[0] in "+#":
        return False

    def rest(wanted: list[str], levels: list[str]) -> bool:
        match wanted, levels:
            case ["#"], _:
                return True
            case [], []:
                return True
            case [want, *more], [level, *others]:
                return want in ("+", level) and rest(more, others)
        return False

    return rest(filter.split("/"), topic.split("/"))


@given(PLAIN, PLAIN, TOPICS)
def test_a_covering_filter_matches_all_that_the_covered_one_does(outer: str, inner: str, topic: str) -> None:
    """Soundness of ``covers``: no subscription that it lets pass brings a topic that the rule does not."""
    if covers(outer, inner) and naive(inner, topic):
        assert naive(outer, topic)


@given(PLAIN, PLAIN, TOPICS)
def test_filters_that_share_a_topic_overlap(one: str, other: str, topic: str) -> None:
    """Soundness of a deny: no subscription that passes it brings a denied topic."""
    assert overlaps(one, other) == overlaps(other, one)
    if naive(one, topic) and naive(other, topic):
        assert overlaps(one, other)


@example("+", "/#")  # they would share the topic without a character, which there is not
@given(PLAIN, PLAIN)
def test_filters_that_overlap_share_a_topic(one: str, other: str) -> None:
    """A deny stops nothing that it does not meet: there is always a witness."""
    if overlaps(one, other):
        witness = _common(one.split("/"), other.split("/"))
        assert naive(one, witness)
        assert naive(other, witness)


def _common(one: list[str], other: list[str]) -> str:
    levels = []
    for place in range(max(len(one), len(other))):
        both = [side[place] for side in (one, other) if place < len(side)]
        if len(both) == 1 and both[0] == "#":
            break
        fixed = [level for level in both if level not in "+#" or level == ""]
        levels.append(fixed[0] if fixed else "w")
    return "/".join(levels) or "/"


RULES = st.lists(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["allow", "deny"]),
        st.sampled_from(["publish", "subscribe", "all"]),
        filters(),
    ),
    max_size=5,
)
NASTY = st.text(st.sampled_from("ab+#/$%"), max_size=4)
PRINCIPALS = st.builds(Principal, NASTY, st.none() | NASTY, anonymous=st.booleans())


@given(RULES, PRINCIPALS, PLAIN, TOPICS)
def test_a_granted_subscription_brings_only_topics_that_may_be_read(
    lines: list[str], who: Principal, filter: str, topic: str
) -> None:
    """So the broker may ask at SUBSCRIBE alone, and need not ask again for each message."""
    rules = parse_rules("\n".join(["[all]", *lines]), "acl").of(who)
    if decide(rules, who, Action.SUBSCRIBE, filter) and naive(filter, topic):
        assert decide(rules, who, Action.READ, topic)


@given(filters(), PRINCIPALS, TOPICS)
def test_no_name_widens_an_allow_rule(filter: str, who: Principal, topic: str) -> None:
    """Whatever a client calls itself: what it may do fits the rule with ``+`` in the names' places."""
    rule = Rule(allow=True, actions=frozenset(Action), filter=filter)
    widest = "/".join("+" if level in ("%c", "%u") else level for level in filter.split("/"))
    if rule.decides(who, Action.PUBLISH, topic):
        assert naive(widest, topic)


@given(st.text(st.sampled_from("ab*?[]!-"), max_size=4), st.text(st.sampled_from("ab*?[]!-"), max_size=6))
def test_no_user_name_widens_a_rule_about_names(user: str, name: str) -> None:
    """Whatever a user is called: ``%u`` is that, sign for sign."""
    rule = NameRule(allow=True, action=Action.CLIENT, pattern="%u-x")
    assert rule.fits(Principal("c", user), name) == (bool(user) and name == f"{user}-x")
    assert rule.fits(Principal("c", user), f"{user}-x") == bool(user)


WORDED = st.lists(
    st.one_of(
        st.builds(
            "{} publish {}{}".format,
            st.sampled_from(["allow", "deny"]),
            st.sampled_from(["", "qos<=1 ", "qos=2 ", "retain ", "noretain ", "qos>=1 noretain "]),
            filters(),
        ),
        st.builds(
            "{} {} {}".format,
            st.sampled_from(["allow", "deny"]),
            st.sampled_from(["subscribe", "all", "replay", "command", "shadow", "shadow-write"]),
            filters(),
        ),
        st.builds(
            "{} {} {}".format,
            st.sampled_from(["allow", "deny"]),
            st.sampled_from(["client", "gateway"]),
            st.sampled_from(["a", "a*", "?", "%u", "a%u*", "*", "b?"]),
        ),
    ),
    max_size=12,
)
LEVELS = ["a", "b", "", "$S", "c", "down", "shadow"]
MANY = st.lists(st.lists(st.sampled_from(LEVELS), min_size=1, max_size=4).map("/".join).filter(bool), max_size=12)
NAMED = st.builds(Principal, st.sampled_from([*LEVELS, "a/b", "#", "+"]), st.none() | st.sampled_from([*LEVELS, "+"]))


@given(WORDED, NAMED, MANY, PLAIN)
def test_what_the_index_finds_is_what_the_first_rule_says(
    lines: list[str], who: Principal, topics: list[str], filter: str
) -> None:
    """For every action, form and name; topics one after the other, as those of one connection are remembered."""
    rules = parse_rules("\n".join(["[all]", *lines]), "acl").of(who)
    permissions = RulePermissions(who, rules)
    for topic in topics:
        forms = [form_of(head) for head in range(6)]
        expected = sum(form for form in forms if decide(rules, who, Action.PUBLISH, topic, form))
        assert permissions.forms(topic) == expected
        assert permissions.allows(Action.PUBLISH, topic) == (expected != 0)
        for action in (Action.READ, *OF_NAMES):
            assert permissions.allows(action, topic) == decide(rules, who, action, topic)
    for action in (Action.SUBSCRIBE, Action.REPLAY):
        for asked in (filter, f"$share/g/{filter}", f"$replay/1h/{filter}", "$share/g"):
            assert permissions.allows(action, asked) == decide(rules, who, action, asked)


def test_all_forms_are_all_forms() -> None:
    """Three QoS, retained or not."""
    assert sum(form_of(head) for head in range(6)) == ALL_FORMS


@given(RULES, PRINCIPALS, PLAIN)
def test_more_denies_never_allow_more(lines: list[str], who: Principal, filter: str) -> None:
    """A deny put before the rules can only take away."""
    before = parse_rules("\n".join(["[all]", *lines]), "acl").of(who)
    after = parse_rules("\n".join(["[all]", "deny all a/%c/b", *lines]), "acl").of(who)
    for action in Action:
        assert decide(before, who, action, filter) or not decide(after, who, action, filter)
