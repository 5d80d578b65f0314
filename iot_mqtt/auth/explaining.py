"""May a client do something, and by which rule? For operators: the same rules that decide, asked by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from iot_mqtt.auth.rule_index import RuleList
from iot_mqtt.auth.rules import plain_filter
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.access import OF_NAMES, Action, Principal, form_of
from iot_mqtt.topics import RESERVED, is_reserved, validate_filter, validate_topic

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


def answer(rules: RuleList, who: Principal, question: Question) -> Answer:
    """What the rules say. Raises ``ValueError`` for a question that makes no sense."""
    if question.action not in QUESTIONS:
        raise ValueError(f"{question.action!r} is none of {', '.join(QUESTIONS)}")
    action, before, behind = QUESTIONS[question.action]
    asked = before + question.asked + behind
    _check(action, asked)
    if action is Action.PUBLISH and is_reserved(asked.encode()):
        return Answer(allowed=False, detail=RESERVED)
    qos = max(1, question.qos) if question.action == "command" else question.qos
    rule = rules.deciding(who, action, asked, form_of(qos << 1 | question.retain))
    if rule is None and action in OF_NAMES:
        free = rules.allows(who, action, asked)
        return Answer(allowed=free, detail=_FREE if free else _NUMBERED)
    if rule is None:
        return Answer(allowed=False, detail="no rule speaks of it")
    detail = "the first rule that speaks of it"
    return Answer(rule.allow, detail, rule.source or None, rule.line, rule.text or None)


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
