"""Why a member of a shared group gets nothing of it, or less than others: who gets it instead, and by which rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.broker.facade import GroupShare
from iot_mqtt.topics import parse_shared

#: Members that are named; the rest is counted.
_NAMED: Final = 3
#: Policy → what it keeps together.
_KEPT_TOGETHER: Final = {"hash_client": "of one publisher", "hash_topic": "of one topic"}
#: States of a session that has no room.
_FULL: Final = {"inflight_full": "its window is full", "outbox_full": "it does not read from its connection"}


def findings(facts: Facts) -> Iterator[Finding]:
    """One for each of its groups."""
    for one in facts.shares:
        yield _finding(facts, one)


def _finding(facts: Facts, one: GroupShare) -> Finding:
    name, topics = parse_shared(one.filter) or ("", one.filter)
    group = f"the group {name!r} of {topics!r}"
    others = (*one.here, *one.elsewhere)
    full = _FULL.get(facts.session.state) if facts.session is not None and facts.client is not None else None
    if one.holder is not None:
        text = f"{group} gives everything to one member until that one leaves: {one.holder!r} has it now"
        return Finding("group_held", Weight.LOSES, text, None, facts.node, "mqtt.shared_policy")
    if full is not None and others and not one.keeps_order:
        text = f"{full}, so what this node gives out of {group} goes to {_named(one)}"
        helps = "let the client acknowledge what it gets; its Receive Maximum, or the limit inflight"
        return Finding("group_passes_by", Weight.LOSES, text, None, facts.node, helps)
    if one.policy in _KEPT_TOGETHER and others:
        got = facts.session.delivered if facts.session is not None else 0
        text = (
            f"{group} gives all messages {_KEPT_TOGETHER[one.policy]} to the same member, by their hash: where there "
            f"are few, some members get none; it was sent {got} messages of all its subscriptions, the others are "
            f"{_named(one)}"
        )
        weight = Weight.SAYS if got else Weight.LOSES
        return Finding("group_hashed", weight, text, None, facts.node, "mqtt.shared_policy")
    text = f"it shares {topics!r} with the group {name!r}: each message goes to one member of it"
    text += f", and the others are {_named(one)}" if others else "; nobody else of it is connected"
    return Finding("shared_group", Weight.SAYS, text, None, facts.node, "iot-mqtt ctl subscriptions list")


def _named(one: GroupShare) -> str:
    """Some by name, the rest by number; those of other nodes last."""
    members = [*map(repr, one.here), *(f"{client_id!r} (at another node)" for client_id in one.elsewhere)]
    rest = len(members) - _NAMED
    return ", ".join(members[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
