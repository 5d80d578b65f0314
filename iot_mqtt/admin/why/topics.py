"""Who gets what is published to a topic, and who does not: what one node knows of it, and what that means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from iot_mqtt.admin.why import denials, places, publishers, uplink
from iot_mqtt.admin.why.facts import Denied, Facts, Publisher
from iot_mqtt.admin.why.finding import Finding, Weight, ordered
from iot_mqtt.admin.why.near import Near
from iot_mqtt.uplink.desk import RuleInfo

#: Subscribers who are named one by one as denied or away; the rest is in the lists.
_MOST: Final = 3


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A subscription that matches the topic."""

    client_id: str
    filter: str
    qos: int
    #: The shared group that it is in; None: it gets every message.
    group: str | None
    no_local: bool
    connected: bool
    #: Its messages of QoS 1 and 2 are kept in the log while it is away.
    durable: bool
    #: Whether its rights cover the topic, and the rule that says so.
    allowed: bool
    rule: str | None


@dataclass(frozen=True, slots=True)
class Retained:
    """The retained message of a topic."""

    size: int
    qos: int
    publisher: str


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """At one moment, on one node."""

    #: The node itself, its disk, the grid, the uplink.
    place: Facts
    topic: str
    #: The first ones, and how many there are.
    subscribers: tuple[Subscriber, ...] = ()
    count: int = 0
    publishers: tuple[Publisher, ...] = ()
    denied: tuple[Denied, ...] = ()
    retained: Retained | None = None
    #: QoS of messages that are recorded in the log, whoever wants them.
    recorded: tuple[int, ...] = ()
    #: Rules of the uplink that may take it, the first that counts first.
    rules: tuple[RuleInfo, ...] = ()
    #: Where nobody has subscribed: the filter that misses it by least.
    near: Near | None = None


def answer(facts: TopicFacts) -> dict[str, Any]:
    """What is found, and the facts that it is made of."""
    return {
        "topic": facts.topic,
        "node": facts.place.node,
        "findings": list(map(asdict, ordered(list(findings(facts))))),
        "subscriptions": facts.count,
        "subscribers": list(map(asdict, facts.subscribers)),
        "publishers": list(map(asdict, facts.publishers)),
        "denied": [{"client_id": one.client_id, **asdict(one.trouble)} for one in facts.denied],
        "retained": None if facts.retained is None else asdict(facts.retained),
        "recorded": list(facts.recorded),
        "rules": list(map(asdict, facts.rules)),
    }


def findings(facts: TopicFacts) -> Iterator[Finding]:
    """What keeps messages of the topic from somebody."""
    yield from (uplink.of_rule(facts.place.node, one) for one in facts.rules)
    yield from _subscribers(facts)
    yield from denials.of_all(facts.place, facts.denied)
    yield from publishers.limited(facts.place, facts.topic, facts.publishers)
    # Where nobody asks for a client, these say how the node is.
    yield from places.findings(
        replace(facts.place, client=None, session=None, home=None), needs_uplink=bool(facts.rules)
    )


#: Of one node, and of all that answered.
_NOBODY_HERE: Final = "no session on this node has subscribed to it"
_NOBODY: Final = "no session has subscribed to it"


def _subscribers(facts: TopicFacts) -> Iterator[Finding]:
    node, may = facts.place.node, "iot-mqtt ctl auth may"
    if not facts.count:
        near = facts.near
        text = _NOBODY_HERE
        if near is not None:
            text += f"; the nearest filter is {near.filter!r}: {near.difference}"
        helps = None if near is None or near.instead is None else f"subscribe to {near.instead!r}"
        yield Finding("no_subscriber", Weight.STOPS, text, None, node, helps)
    for one in [one for one in facts.subscribers if not one.allowed][:_MOST]:
        rule = f": {one.rule}" if one.rule else ""
        text = f"{one.client_id!r} has subscribed to {one.filter!r}, but may not receive it{rule}"
        yield Finding("denied_delivery", Weight.LOSES, text, None, node, may)
    away = [one for one in facts.subscribers if not one.connected and one.group is None]
    for one in away[:_MOST]:
        kept = "messages of QoS 1 and 2 wait for it" if one.qos else "it asked for QoS 0, so nothing waits for it"
        text = f"{one.client_id!r} ({one.filter!r}) is not connected: {kept}"
        yield Finding("subscriber_away", Weight.DELAYS, text, None, node, f"iot-mqtt ctl why {one.client_id}")
    groups = {(one.group, one.filter) for one in facts.subscribers if one.group is not None}
    for group, filter in sorted(groups, key=str):
        members = [one for one in facts.subscribers if one.filter == filter]
        there = sum(one.connected for one in members)
        text = f"the group {group!r} shares it: each message goes to one of {there} connected members here"
        weight = Weight.SAYS if there else Weight.DELAYS
        yield Finding("shared_group", weight, text, None, node, "iot-mqtt ctl groups list")


# Several nodes.

_LISTS: Final = ("subscribers", "publishers", "denied")


def together(answers: Sequence[Mapping[str, Any]], missing: Mapping[str, str]) -> dict[str, Any]:
    """One answer: each session and each connection is on one node; what is retained is the same on all."""
    count = sum(one["subscriptions"] for one in answers)
    found = {name: [{**item, "node": one["node"]} for one in answers for item in one[name]] for name in _LISTS}
    found["publishers"].sort(key=lambda one: -one["at"])
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for one in answers:
        for finding in one["findings"]:
            if finding["code"] != "no_subscriber":
                seen.setdefault((finding["code"], finding["text"]), finding)
    if not count:
        seen["no_subscriber", ""] = _nobody(answers)
    listed = sorted(seen.values(), key=lambda one: (-one["weight"], -(one["since"] or 0.0)))
    helps = "iot-mqtt ctl cluster status"
    for node, reason in missing.items():
        text = f"{node} did not answer, and may have more subscribers: {reason}"
        listed.append(asdict(Finding("node_unheard", Weight.DELAYS, text, None, answers[0]["node"], helps)))
    retained = next((one["retained"] for one in answers if one["retained"] is not None), None)
    return {**answers[0], **found, "subscriptions": count, "findings": listed, "retained": retained}


def _nobody(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """That nobody has subscribed to it, with what a node knows that comes near, if one does."""
    said: list[dict[str, Any]]
    said = [one for answer in answers for one in answer["findings"] if one["code"] == "no_subscriber"]
    if len(said) == 1:
        return said[0]
    best = next((one for one in said if one["helps"] is not None), max(said, key=lambda one: len(one["text"])))
    return {**best, "text": _NOBODY + best["text"].removeprefix(_NOBODY_HERE)}
