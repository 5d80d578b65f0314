"""May a client do something, and by which rule? For operators: the same rules that decide, asked by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iot_mqtt.auth.rule_index import RuleList
from iot_mqtt.auth.rules import plain_filter
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.access import OF_NAMES, Action, Principal, form_of
from iot_mqtt.topics import RESERVED, is_notice_of_a_bridge, is_reserved, validate_filter, validate_topic

#: What may be asked → the right, and what stands before and behind what it is asked for.
QUESTIONS: Final = {
    "publish": (Action.PUBLISH, "", ""),
    "subscribe": (Action.SUBSCRIBE, "", ""),
    "receive": (Action.READ, "", ""),
    "replay": (Action.REPLAY, "", ""),
    "command": (Action.PUBLISH, "down/", ""),
    "shadow-read": (Action.SUBSCRIBE, "shadow/", "/+"),
    "shadow-write": (Action.PUBLISH, "shadow/", "/desired"),
    "client": (Action.CLIENT, "", ""),
    "gateway": (Action.GATEWAY, "", ""),
}
_NOTICE: Final = f"{RESERVED}; give the bridge a notification_topic (docs/bridges.md)"
_FREE: Final = "no rule speaks of the name, and none numbers the names of this client: it is free"
_NUMBERED: Final = "no rule speaks of the name, and others number the names of this client"


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a client may do something; ``asked`` is a topic, a filter, a target or a name."""

    action: str
    asked: str
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict, and the rule that gave it."""

    allowed: bool
    detail: str
    #: Where the rule stands; None: no rule speaks of it.
    source: str | None = None
    line: int | None = None
    rule: str | None = None


def beyond_rules(question: Question) -> Answer | None:
    """What no rule can allow, not even to a superuser; None: it is for the rules to say. Raises ``ValueError`` for a
    question that makes no sense.
    """
    action, asked = _right(question)
    _check(action, asked)
    topic = asked.encode()
    if action is not Action.PUBLISH or not is_reserved(topic):
        return None
    return Answer(allowed=False, detail=_NOTICE if is_notice_of_a_bridge(topic) else RESERVED)


def answer(rules: RuleList, who: Principal, question: Question) -> Answer:
    """What the rules say. Raises ``ValueError`` for a question that makes no sense."""
    if (refused := beyond_rules(question)) is not None:
        return refused
    action, asked = _right(question)
    qos = max(1, question.qos) if question.action == "command" else question.qos
    rule = rules.deciding(who, action, asked, form_of(qos << 1 | question.retain))
    if rule is None and action in OF_NAMES:
        free = rules.allows(who, action, asked)
        return Answer(allowed=free, detail=_FREE if free else _NUMBERED)
    if rule is None:
        return Answer(allowed=False, detail="no rule speaks of it")
    detail = "the first rule that speaks of it"
    return Answer(rule.allow, detail, rule.source or None, rule.line, rule.text or None)


def _right(question: Question) -> tuple[Action, str]:
    """The right that it is about, and to what."""
    if question.action not in QUESTIONS:
        raise ValueError(f"{question.action!r} is none of {', '.join(QUESTIONS)}")
    action, before, behind = QUESTIONS[question.action]
    return action, before + question.asked + behind


def _check(action: Action, asked: str) -> None:
    if action in OF_NAMES:
        if not asked:
            raise ValueError("a name is not empty")
        return
    try:
        if action in (Action.SUBSCRIBE, Action.REPLAY):
            validate_filter(asked)
            plain_filter(action, asked)
        else:
            validate_topic(asked)
    except MqttError as error:
        raise ValueError(error.detail) from None
