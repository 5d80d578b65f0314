"""What was refused or closed is named with what refused it: which limit, which port, which publisher."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.configuration import ListenerInfo
from iot_mqtt.admin.why import topics
from iot_mqtt.admin.why.facts import Facts, Publisher
from iot_mqtt.admin.why.finding import Weight
from iot_mqtt.admin.why.resource import WhyResources, answer, findings
from iot_mqtt.admin.why.together import together
from iot_mqtt.admin.why.topics import TopicFacts
from iot_mqtt.codec import WrongPort
from iot_mqtt.ports.limits import NoRoom
from tests.unit.admin.adminkit import NOW
from tests.unit.admin.test_why import UNKNOWN, WELL, attempt, trouble
from tests.unit.broker.harness import run

EXPLAIN = "iot-mqtt ctl limits explain --client c"


@pytest.mark.parametrize(
    ("why", "helps"),
    [
        (NoRoom.CLIENT, "mqtt.max_subscriptions_per_client"),
        (NoRoom.LIMITS, EXPLAIN),
        (NoRoom.NODE, "mqtt.max_subscriptions"),
        (NoRoom.NODE_BYTES, "mqtt.max_subscription_bytes"),
        ("filter has more than 8 levels", "mqtt.max_topic_levels"),
        ("something else", None),
    ],
)
def test_a_subscription_is_refused_by_one_limit(why: str, helps: str | None) -> None:
    """However many are: one line says how many."""
    refused = tuple(trouble("refused_subscription", f"b/{number}", why) for number in range(8))
    found = [one for one in findings(replace(WELL, troubles=refused)) if one.code == "subscription_refused"]
    assert [one.helps for one in found] == [helps]
    assert found[0].text == f"subscriptions were refused 8 times, the last one 'b/0': {why}"


@pytest.mark.parametrize("code", ["refused_subscription", "denied_subscribe"])
def test_the_filter_that_was_refused_is_why_a_topic_does_not_come(code: str) -> None:
    """It comes before the filter that is nearest, and is the one that is named."""
    others = tuple(trouble(code, f"x/{number}", NoRoom.CLIENT) for number in range(3))
    asked = replace(WELL, topic="b/1", troubles=(*others, trouble(code, "b/#", NoRoom.CLIENT)))
    first, *rest = findings(asked)
    assert (first.code, "'b/#'" in first.text) == (code.replace("refused_subscription", "subscription_refused"), True)
    assert "no_matching_subscription" in [one.code for one in rest]
    assert findings(replace(asked, topic="a/1"))[0].weight == Weight.LOSES
    assert findings(replace(asked, now=NOW + 9000))[0].code == "no_matching_subscription"


def listener(name: str, port: int, protocol: str = "mqtt", *, tls: bool = False) -> ListenerInfo:
    """One that is open."""
    return ListenerInfo(name, True, protocol, "", port, tls, None, None, "file", 0, 0, 0, 0, 10)


@pytest.mark.parametrize(
    ("came", "code", "listeners", "helps"),
    [
        (WrongPort.TLS, "wrong_port", (listener("mqtts", 8883, tls=True),), "connect to port 8883 (mqtts)"),
        (WrongPort.TLS, "wrong_port", (), "no listener has TLS: connect without it, or configure listeners.mqtts.tls"),
        (WrongPort.HTTP, "wrong_port", (listener("ws", 8083, "websocket"),), "connect to port 8083 (ws)"),
        (
            WrongPort.PLAIN_MQTT,
            "tls_failed",
            (listener("mqtt", 1883), listener("mqtts", 8883, tls=True)),
            "let the client use TLS, or connect to port 1883 (mqtt)",
        ),
        (WrongPort.PLAIN_MQTT, "tls_failed", (listener("mqtts", 8883, tls=True),), "let the client use TLS"),
    ],
)
def test_who_comes_to_the_wrong_port_is_told_the_right_one(
    came: WrongPort, code: str, listeners: tuple[ListenerInfo, ...], helps: str
) -> None:
    """In place of what the bytes would be as packets."""
    reason = "tls_failed" if code == "tls_failed" else "malformed_packet"
    stranger = replace(attempt("unnamed", reason, came, user=None), client_id="")
    (found,) = [one for one in findings(replace(UNKNOWN, unnamed=(stranger,), listeners=listeners)) if one.code == code]
    assert f"closed: {came} (from 10.0.0.1:5 on mqtt)" in found.text
    assert found.helps == helps


def test_who_was_refused_by_name_is_not_told_of_strangers_before() -> None:
    """Of those of the last minute it may have been one."""
    refused = attempt("refused", "not_authorized")
    strangers = [replace(attempt("unnamed", "connect_timeout", at=NOW - age), client_id="") for age in (50, 90)]
    for unnamed, told in ((strangers[:1], 1), (strangers[1:], 0)):
        found = findings(replace(UNKNOWN, attempts=(refused,), unnamed=tuple(unnamed)))
        assert [one.code for one in found].count("no_connect") == told
    assert "no_connect" in [one.code for one in findings(replace(UNKNOWN, unnamed=tuple(strangers[1:])))]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        ({"subscribed_at": NOW - 80}, False),
        ({"retained": True}, False),
        ({"topic": "b"}, False),
        ({"publishers": ()}, False),
    ],
)
def test_what_was_published_before_the_subscription_is_why_it_does_not_come(
    changes: dict[str, Any], found: bool
) -> None:
    """Where it is known, and nothing of it is retained. Nobody is told then that nothing is kept from the client."""
    last = Publisher("press", "10.0.0.7:9", NOW - 70, connected=True)
    asked = replace(WELL, topic="a/b", publishers=(last,), subscribed_at=NOW - 60)
    codes = {one.code: one for one in findings(replace(asked, **changes))}
    assert ("published_before" in codes, "well" in codes) == (found, changes.get("topic") != "b" and not found)
    if found:
        one = codes["published_before"]
        assert one.text == "the last message of 'a/b' came 70 s ago, by 'press': before it subscribed; none is retained"
        assert one.weight == Weight.LOSES


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_who_published_is_not_for_everybody(role: Role) -> None:
    """When is, and that something keeps messages from the client."""

    async def known(asked: str, topic: str | None) -> Facts:
        last = Publisher("press", "10.0.0.7:9", NOW - 70, connected=True, limited="message_rate of 1 a second")
        return replace(WELL, topic=topic, publishers=(last,), subscribed_at=NOW - 60)

    (route,) = WhyResources(known, lambda: lambda *_args, **_more: True).routes
    call = Call({"client_id": "c"}, {"topic": "a/b"}, caller=Caller("x", role, ()))
    answered = cast(Any, run(cast(Any, route.handler(call))))
    late = "publisher_limited" if role is Role.OPERATOR else "withheld"
    assert [one["code"] for one in answered["findings"]][:2] == ["published_before", late]
    assert ("press" in str(answered), "message_rate" in str(answered)) == (role is Role.OPERATOR,) * 2


def test_a_publisher_that_is_held_off_is_why_a_topic_comes_late() -> None:
    """Of several the last ones, by the rate; to who asks for the topic, too. Of the client itself nothing is said."""
    rate = "message_rate of 1 a second"
    limited = [Publisher(f"press-{number}", "10.0.0.7:9", NOW, connected=True, limited=rate) for number in range(5)]
    free, own = replace(limited[0], client_id="free", limited=None), replace(limited[0], client_id="c")
    asked = replace(WELL, topic="a/b", publishers=(own, free, *limited))
    found = findings(asked)
    assert [one.code for one in found] == ["publisher_limited"] * 3 + ["topic_matches"]
    assert found[0].text == (
        "'press-0' publishes to 'a/b' faster than it may (message_rate of 1 a second), and is held off: it comes late"
    )
    assert (found[0].weight, found[0].helps) == (Weight.DELAYS, f"{EXPLAIN[:-1]}press-0")
    told = topics.answer(TopicFacts(UNKNOWN, "a/b", publishers=tuple(limited)))["findings"]
    assert [one["text"] for one in told if one["code"] == "publisher_limited"] == [one.text for one in found[:3]]
    forgotten = findings(replace(asked, publishers=(replace(own, client_id="d", limited=""),)))
    assert "faster than it may, and" in forgotten[0].text


def test_a_publisher_at_another_node_is_named_too() -> None:
    """By its node; that one knows nothing of the client."""
    late = Publisher("press", "10.0.0.7:9", NOW, connected=True, limited="")
    there = replace(UNKNOWN, node="n2", topic="a/b", publishers=(late,))
    found = together([answer(one, contents=True) for one in (replace(WELL, topic="a/b"), there)], {})["findings"]
    assert [(one["code"], one["node"]) for one in found] == [("publisher_limited", "n2"), ("topic_matches", "n1")]
