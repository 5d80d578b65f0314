"""What is somebody else's matter is no cause: strangers' connections, the uplink's trouble; and what is withheld."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.why import topics
from iot_mqtt.admin.why.facts import Denied, Facts
from iot_mqtt.admin.why.finding import Weight
from iot_mqtt.admin.why.resource import Known, WhyResources, answer, findings
from iot_mqtt.admin.why.together import together
from iot_mqtt.admin.why.topics import TopicFacts
from iot_mqtt.auth.explaining import Answer
from iot_mqtt.uplink.desk import RuleInfo
from tests.unit.admin.adminkit import CLIENT, NOW, SESSION, UPLINK
from tests.unit.admin.test_why import BAN, UNKNOWN, WELL, attempt, trouble
from tests.unit.broker.harness import run

#: A connection that did not say who it is, from where the client is as well.
STRANGER = replace(attempt("unnamed", "tls_failed", "TLS: no certificate", user=None), client_id="")


@pytest.mark.parametrize("client_id", ["10", "0.0.", "10.0.0.1"])
def test_a_connection_of_a_stranger_is_no_cause_for_who_is_connected(client_id: str) -> None:
    """Behind the same address, and whatever its id has in common with that."""
    client = replace(CLIENT, client_id=client_id, connected_at=NOW - 60)
    found = findings(replace(WELL, asked=client_id, client=client, unnamed=(STRANGER,)))
    assert [(one.code, one.weight) for one in found] == [
        ("well", Weight.SAYS + 1),
        ("tls_failed", Weight.SAYS),
    ]


@pytest.mark.parametrize(
    ("asked", "peer", "weight"),
    [
        ("10.0.0.1", "10.0.0.1:5", Weight.STOPS),
        ("10.0.0.1:5", "10.0.0.1:5", Weight.STOPS),
        ("::1", "[::1]:5", Weight.STOPS),
        ("10.0.0.1", "[::ffff:10.0.0.1]:5", Weight.STOPS),
        ("10", "10.0.0.1:5", Weight.WAS),
        ("10.0.0.1:55", "10.0.0.1:5", Weight.WAS),
        ("10.0.0.1", "210.0.0.1:5", Weight.WAS),
    ],
)
def test_a_connection_without_a_name_is_the_cause_for_its_address(asked: str, peer: str, weight: Weight) -> None:
    """As it is asked for: nothing else is an address."""
    found = findings(replace(UNKNOWN, asked=asked, unnamed=(replace(STRANGER, peer=peer),)))
    assert [one.weight for one in found if one.code == "tls_failed"] == [weight]


def test_strangers_of_another_node_are_no_cause_for_who_is_connected() -> None:
    """That node knows nothing of the client, and tells of all who came to it."""
    there = replace(UNKNOWN, node="n2", unnamed=(STRANGER,))
    answers = [answer(one, contents=True) for one in (WELL, there)]
    assert [one["code"] for one in together(answers, {})["findings"]] == ["well", "tls_failed"]


def test_connections_that_failed_for_the_same_reason_are_told_together() -> None:
    """With the addresses of the last ones; of another reason by themselves."""
    failed = [replace(STRANGER, peer=f"10.0.0.{number}:5", at=NOW - number) for number in (1, 1, 2, 3, 4, 5)]
    other = replace(STRANGER, text="TLS: no shared cipher", peer="10.0.0.9:5", at=NOW - 9)
    found = [one for one in findings(replace(UNKNOWN, unnamed=(*failed, other))) if one.code == "tls_failed"]
    assert [one.text.partition("closed: ")[2] for one in found] == [
        "TLS: no certificate (from 10.0.0.1:5 on mqtt); and before it from 10.0.0.2, 10.0.0.3, 10.0.0.4",
        "TLS: no shared cipher (from 10.0.0.9:5 on mqtt)",
    ]


@pytest.mark.parametrize("code", ["denied_subscribe", "denied_withdrawn"])
def test_a_subscription_that_was_denied_is_why_there_is_none(code: str) -> None:
    """Before that there is none."""
    nothing = replace(WELL, session=replace(SESSION, connected=True, state="caught_up", subscriptions=0))
    denied = findings(replace(nothing, troubles=(trouble(code, "hidden/#"),)))
    assert [one.code for one in denied][1:] == ["no_subscription"]
    assert "'hidden/#'" in denied[0].text
    some = findings(replace(WELL, troubles=(trouble(code, "hidden/#"),)))
    assert some[0].weight == Weight.LOSES


def test_readings_that_are_dropped_as_repetitions_are_told_of_their_topic() -> None:
    """To who asks for the topic, and to a client that asks why it does not come."""
    dropped = trouble("repeated_readings", "up/line-1/press", "it counts 3, and 9 was taken before", count=7)
    denied = (Denied("line-1", dropped),)
    words = "7 readings of 'line-1' for 'up/line-1/press' were not published"
    told = topics.answer(TopicFacts(UNKNOWN, "up/line-1/press", denied=denied))["findings"]
    (found,) = [one for one in told if one["code"] == "repeated_readings"]
    assert words in found["text"]
    assert "it counts 3, and 9" in found["text"]
    assert "forget-sequence line-1" in found["helps"]
    assert words in findings(replace(WELL, topic="up/line-1/press", denied=denied))[1].text


#: While the sink is away.
DOWN = replace(WELL, uplink=replace(UPLINK, kind="kafka", trouble="refused", lag_seconds=90.0))
ALSO = RuleInfo(1, "a/#", None, None, None, None, 0, "iot.readings", "also", "topic", 10, 4)
ONLY = replace(ALSO, number=2, mode="only")


@pytest.mark.parametrize(
    ("facts", "weight"),
    [
        (DOWN, Weight.SAYS),
        (replace(DOWN, topic="a/b", rules=(ALSO,)), Weight.SAYS),
        (replace(DOWN, topic="a/b", rules=(ONLY,)), Weight.DELAYS),
        (replace(DOWN, held=3), Weight.DELAYS),
        (replace(DOWN, client=replace(CLIENT, paused="uplink")), Weight.DELAYS),
    ],
)
def test_an_uplink_that_takes_nothing_is_a_cause_for_who_needs_it(facts: Facts, weight: Weight) -> None:
    """A subscriber gets what it gets; a publisher waits where its acknowledgements do."""
    found = findings(facts)
    assert {one.weight for one in found if one.code in ("kafka_down", "uplink_behind")} == {weight}
    assert (found[0].code == "well") is (weight is Weight.SAYS)


def test_a_publisher_that_waits_for_the_platform_is_told_how_much() -> None:
    """As many acknowledgements as are held for it."""
    (held,) = [one for one in findings(replace(DOWN, held=3)) if one.code == "acknowledgements_held"]
    assert "3 messages" in held.text
    assert held.weight == Weight.DELAYS


@pytest.mark.parametrize(("rules", "weight"), [((), Weight.SAYS), ((ALSO,), Weight.DELAYS)])
def test_an_uplink_that_takes_nothing_is_a_cause_for_its_topics(rules: tuple[RuleInfo, ...], weight: Weight) -> None:
    """Of another topic it is a remark."""
    found = topics.answer(TopicFacts(replace(DOWN, client=None, session=None), "a/b", rules=rules))["findings"]
    assert [one["weight"] for one in found if one["code"] == "kafka_down"] == [weight]


def test_what_a_rule_takes_for_the_platform_alone_comes_to_no_subscriber() -> None:
    """Whatever it may receive; it is named what to change, in the word of the configuration."""
    asked = replace(WELL, topic="a/b", rules=(ONLY,))
    (first, *rest) = findings(asked)
    assert (first.code, first.weight) == ("uplink_only", Weight.STOPS)
    assert "rule 2 of the uplink ('a/#')" in first.text
    assert "mode: also" in (first.helps or "")
    assert "topic_matches" not in [one.code for one in rest]
    assert "uplink_only" not in [one.code for one in findings(replace(asked, rules=(ALSO,)))]
    high = findings(replace(asked, rules=(replace(ONLY, qos=1),)))
    assert ("QoS 1 and 2" in high[0].text, high[0].weight) == (True, Weight.LOSES)
    told = topics.answer(TopicFacts(UNKNOWN, "a/b", rules=(ONLY,)))["findings"]
    assert "mode: also" in next(one["helps"] for one in told if one["code"] == "uplink_only")


async def _banned(asked: str, topic: str | None) -> Facts:
    return replace(WELL, asked=asked, bans=(BAN,))


async def _refused(asked: str, topic: str | None) -> Facts:
    others = (Denied("d", trouble("denied_publish", "a/b")),)
    return replace(WELL, topic=topic, denied=others)


async def _unread(asked: str, topic: str | None) -> Facts:
    return replace(WELL, topic=topic, rights=lambda *_: Answer(False, "no", "acl", 7, "deny receive a/b"))


async def _well(asked: str, topic: str | None) -> Facts:
    return replace(WELL, topic=topic, rights=lambda *_: Answer(True, ""))


@pytest.mark.parametrize(
    ("known", "weight"), [(_banned, Weight.STOPS), (_refused, Weight.LOSES), (_unread, Weight.STOPS)]
)
def test_who_may_not_see_what_is_wrong_is_not_told_that_all_is_well(known: Known, weight: Weight) -> None:
    """But that there is something; and not what."""
    found = _findings(known, Role.VIEWER)
    assert (found[0]["code"], found[0]["weight"]) == ("withheld", weight)
    assert "not shown to this role" in found[0]["text"]
    assert not {"well", "banned", "denied_publish", "denied_delivery"} & {one["code"] for one in found}
    assert "may receive" not in str(found)
    assert "withheld" not in [one["code"] for one in _findings(known, Role.OPERATOR)]


def test_who_may_not_see_rules_is_told_that_all_is_well_where_it_is() -> None:
    """Nothing is withheld there."""
    assert _findings(_well, Role.VIEWER)[0]["code"] == "well"


def _findings(known: Known, role: Role) -> list[dict[str, Any]]:
    (route,) = WhyResources(known, lambda: lambda *_args, **_more: True).routes
    found: Any = run(cast(Any, route.handler(Call({"client_id": "c"}, {"topic": "a/b"}, caller=Caller("x", role, ())))))
    return list(found["findings"])
