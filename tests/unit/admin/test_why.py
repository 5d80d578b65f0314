"""What is made of the facts: faults that a lone broker cannot have, who may see what, and filters that just miss."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from typing import Any, cast

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.why import near, topics
from iot_mqtt.admin.why.facts import Denied, Facts, Home
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.admin.why.resource import WhyResources, answer, findings, slowest
from iot_mqtt.admin.why.together import together
from iot_mqtt.auth.accounts import Kept
from iot_mqtt.auth.acl import parse_brought
from iot_mqtt.auth.chain import NOBODY
from iot_mqtt.auth.explaining import Answer, Question
from iot_mqtt.auth.rights import RuleAuthorizer
from iot_mqtt.auth.sections import Book
from iot_mqtt.broker.facade import AttemptInfo, GroupShare
from iot_mqtt.broker.publishing.budget import Pause
from iot_mqtt.errors import ReasonCode
from iot_mqtt.plugins.info import PluginInfo
from iot_mqtt.plugins.suspects import HeldOff
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.bans import Ban
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.endings import by_client
from iot_mqtt.ports.recent import Trouble
from iot_mqtt.values import Subscription
from tests.unit.admin.adminkit import CLIENT, CLUSTER, LOG, NOW, PEER, SESSION, UPLINK, FakeView, make_browser
from tests.unit.admin.test_everywhere import Cluster
from tests.unit.broker.harness import run

#: A client that is connected and gets all its messages.
WELL = Facts(
    node="n1",
    now=NOW,
    asked="c",
    client=CLIENT,
    session=replace(SESSION, connected=True, state="caught_up", queued=0, inflight=0),
    subscriptions=(Subscription("a/+", 1),),
)
UNKNOWN = Facts(node="n1", now=NOW, asked="c")
SHARE = GroupShare("$share/g/a", "round_robin", ("d",), ("e",), None, keeps_order=False)
BAN = Ban("b1", None, "joe", None, None, "operator", "left", "ann", NOW - 9)
HELD = HeldOff("device", "c", 3, 40.0, "garbage: bad magic")


def attempt(kind: str, reason: str, text: str = "", *, at: float = NOW - 5, user: str | None = "joe") -> AttemptInfo:
    """From where the client is as well; nobody has verified the user of one that was refused."""
    verified, claimed = (None, user) if kind == "refused" else (user, None)
    return AttemptInfo("c", kind, at, reason, text or reason, verified, "10.0.0.1:5", "mqtt", claimed)


def trouble(code: str, topic: str = "", detail: str = "", count: int = 1) -> Trouble:
    """A moment ago."""
    return Trouble(code, topic, count, NOW - 5, NOW - 5, detail)


def plugin(state: str = "ready", *held: HeldOff) -> PluginInfo:
    """The codec of gateways."""
    reason = "it died 3 times" if state == "quarantined" else None
    return PluginInfo("gateway", state, reason, "process", True, "1.0", 1, 0, held_off=list(held))


def member(state: str) -> Facts:
    """A client whose session is on another node, in some state."""
    return replace(UNKNOWN, home=Home("n2", state), cluster=replace(CLUSTER, members=[PEER]))


FAULTS = [
    ("ban of a user", replace(WELL, client=None, bans=(BAN,)), "banned", ["user 'joe'", "ann", "left"]),
    ("held off", replace(UNKNOWN, plugins=(plugin("ready", HELD),)), "held_off", ["device c", "40 s", "bad magic"]),
    (
        "quarantined",
        replace(UNKNOWN, codec="gateway", plugins=(plugin("quarantined"),)),
        "codec_quarantined",
        ["gateway", "died 3 times"],
    ),
    (
        "quarantined before anything was kept of it",
        replace(UNKNOWN, codecs=frozenset({"gateway"}), plugins=(plugin("quarantined"),)),
        "codec_quarantined",
        ["gateway", "died 3 times"],
    ),
    ("home is dead", member("dead"), "home_dead", ["n2"]),
    ("home is not heard", member("silent"), "link_cut", ["n2"]),
    ("home elsewhere", member("up"), "at_home_elsewhere", ["n2"]),
    (
        "a link is cut",
        replace(WELL, cluster=replace(CLUSTER, members=[replace(PEER, state="silent")])),
        "link_cut",
        ["n2", "not heard"],
    ),
    ("disk full", replace(WELL, log=replace(LOG, disk_level="full")), "disk_full", ["85000000 of 100000000"]),
    (
        "disk filled by others",
        replace(WELL, log=replace(LOG, disk_level="full", disk_limit=0)),
        "disk_full",
        ["15000000 bytes are free", "log.disk_reserve"],
    ),
    (
        "grid full",
        replace(WELL, log=replace(LOG, disk_level="full"), cluster=CLUSTER),
        "grid_full",
        ["85000000 of 100000000"],
    ),
    (
        "grid does not write",
        replace(WELL, cluster=replace(CLUSTER, grid_trouble="no primary")),
        "grid_trouble",
        ["no primary"],
    ),
    (
        "a file of the grid is damaged",
        replace(WELL, alarms=(Alarm(AlarmKind.BUSY, "busy"), Alarm(AlarmKind.GRID_DAMAGED, "9.sst cannot be read"))),
        "grid_damaged",
        ["9.sst"],
    ),
    (
        "node cut off",
        replace(
            UNKNOWN,
            broker=replace(FakeView().info(), state="apart"),
            cluster=replace(CLUSTER, over="the registry has lost it"),
        ),
        "node_cut_off",
        ["not part of the cluster", "the registry has lost it"],
    ),
    (
        "store does not answer",
        replace(WELL, unanswered=("its commands", "its codec")),
        "store_unanswered",
        ["in time", "its commands, its codec"],
    ),
    ("registry away", replace(WELL, cluster=replace(CLUSTER, registry="lost")), "registry_away", ["lost"]),
    (
        "uplink behind",
        replace(WELL, uplink=replace(UPLINK, lag_seconds=90.0)),
        "uplink_behind",
        ["40 messages", "90 s"],
    ),
    ("Kafka down", replace(WELL, uplink=replace(UPLINK, kind="kafka", trouble="refused")), "kafka_down", ["refused"]),
    (
        "slow reader",
        replace(WELL, client=replace(CLIENT, writable=False, outbox_bytes=9_000)),
        "slow_reader",
        ["9000 bytes", "10.0.0.1:5"],
    ),
    ("shared", replace(WELL, shares=(SHARE,)), "shared_group", ["'g'", "'a'", "'d', 'e' (at another node)"]),
    (
        "alone in its group",
        replace(WELL, shares=(replace(SHARE, here=(), elsewhere=()),)),
        "shared_group",
        ["nobody else"],
    ),
    (
        "another one holds the group",
        replace(WELL, shares=(replace(SHARE, policy="sticky", holder="d", keeps_order=True),)),
        "group_held",
        ["'g'", "one member until that one leaves: 'd'"],
    ),
    (
        "the group passes by a full window",
        replace(WELL, session=replace(SESSION, state="inflight_full", inflight=7), shares=(SHARE,)),
        "group_passes_by",
        ["its window is full", "goes to 'd', 'e' (at another node)"],
    ),
    (
        "the hash falls to others",
        replace(WELL, shares=(replace(SHARE, policy="hash_topic", keeps_order=True),)),
        "group_hashed",
        ["of one topic", "'d'"],
    ),
    ("paused", replace(WELL, client=replace(CLIENT, paused="disk_full")), "disk_full", ["not read from"]),
    ("no subscription", replace(WELL, session=replace(SESSION, subscriptions=0)), "no_subscription", ["nothing"]),
    (
        "no subscription after a clean start",
        replace(WELL, session=replace(SESSION, subscriptions=0)),
        "no_subscription",
        ["clean start", "has ended"],
    ),
    (
        "command failed",
        replace(WELL, commands=(StoredCommand("k1", "c/x", State.FAILED, NOW - 9, detail="no such tag"),)),
        "command_failed",
        ["k1", "'c/x'", "no such tag"],
    ),
    (
        "withdrawn",
        replace(WELL, troubles=(trouble("denied_withdrawn", "a/#"),)),
        "subscription_withdrawn",
        ["'a/#'", "'ann'"],
    ),
    (
        "subscription refused",
        replace(WELL, troubles=(trouble("refused_subscription", "b/#", "too many subscriptions"),)),
        "subscription_refused",
        ["'b/#'", "too many"],
    ),
    (
        "its session ended",
        replace(WELL, troubles=(trouble("session_ended", "", "the client connected with clean start", 7),)),
        "session_ended",
        ["its session ended", "7 messages", "clean start"],
    ),
    (
        "its numbers begin again",
        replace(WELL, troubles=(trouble("repeated_readings", "up/c/press", "it counts 3, and 9 was taken before"),)),
        "repeated_readings",
        ["'up/c/press'", "it counts 3, and 9 was taken", "not published"],
    ),
    ("nobody takes clients", replace(UNKNOWN, attempts=(attempt("refused", "server_busy"),)), "node_busy", ["joe"]),
    ("drained", replace(UNKNOWN, attempts=(attempt("refused", "use_another_server"),)), "node_drained", ["joe"]),
    (
        "anonymous",
        replace(UNKNOWN, attempts=(attempt("refused", "bad_user_name_or_password", user=None),)),
        "no_user_name",
        [],
    ),
    (
        "anonymous, where no link of the chain lets it in",
        replace(UNKNOWN, attempts=(attempt("refused", "not_authorized", NOBODY.detail, user=None),)),
        "no_user_name",
        ["names no user", "no user name, from 10.0.0.1:5"],
    ),
    (
        "nobody knows the user",
        replace(UNKNOWN, attempts=(attempt("refused", "not_authorized", NOBODY.detail),)),
        "not_authorized",
        ["nobody vouches"],
    ),
    (
        "anonymous, and refused for another reason",
        replace(UNKNOWN, attempts=(attempt("refused", "not_authorized", "the service says no", user=None),)),
        "not_authorized",
        ["the service says no"],
    ),
    (
        "went with its will",
        replace(UNKNOWN, attempts=(attempt("left", by_client(ReasonCode.DISCONNECT_WITH_WILL)),)),
        "disconnected",
        [],
    ),
    (
        "went as it should",
        replace(WELL, client=None, session=replace(SESSION, connected=False, last_disconnect="client_disconnected")),
        "disconnected",
        ["not connected: disconnected by the client"],
    ),
    (
        "cut off",
        replace(UNKNOWN, attempts=(attempt("left", "outbox_limit", "the client did not read"),)),
        "cut_off_slow",
        ["did not read", "10.0.0.1:5"],
    ),
]


@pytest.mark.parametrize(
    ("kept", "code", "helps"),
    [
        (Kept(known=True, file="/etc/users"), "wrong_password", "iot-mqtt passwd /etc/users joe"),
        (Kept(known=False, file="/etc/users"), "unknown_user", "iot-mqtt passwd /etc/users joe"),
        (Kept(known=True, file=None), "wrong_password", "iot-mqtt ctl users passwd joe"),
        (Kept(known=False, file=None), "unknown_user", "iot-mqtt ctl users add joe"),
        (Kept(True, "/etc/users", enabled=False), "user_disabled", "iot-mqtt passwd --enable /etc/users joe"),
        (Kept(True, None, enabled=False), "user_disabled", "iot-mqtt ctl users enable joe"),
        (None, "login_refused", "iot-mqtt ctl auth explain --user joe"),
    ],
)
def test_what_helps_who_has_a_wrong_password_is_where_its_user_is_kept(
    kept: Kept | None, code: str, helps: str
) -> None:
    """By the chain of the listener that it came to: a user of a file is none of the grid."""
    asked = []

    def look(listener: str, name: str) -> Kept | None:
        asked.append((listener, name))
        return kept

    refused = attempt("refused", "bad_user_name_or_password")
    found = findings(replace(UNKNOWN, attempts=(refused,), kept=look))[0]
    assert (found.code, found.helps) == (code, helps)
    assert asked == [("mqtt", "joe")]


@pytest.mark.parametrize(("facts", "code", "words"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_fault_is_named(facts: Facts, code: str, words: list[str]) -> None:
    """With what it is about, and before all that explains less."""
    found = [one for one in findings(facts) if one.code == code]
    assert found, findings(facts)
    for word in words:
        assert word in found[0].text
    assert not [one for one in findings(WELL) if one.code == code], "it is said of a client that is well"


def test_what_stands_in_a_file_of_the_uplink_that_is_not_finished_is_not_late() -> None:
    """It waits for the file, not for the platform; what the uplink has not even read does wait for it."""
    late = replace(UPLINK, lag_seconds=90.0, unread_messages=0, in_flight_messages=40)
    assert [one.code for one in findings(replace(WELL, uplink=late))] == ["well"]
    down = replace(late, kind="kafka", trouble="refused")
    assert [one.code for one in findings(replace(WELL, uplink=down, held=1))][:2] == ["kafka_down", "uplink_behind"]


def test_a_group_whose_hash_gives_to_others_is_a_cause_only_for_who_got_nothing() -> None:
    """And a full window is none where messages wait for their member, full or not."""
    hashed = replace(SHARE, policy="hash_client", keeps_order=True)
    got = replace(WELL, shares=(hashed,))
    nothing = replace(got, session=replace(got.session or SESSION, delivered=0))
    assert [one.code for one in findings(got)] == ["well", "group_hashed"]
    assert [one.code for one in findings(nothing)] == ["group_hashed"]
    full = replace(got, session=replace(SESSION, state="inflight_full", inflight=7))
    assert "group_passes_by" not in [one.code for one in findings(full)]


@pytest.mark.parametrize("why", list(Pause))
def test_whyever_a_client_is_not_read_from_is_said_in_words(why: Pause) -> None:
    (found,) = findings(replace(WELL, client=replace(CLIENT, paused=why)))
    assert found.text.startswith(("it is not read from until ", "it is not read from for a moment, because "))


def test_a_client_that_is_well_is_said_to_be() -> None:
    """Nothing else is; who was never seen is not."""
    assert [one.code for one in findings(WELL)] == ["well"]
    assert [one.code for one in findings(UNKNOWN)] == ["never_seen"]


def test_a_client_id_that_looks_like_another_one_is_said_to_be_none() -> None:
    """By its letters as they are; in a cluster, whichever node has it."""
    asked = replace(UNKNOWN, asked="k\xfche")
    known = replace(asked, node="n2", alike="ku\u0308he")
    found = together([answer(one, contents=True) for one in (asked, known)], {})["findings"]
    assert [(one["code"], one["node"]) for one in found] == [("never_seen", "n1"), ("looks_alike", "n2")]
    assert found[1]["text"].startswith("'ku\\u0308he' looks like 'k\\xfche', and is another client id")
    assert found[1]["helps"] == "iot-mqtt ctl why ku\u0308he"
    assert list(near.other_forms("k\xfche")) == ["ku\u0308he"]
    assert list(near.other_forms("ku\u0308he")) == ["k\xfche"]
    assert list(near.other_forms("press-7")) == []


def test_a_client_that_acknowledges_nothing_is_said_to_be_owed_that() -> None:
    """Its window has room for more, so nothing is kept from it."""
    silent = replace(WELL, session=replace(WELL.session or SESSION, delivered=0, inflight=5))
    (well,) = findings(silent)
    assert well.code == "well"
    assert well.text.endswith("0 were delivered, and 5 were sent and are not acknowledged")
    assert "acknowledged" not in findings(WELL)[0].text


def test_a_client_that_kept_its_session_has_not_lost_it_to_a_clean_start() -> None:
    """It has not subscribed yet."""
    kept = replace(WELL, client=replace(CLIENT, clean_start=False), session=replace(SESSION, subscriptions=0))
    (found,) = [one for one in findings(kept) if one.code == "no_subscription"]
    assert "clean start" not in found.text


def test_what_is_over_comes_behind_what_is_not() -> None:
    """A refusal before the client came in explains nothing that is missing now."""
    refused = attempt("refused", "bad_user_name_or_password", at=NOW - 500)
    full = replace(
        WELL, attempts=(refused,), session=replace(SESSION, connected=True, state="inflight_full", inflight=7)
    )
    assert [(one.code, one.weight) for one in findings(full)] == [
        ("window_full", Weight.STOPS),
        ("login_refused", Weight.WAS),
    ]
    assert slowest(full) == "the client, which does not acknowledge"


def test_a_denial_names_the_rule_that_denies() -> None:
    """Or says that the rules have changed since."""
    answers = {"x": Answer(False, "the first rule", "acl", 7, "deny publish x"), "y": Answer(True, "")}
    asked = [trouble("denied_publish", "x", "QoS 1, retained"), trouble("denied_publish", "y")]
    facts = replace(WELL, troubles=tuple(asked), rights=lambda action, topic, qos, retain: answers[topic])
    texts = [one.text for one in findings(facts) if one.code == "denied_publish"]
    assert "rule 'deny publish x' (acl line 7)" in texts[0]
    assert "the rules allow it now" in texts[1]


@pytest.mark.parametrize("code", ["denied_publish", "denied_will"])
def test_a_denial_of_a_reserved_topic_is_none_of_rules(code: str) -> None:
    """Where there are none, too. What a bridge says of itself is told what to do instead."""
    authorizer = RuleAuthorizer(lambda: Book([], parse_brought))

    def rights(action: str, topic: str, qos: int, retain: bool) -> Answer:
        return authorizer.explain(Principal("c", "joe"), Question(action, topic, qos, retain))

    topics = ("status/x", "$SYS/broker/connection/c/state")
    facts = replace(WELL, troubles=tuple(trouble(code, topic, "QoS 1") for topic in topics), rights=rights)
    texts = [one.text for one in findings(facts) if "may not publish" in one.text]
    assert all(": only the broker publishes there" in text for text in texts)
    assert ["notification_topic" in text for text in texts] == [False, True]


def test_a_publisher_that_is_refused_is_why_a_topic_does_not_come() -> None:
    """Whichever node it is at; what the client itself was refused is among its troubles."""
    refused = Denied("press", trouble("denied_publish", "a/b", count=3))
    own, reader = Denied("c", trouble("denied_publish", "a/b")), Denied("d", trouble("denied_subscribe", "a/+"))
    asked = replace(WELL, topic="a/b", denied=(own, reader, refused))
    found = findings(asked)
    assert [one.code for one in found] == ["denied_publish", "topic_matches"]
    assert found[0].text == "'press' may not publish to 'a/b': it was refused 3 times"
    there = replace(UNKNOWN, node="n2", topic="a/b", denied=(refused,))
    answers = [answer(one, contents=True) for one in (replace(asked, denied=()), there)]
    assert [one["code"] for one in together(answers, {})["findings"]] == ["denied_publish", "topic_matches"]
    long_ago = replace(asked, now=NOW + 5000)
    assert [one.code for one in findings(long_ago)] == ["denied_publish", "well", "topic_matches"]


@pytest.mark.parametrize(
    ("subscription", "words", "helps"),
    [
        (
            Subscription("a/+", 1, retain_handling=2),
            "'a/+': it asks for no retained",
            "subscribe with Retain Handling 0",
        ),
        (Subscription("a/+", 1, retain_handling=1), "if that was there before", "subscribe with Retain Handling 0"),
        (Subscription("$share/g/a/+", 1), "it is shared", "subscribe to 'a/+' as well"),
        (Subscription("a/+", 1), "", ""),
    ],
)
def test_what_is_retained_and_does_not_come_has_its_reason(subscription: Subscription, words: str, helps: str) -> None:
    """Where a topic is asked for, and something is retained there; not where another subscription brings it."""
    asked = replace(WELL, topic="a/b", retained=True, subscriptions=(subscription,))
    found = [one for one in findings(asked) if one.code == "retained_not_sent"]
    assert [(words in one.text, one.helps) for one in found] == ([(True, helps)] if words else [])
    assert findings(asked)[0].code == ("retained_not_sent" if words else "well")
    for other in (
        replace(asked, retained=False),
        replace(asked, topic="b"),
        replace(asked, subscriptions=(subscription, Subscription("a/b"))),
    ):
        assert "retained_not_sent" not in [one.code for one in findings(other)]


def test_a_subscription_that_is_as_old_as_its_connection_was_new() -> None:
    """So that it had what is retained; a client that is away has to subscribe first."""
    new = replace(CLIENT, connected_at=SESSION.created_at)
    for client in (new, None):
        asked = replace(
            WELL, client=client, topic="a/b", retained=True, subscriptions=(Subscription("a/+", 1, retain_handling=1),)
        )
        assert "retained_not_sent" not in [one.code for one in findings(asked)]


def test_subscriptions_that_ask_for_nothing_retained_are_said_once() -> None:
    """Without a topic, too: it is how things are."""
    quiet = [Subscription(f"a/{number}", 1, retain_handling=2) for number in range(3)]
    found = findings(replace(WELL, subscriptions=tuple(quiet)))
    assert [one.code for one in found] == ["well", "retained_not_sent"]
    assert found[1].text == "its subscription 'a/0' and 2 more ask for no retained messages (Retain Handling 2)"
    one = findings(replace(WELL, subscriptions=(quiet[0],)))[1]
    assert one.text == "its subscription 'a/0' asks for no retained messages (Retain Handling 2)"


@pytest.mark.parametrize(
    ("filter", "topic", "difference", "instead"),
    [
        ("Plant/1", "plant/1", "upper and lower case", "plant/1"),
        ("plant/+/TEMP", "plant/1/temp", "upper and lower case", "plant/+/temp"),
        ("ku\u0308che/+/#", "k\xfcche/1/t", "are 'ku\\u0308che/+/#' and 'k\\xfcche/1/t'", "k\xfcche/+/#"),
        ("$share/g/k\xfcche", "ku\u0308che", "normalized as NFC, they are equal", "ku\u0308che"),
        ("plant/1", "/plant/1", "topic begins with a slash", "/plant/1"),
        ("/plant/#", "plant/1", "filter begins with a slash", "plant/#"),
        ("plant/1", "plant/1/", "topic ends with a slash", "plant/1/"),
        ("plant/1/", "plant/1", "filter ends with a slash", "plant/1"),
        ("plant/1 ", "plant/1", "a space", "plant/1"),
        ("#", "$SYS/x", "begins with $", None),
        ("+", "a/b", "one level only", "#"),
        ("plant/+", "plant/1/temp", "one level more", "plant/#"),
        ("plant/+/temp", "plant/temp", "one level less", "plant/temp"),
        ("plant/temp", "plant/1/temp", "one level more", "plant/+/temp"),
        ("plant/1/temp", "plant/2/temp", "level 2 is '1' there, and '2'", None),
        ("$share/g/Plant", "plant", "upper and lower case", "plant"),
    ],
)
def test_the_nearest_filter_says_what_it_misses_by(
    filter: str, topic: str, difference: str, instead: str | None
) -> None:
    """Among filters that have nothing to do with the topic."""
    found = near.nearest(["far/away/from/it/all", filter], topic)
    assert found is not None
    assert (found.filter, found.instead) == (filter, instead)
    assert difference in found.difference


def test_a_filter_that_is_far_away_is_not_near() -> None:
    """And what differs in a word only is no likely mistake."""
    assert near.nearest(["x/y", "a/#/"], "p/q/r") is None
    assert near.nearest(["plant/1/temp"], "plant/2/temp", certain=True) is None


@pytest.mark.parametrize(
    ("filter", "topic"),
    [
        ("press9/#", "heartbeat"),
        ("cmd/+", "alive"),
        ("+/cmd", "alive"),
        ("cmd/+", "hall/1"),
        ("plant/locked/#", "plant/open"),
        ("plant/locked/+", "plant/open"),
        ("+/temp", "$SYS/broker/uptime"),
    ],
)
def test_a_filter_is_not_near_for_what_its_wildcards_match(filter: str, topic: str) -> None:
    """Its names have to be in the topic, where they stand in the filter."""
    assert near.nearest([filter], topic) is None


@pytest.mark.parametrize(
    ("filter", "topic"),
    [("+", "hall/heartbeat"), ("+/+", "heartbeat"), ("/#", "heartbeat"), ("#", "$SYS/broker/uptime")],
)
def test_a_filter_of_wildcards_is_near_to_what_was_asked_for_only(filter: str, topic: str) -> None:
    """Every topic has something in common with it."""
    assert near.nearest([filter], topic) is not None
    wanted = replace(WELL, subscriptions=(Subscription(filter, 1),), unwanted=(topic,))
    assert [one.code for one in findings(wanted)] == ["well"]


@pytest.mark.parametrize(
    ("allowed", "helps"),
    [(("receive", "subscribe"), ["subscribe to 'plant/#'"]), (("receive",), [None]), (("subscribe",), [])],
)
def test_a_near_miss_is_told_to_whom_it_would_help(allowed: tuple[str, ...], helps: list[str | None]) -> None:
    """Who may not receive the topic misses nothing; who may not subscribe to what matches it is not told to."""
    wanted = replace(
        WELL,
        subscriptions=(Subscription("plant/+", 1),),
        unwanted=("plant/1/temp",),
        rights=lambda action, asked, qos, retain: Answer(action in allowed, ""),
    )
    assert [one.helps for one in findings(wanted) if one.code == "near_miss"] == helps
    (asked,) = [one for one in findings(replace(wanted, topic="plant/1/temp")) if one.code != "well"]
    assert (asked.code, asked.helps) == (
        "no_matching_subscription",
        "subscribe to 'plant/#'" if "subscribe" in allowed else None,
    )


async def _facts(asked: str, topic: str | None) -> Facts:
    denied = trouble("denied_publish", "x")
    denies = Answer(False, "no", "acl", 7, "deny publish x")
    command = StoredCommand("k1", "c", State.FAILED, NOW - 9)
    others = (Denied("d", trouble("denied_publish", "a/b")),)
    return replace(
        WELL, topic=topic, denied=others, bans=(BAN,), troubles=(denied,), commands=(command,), rights=lambda *_: denies
    )


def _lets(user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
    return user == "ann"


@pytest.mark.parametrize(
    ("role", "scope", "bans", "rule", "commands"),
    [
        (Role.VIEWER, (), 0, False, 1),
        (Role.OPERATOR, (), 1, True, 1),
        (Role.OPERATOR, ("clients", "as:ann"), 1, True, 1),
        (Role.OPERATOR, ("clients", "as:bob"), 1, True, 0),
    ],
)
def test_who_may_see_clients_does_not_see_bans_rules_and_commands_of_others(
    role: Role, scope: tuple[str, ...], bans: int, *, rule: bool, commands: int
) -> None:
    """As everywhere else in the API."""
    (route,) = WhyResources(_facts, lambda: _lets).routes
    call = Call({"client_id": "c"}, {"topic": "a/b"}, caller=Caller("x", role, scope))
    found: Any = run(cast(Any, route.handler(call)))
    assert ("'d' may not publish" in str(found["findings"])) is (rule and commands > 0)
    denied = next(one for one in found["findings"] if one["code"] == "denied_publish")
    assert (len(found["bans"]), len(found["commands"])) == (bans, commands)
    assert ("deny publish x" in denied["text"]) is rule
    assert "payload" not in str(found)


def test_a_topic_that_is_none_is_refused() -> None:
    """With a sentence, not with an error of the node."""
    browser = make_browser(FakeView())
    assert browser.get("/api/v1/clients/c/why?topic=a%2F%23").status == 400
    assert browser.get("/api/v1/clients/c/why?topic=a%2Fb").json["findings"][0]["code"] == "never_seen"


@pytest.mark.parametrize("node", ["n1", "n2", "n3"])
def test_every_node_has_the_same_answer(node: str) -> None:
    """The cause that the client's node knows, and what another one remembers of before behind it."""
    cluster = Cluster()
    cluster.views["n2"].connect("c")
    cluster.views["n2"].keep_session("c", connected=True, state="inflight_full", dropped={}, inflight=7)
    refused = attempt("refused", "bad_user_name_or_password", at=NOW - 500)
    cluster.views["n1"].remembered["c"] = [refused]
    found = cluster.get("clients/c/why", node)
    assert [(one["code"], one["node"]) for one in found["findings"]][:2] == [
        ("window_full", "n1"),
        ("login_refused", "n1"),
    ]
    assert (found["session"]["state"], found["client"]["peer"]) == ("inflight_full", "10.0.0.1:5")
    assert [(one["reason"], one["node"]) for one in found["attempts"]] == [("bad_user_name_or_password", "n1")]
    assert found["missing"] == []


def test_a_client_that_no_node_knows_was_never_seen_once() -> None:
    """Not three times; and of a node that is away it is said that it did not answer."""
    cluster = Cluster()
    cluster.members[2] = replace(cluster.members[2], state="silent")
    cluster.questions.pop(3)
    found = cluster.get("clients/c/why")
    assert [one["code"] for one in found["findings"]] == ["never_seen", "node_unheard"]
    assert "may be at n3" in found["findings"][1]["text"]
    assert [one["node"] for one in found["missing"]] == ["n3"]


def test_a_refusal_at_another_node_is_the_cause_of_a_client_that_is_nowhere() -> None:
    """The nodes that know nothing say nothing."""
    cluster = Cluster()
    cluster.views["n3"].remembered["c"] = [attempt("refused", "bad_user_name_or_password")]
    assert [one["code"] for one in cluster.get("clients/c/why")["findings"]] == ["login_refused"]
    assert cluster.get("clients/c/why?node=n2")["findings"][0]["code"] == "never_seen"


def test_a_session_that_is_at_home_where_nobody_answers_is_said_to_be_there() -> None:
    """Before all that the nodes that answer know."""
    here = answer(replace(UNKNOWN, home=Home("n2", "up")), contents=True)
    found = together([{**here, "node": "n1"}], {"n2": "no answer in time"})
    assert (found["findings"][0]["code"], found["findings"][0]["weight"]) == ("node_unheard", Weight.STOPS)
    assert "its session is on n2, which did not answer: no answer in time" in found["findings"][0]["text"]


def _of_topic(node: str, text: str, helps: str | None = None) -> dict[str, Any]:
    """What a node says of a topic that nobody there has subscribed to."""
    finding = asdict(Finding("no_subscriber", Weight.STOPS, text, None, node, helps))
    lists: dict[str, Any] = {"subscribers": [], "publishers": [], "denied": []}
    return {"node": node, "subscriptions": 0, "findings": [finding], "retained": None, **lists}


def test_that_nobody_has_subscribed_to_a_topic_is_said_of_all_nodes() -> None:
    """With the nearest filter, whichever node has it; of one node alone as that node says it."""
    here = "no session on this node has subscribed to it"
    near = f"{here}; the nearest filter is 'hall/#': upper and lower case"
    one = _of_topic("n1", here)
    (found,) = topics.together([one, _of_topic("n2", near, "subscribe to 'Hall/#'"), _of_topic("n3", here)], {})[
        "findings"
    ]
    assert found["text"] == "no session has subscribed to it; the nearest filter is 'hall/#': upper and lower case"
    assert found["helps"] == "subscribe to 'Hall/#'"
    assert topics.together([one], {})["findings"][0]["text"] == here
    assert topics.together([one, {**_of_topic("n2", here), "subscriptions": 1}], {})["findings"] == []


def test_what_is_not_looked_at_closely_is_no_near_miss() -> None:
    """Every short filter beside every short topic: a look at the words alone passes over nothing that is near."""
    levels = ("a", "B", " a", "+", "")
    filters = ["/".join(one) for length in (1, 2, 3) for one in product(levels, repeat=length)]
    filters += [f"{one}/#" for one in filters[:30]] + ["#", "$share/g/a/B", "$replay/a/b"]
    names = ["/".join(one) for length in (1, 2, 3) for one in product(("a", "b", "A", "", "c"), repeat=length)]
    for topic in (*names, "$SYS/a"):
        for filter in filters:
            found = near._compared(filter, near.plain_filter(filter), topic)
            assert near.nearest([filter], topic) == (None if found is None else found[1]), (filter, topic)
