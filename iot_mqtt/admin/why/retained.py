"""Why nothing comes with a subscription at once: what is retained is not asked for, or all came before, or none is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.topics import parse_shared
from iot_mqtt.values import Subscription

_CODE: Final = "retained_not_sent"
#: Retain Handling [MQTT-3.3.1-10] [MQTT-3.3.1-11].
_IF_NEW, _NEVER = 1, 2
_HELPS: Final = "subscribe with Retain Handling 0"


def of_subscriptions(facts: Facts) -> Iterator[Finding]:
    """Those that ask for none; one finding for all."""
    asking = [one.filter for one in facts.subscriptions if one.retain_handling == _NEVER]
    if asking and facts.topic is None:
        rest = f" and {len(asking) - 1} more ask" if asking[1:] else " asks"
        text = f"its subscription {asking[0]!r}{rest} for no retained messages (Retain Handling 2)"
        yield Finding(_CODE, Weight.SAYS, text, None, facts.node, _HELPS)


def of_topic(facts: Facts, topic: str) -> Iterator[Finding]:
    """Where something is retained, and none of its subscriptions brings it."""
    matching = facts.matching(topic) if facts.retained else []
    reasons = [reason for one in matching if (reason := _reason(facts, one)) is not None]
    if matching and len(reasons) == len(matching):
        why, helps = reasons[0]
        text = f"what is retained at {topic!r} does not come with {matching[0].filter!r}{why}"
        yield Finding(_CODE, Weight.LOSES, text, None, facts.node, helps)


def published_before(facts: Facts, topic: str) -> Iterator[Finding]:
    """What was published last came before the subscription, so that there is nothing to be had."""
    last, since = next(iter(facts.publishers), None), facts.subscribed_at
    if last is None or since is None or last.at >= since or facts.retained or not facts.matching(topic):
        return
    whom = f", by {last.client_id!r}" if last.client_id else ""
    text = f"the last message of {topic!r} came {facts.now - last.at:.0f} s ago{whom}: before it subscribed; "
    text += "none is retained"
    helps = "publish with retain, or let the client keep its session and subscribe earlier"
    yield Finding("published_before", Weight.LOSES, text, last.at, facts.node, helps)


def _reason(facts: Facts, one: Subscription) -> tuple[str, str] | None:
    """And what would help; None: it brings retained messages, as far as can be seen."""
    shared = parse_shared(one.filter)
    if shared is not None:
        return ": it is shared, and members of a group get no retained messages", f"subscribe to {shared[1]!r} as well"
    if one.retain_handling == _NEVER:
        return ": it asks for no retained messages (Retain Handling 2)", _HELPS
    session, client = facts.session, facts.client
    # A session that began with the connection had no subscription before; of another one nobody knows when it had it.
    resumed = session is not None and client is not None and session.created_at < client.connected_at
    if one.retain_handling == _IF_NEW and resumed:
        return " if that was there before: it asks for them only when it is new (Retain Handling 1)", _HELPS
    return None
