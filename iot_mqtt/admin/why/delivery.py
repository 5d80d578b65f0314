"""Why a client that may come does not get its messages: its window, its connection, its rights, its subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.admin.why import denials, publishers, retained, shared_groups, uplink
from iot_mqtt.admin.why.connection import rule_text
from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.admin.why.near import nearest, plain_filter
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.limits import NoRoom
from iot_mqtt.ports.recent import Trouble
from iot_mqtt.topics import matches

#: Near misses and commands that are named.
_MOST: Final = 3
#: Comparisons of topics with filters, about, and topics that are looked at whatever that takes.
_COMPARED: Final = 5_000
_TOPICS: Final = 10

#: What was dropped or refused → what is the matter, and what would help.
_DROPS: Final[dict[str, tuple[str, str, str]]] = {
    Drop.OUTBOX_FULL: (
        "outbox_full",
        "QoS 0 messages were dropped, because the client does not read from its connection fast enough",
        "subscribe with QoS 1, or let the client read faster; listeners.<name>.outbox.high",
    ),
    Drop.QUEUE_FULL: (
        "queue_full",
        "messages were dropped, because as many wait for it as may",
        "mqtt.max_queued_messages, or the limit queue_messages (iot-mqtt ctl limits explain)",
    ),
    Drop.QUEUE_BYTES: (
        "queue_full",
        "messages were dropped, because as many bytes wait for it as may",
        "mqtt.max_queued_bytes, or the limit queue_bytes (iot-mqtt ctl limits explain)",
    ),
    Drop.QUEUES_FULL: (
        "queue_full",
        "messages were dropped, because too much waits for all sessions, and it has its part of that",
        "mqtt.max_queued_bytes_in_all",
    ),
    Drop.EXPIRED: (
        "message_expired",
        "messages were dropped, because their expiry interval was over before they could be sent",
        "let the publisher send a longer Message Expiry Interval",
    ),
    Drop.TOO_LARGE: (
        "packet_too_large",
        "messages were dropped, because they are larger than the client's Maximum Packet Size",
        "let the client name a larger Maximum Packet Size in CONNECT, or none",
    ),
    Drop.OFFLINE_QOS0: (
        "offline_qos0",
        "QoS 0 messages came while it was not connected, and are kept for nobody",
        "publish and subscribe with QoS 1",
    ),
    Drop.NOT_AUTHORIZED: (
        "denied_delivery",
        "messages that it has subscribed to were not delivered, because it may not receive their topic",
        "iot-mqtt ctl auth may",
    ),
    Drop.RETAINED_QUOTA: (
        "retained_limit",
        "what it published was delivered but not retained: its user has as many retained messages as it may",
        "the limits retained_messages and retained_bytes (iot-mqtt ctl limits explain)",
    ),
    Drop.RETENTION: (
        "retention_over",
        "messages were dropped from the log before it came for them",
        "log.retention",
    ),
    Drop.REJECTED: ("rejected_by_client", "the client itself refused messages (a reason of 0x80 or more)", ""),
    Drop.DISK_FULL: ("disk_full", "messages were dropped, because the disk is full", "log.disk_limit"),
    Drop.COMMAND_OVER: ("command_over", "commands were not sent, because they are over", "iot-mqtt ctl commands list"),
    Drop.UNSUBSCRIBED: ("unsubscribed", "messages of a replay were dropped, because the client gave it up", ""),
    "refused_retained": (
        "retained_limit",
        "what it wanted to have retained was refused: its user has as many retained messages as it may",
        "the limits retained_messages and retained_bytes (iot-mqtt ctl limits explain)",
    ),
    "refused_disk_full": (
        "disk_full",
        "what it published was refused, because the disk is full",
        "make room, or log.disk_limit",
    ),
    "unretained_disk_full": (
        "disk_full",
        "what it published at QoS 0 was delivered but not retained, because the disk is full",
        "make room, or log.disk_limit",
    ),
    "repeated_readings": (
        "repeated_readings",
        "its readings are not published, because their numbers were taken before",
        "a sequence of its codec that grows for ever, or none (docs/plugins.md); iot-mqtt ctl devices forget-sequence",
    ),
    "lowered_qos": ("qos_lowered", "a subscription was granted a lower QoS than it asked for", "mqtt.max_qos"),
    "limited": (
        "rate_limited",
        "it publishes faster than it may, and is not read from for a while each time",
        "iot-mqtt ctl limits explain",
    ),
}
#: What its rights did not cover → the code, the question that the rules are asked, and what is the matter.
_DENIALS: Final = {
    "denied_publish": ("denied_publish", "publish", "it may not publish to"),
    "denied_subscribe": ("denied_subscribe", "subscribe", "it may not subscribe to"),
    "denied_replay": ("denied_subscribe", "replay", "it may not have the past of"),
    "denied_withdrawn": ("subscription_withdrawn", "subscribe", "its subscription was withdrawn, for it may not have"),
    "denied_will": ("will_denied", "publish", "it may not publish its will to"),
}
_REFUSED: Final = "refused_subscription"
#: What refused a subscription → what would help.
_NO_ROOM: Final[dict[str, str]] = {
    NoRoom.CLIENT: "mqtt.max_subscriptions_per_client",
    NoRoom.LIMITS: "iot-mqtt ctl limits explain --client {}",
    NoRoom.NODE: "mqtt.max_subscriptions",
    NoRoom.NODE_BYTES: "mqtt.max_subscription_bytes",
}
#: Those that are why a client has subscribed to nothing.
_OF_SUBSCRIPTIONS: Final = frozenset({"denied_subscribe", "denied_replay", "denied_withdrawn", _REFUSED})
_SAYS: Final = frozenset({Drop.OFFLINE_QOS0, Drop.UNSUBSCRIBED, Drop.REJECTED, "lowered_qos"})


def findings(facts: Facts) -> Iterator[Finding]:
    """All that has to do with what it is sent."""
    yield from _flow(facts)
    for one in facts.troubles:
        yield from _trouble(facts, one)
    yield from _refused_subscriptions(facts)
    yield from _subscriptions(facts)
    yield from shared_groups.findings(facts)
    yield from _topic(facts)
    yield from denials.of_publishers(facts)
    if facts.topic is not None:
        # Of itself it is said above.
        others = (one for one in facts.publishers if one.client_id != facts.asked)
        yield from publishers.limited(facts, facts.topic, others)
    yield from uplink.acknowledgements(facts)
    yield from _commands(facts)


# Flow.


def _flow(facts: Facts) -> Iterator[Finding]:
    session, client = facts.session, facts.client
    if session is None or client is None:
        return
    if session.state == "inflight_full":
        text = (
            f"its window is full: {session.inflight} messages were sent and are not acknowledged, "
            f"{session.queued} and {session.backlog or 0} in the log wait behind them"
        )
        helps = "let the client acknowledge what it gets; its Receive Maximum, or the limit inflight"
        yield Finding("window_full", Weight.STOPS, text, None, facts.node, helps)
    elif session.state == "outbox_full" or not client.writable:
        text = f"it does not read: {client.outbox_bytes} bytes wait in its connection from {client.peer}"
        helps = "let the client, or the network to it, read faster; listeners.<name>.outbox.high"
        yield Finding("slow_reader", Weight.STOPS, text, None, facts.node, helps)
    elif session.state == "reading":
        text = f"it is reading what it missed: {session.backlog or 0} messages, {session.lag} batches behind"
        yield Finding("reading", Weight.DELAYS, text, client.connected_at, facts.node)
    elif session.state == "committing":
        yield Finding("committing", Weight.DELAYS, "its messages wait for the store", None, facts.node)
    if client.paused is not None:
        yield _paused(facts, client.paused)


#: By the reason (``budget.Pause``): the code, until when or why, and what would help.
_PAUSES: Final[dict[str, tuple[str, str, str | None]]] = {
    "disk_full": ("disk_full", "until the disk has room for what it publishes", "log.disk_limit"),
    "rate": ("rate_limited", "for a moment, because it publishes faster than it may", "iot-mqtt ctl limits explain"),
    "uncommitted": ("committing", "until the store has taken what waits", "iot-mqtt ctl status"),
    "uplink": ("uplink_behind", "until the uplink has taken what waits", "iot-mqtt ctl uplink status"),
    "lookup": ("paused", "until it is known whether another node has accepted its command", None),
    "turn": ("paused", "for a moment, because it has sent much at once, and others go first", None),
}


def _paused(facts: Facts, why: str) -> Finding:
    code, text, helps = _PAUSES[why]
    return Finding(code, Weight.DELAYS, f"it is not read from {text}", None, facts.node, helps)


# What was dropped, and what was denied.


def _trouble(facts: Facts, one: Trouble) -> Iterator[Finding]:
    weight: int = facts.weight(one)
    denial = _DENIALS.get(one.code)
    if denial is not None:
        code, question, text = denial
        rule = rule_text(facts, question, one.topic, one.detail)
        said = f" ({one.detail})" if one.detail else ""
        text = f"{text} {one.topic!r}{said}, {_times(one)}{_as(facts)}{rule}"
        if _is_missed(facts, one):
            weight = Weight.STOPS + 1
        yield Finding(code, weight, text, one.last, facts.node, "iot-mqtt ctl auth may")
    elif one.code == Drop.SESSION_ENDED:
        how = f": {one.detail}" if one.detail else ""
        waited = "1 message" if one.count == 1 else f"{one.count} messages"
        text = f"its session ended with {waited} waiting, now lost{how}"
        helps = "a longer session expiry, and no clean start, keep them"
        yield Finding("session_ended", weight, text, one.last, facts.node, helps)
    elif one.code in _DROPS:
        code, text, helps = _DROPS[one.code]
        rule = rule_text(facts, "receive", one.topic, "") if one.code == Drop.NOT_AUTHORIZED else ""
        where = f" ({one.topic!r})" if one.topic else ""
        detail = f", {one.detail}" if one.detail else ""
        weight = Weight.SAYS if one.code in _SAYS else weight
        text = f"{text}: {_times(one)}{where}{detail}{rule}"
        yield Finding(code, weight, text, one.last, facts.node, helps or None)


def _refused_subscriptions(facts: Facts) -> Iterator[Finding]:
    """One finding for each reason, with the filter that is missed, else with the last one."""
    alike: dict[str, list[Trouble]] = {}
    for one in facts.troubles:
        if one.code == _REFUSED:
            alike.setdefault(one.detail, []).append(one)
    for detail, refused in alike.items():
        missed = [one for one in refused if _is_missed(facts, one)]
        one = (missed or refused)[0]
        weight = Weight.STOPS + 1 if missed else facts.weight(one)
        count = sum(it.count for it in refused)
        text = f"the subscription {one.topic!r} was refused"
        if count > 1:
            text = (
                f"subscriptions were refused {count} times, {'one of them' if missed else 'the last one'} {one.topic!r}"
            )
        text += f": {detail}" if detail else ""
        helps = "mqtt.max_topic_levels" if detail.endswith("levels") else _NO_ROOM.get(detail, "")
        yield Finding("subscription_refused", weight, text, one.last, facts.node, helps.format(facts.asked) or None)


def _is_missed(facts: Facts, one: Trouble) -> bool:
    """Whether that subscription would bring what the client does not get: it has no other one."""
    if one.code not in _OF_SUBSCRIPTIONS or facts.session is None or facts.weight(one) is Weight.WAS:
        return False
    if facts.topic is None or not facts.session.subscriptions:
        return not facts.session.subscriptions
    return matches(plain_filter(one.topic), facts.topic) and not facts.matching(facts.topic)


def _times(one: Trouble) -> str:
    return "once" if one.count == 1 else f"{one.count} times"


def _as(facts: Facts) -> str:
    return f", as user {facts.users[0]!r}" if facts.users else ", without a user"


# Subscriptions.


def _subscriptions(facts: Facts) -> Iterator[Finding]:
    session = facts.session
    if session is None:
        return
    if not session.subscriptions:
        text = "it has subscribed to nothing: no message is for it"
        if facts.client is not None and facts.client.clean_start:
            text += "; it connected with clean start: if it had a session before, that has ended"
        yield Finding("no_subscription", Weight.STOPS, text, session.created_at, facts.node)
    for one in facts.subscriptions:
        if one.no_local:
            text = f"its subscription {one.filter!r} is no-local: what it publishes itself does not come back to it"
            yield Finding("no_local", Weight.SAYS, text, None, facts.node, "subscribe without No Local")
    yield from retained.of_subscriptions(facts)


def _topic(facts: Facts) -> Iterator[Finding]:
    """The topic that was asked for, and topics that somebody publishes to and that just miss a subscription."""
    session = facts.session
    if session is None:
        return
    filters = [one.filter for one in facts.subscriptions]
    if facts.topic is not None:
        yield _asked(facts, filters, facts.topic)
        yield from retained.of_topic(facts, facts.topic)
        yield from retained.published_before(facts, facts.topic)
        return
    said = 0
    for topic in facts.unwanted[: max(_TOPICS, _COMPARED // len(filters))] if filters else ():
        near = nearest(filters, topic, certain=True)
        if near is not None and _may(facts, "receive", topic):
            said += 1
            text = f"somebody publishes to {topic!r}, and nobody gets it; it has {near.filter!r}: {near.difference}"
            yield Finding("near_miss", Weight.DELAYS, text, None, facts.node, _instead(facts, near.instead))
        if said == _MOST:
            return


def _asked(facts: Facts, filters: list[str], topic: str) -> Finding:
    matching = facts.matching(topic)
    if not matching:
        near = nearest(filters, topic)
        if near is None:
            text = f"none of its {len(filters)} subscriptions matches {topic!r}, and none comes near it"
            return Finding("no_matching_subscription", Weight.STOPS, text, None, facts.node)
        text = f"no subscription matches {topic!r}; the nearest is {near.filter!r}: {near.difference}"
        return Finding("no_matching_subscription", Weight.STOPS, text, None, facts.node, _instead(facts, near.instead))
    if not _may(facts, "receive", topic):
        rule = rule_text(facts, "receive", topic, "")
        text = f"{matching[0].filter!r} matches {topic!r}, but it may not receive that{_as(facts)}{rule}"
        return Finding("denied_delivery", Weight.STOPS, text, None, facts.node, "iot-mqtt ctl auth may")
    if all(one.no_local for one in matching):
        text = f"{matching[0].filter!r} matches {topic!r}, but is no-local: what it publishes itself does not come back"
        return Finding("no_local", Weight.LOSES, text, None, facts.node, "subscribe without No Local")
    taken = uplink.only(facts)
    if taken is not None:
        return taken
    text = f"{matching[0].filter!r} (QoS {matching[0].qos}) matches {topic!r}"
    text += "" if facts.rights("receive", topic, 0, False) is None else ", and it may receive that"  # noqa: FBT003
    return Finding("topic_matches", Weight.SAYS, text, None, facts.node)


def _may(facts: Facts, action: str, asked: str) -> bool:
    """As far as that can be known."""
    answer = facts.rights(action, asked, 0, False)  # noqa: FBT003 - the signature of ``Rights``
    return answer is None or answer.allowed


def _instead(facts: Facts, filter: str | None) -> str | None:
    """Nobody is told to subscribe to what he may not have."""
    return None if filter is None or not _may(facts, "subscribe", filter) else f"subscribe to {filter!r}"


# Commands.


_STATES: Final = {
    State.EXPIRED: ("command_expired", "expired before it was sent: its deadline was over"),
    State.FAILED: ("command_failed", "failed"),
    State.UNCERTAIN: ("command_uncertain", "was sent, and nothing came back"),
    State.QUEUED: ("command_waits", "waits to be sent"),
}


def _commands(facts: Facts) -> Iterator[Finding]:
    for one in facts.commands[:_MOST]:
        if one.state in _STATES:
            yield _command(facts, one)


def _command(facts: Facts, one: StoredCommand) -> Finding:
    code, said = _STATES[one.state]
    detail = f" ({one.detail})" if one.detail else ""
    weight = Weight.DELAYS if one.state is State.QUEUED else Weight.LOSES
    text = f"the command {one.id} to {one.target!r} {said}{detail}"
    return Finding(code, weight, text, one.changed_at, facts.node, f"iot-mqtt ctl commands show {one.id}")
