"""What one rule about topics says, and how a list of them decides. ``acl`` has their grammar.

``decide`` reads a list from its first rule to its last: it is what rights mean. ``rule_index`` finds the same answer
without reading every rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from iot_mqtt.auth.names import NameRule, decide_name
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.access import ALL_FORMS, OF_NAMES, Action, Principal, form_of
from iot_mqtt.topics.filters import covers, matches, overlaps, parse_replay, parse_shared

#: What is asked of a filter, not of a topic.
OF_FILTERS: Final = frozenset({Action.SUBSCRIBE, Action.REPLAY})
PLACEHOLDERS: Final = ("%c", "%u")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line about topics. Two rules that say the same are equal, wherever they stand."""

    allow: bool
    actions: frozenset[Action]
    filter: str
    line: int = field(default=0, compare=False)
    #: The forms of PUBLISH that it speaks of (``ports.access.form_of``).
    forms: int = ALL_FORMS
    #: As it was written, and where.
    text: str = field(default="", compare=False)
    source: str = field(default="", compare=False)

    def decides(self, who: Principal, action: Action, asked: str, form: int = form_of(0)) -> bool:
        """True if this rule speaks of it; ``asked`` is a topic, or for SUBSCRIBE and REPLAY a plain filter."""
        if action not in self.actions or (action is Action.PUBLISH and not self.forms & form):
            return False
        filter = self.filter_for(who)
        if filter is None:
            return False
        if action not in OF_FILTERS:
            return matches(filter, asked)
        return covers(filter, asked) if self.allow else overlaps(filter, asked)

    def filter_for(self, who: Principal) -> str | None:
        """The filter with its names filled in; None if an allow rule has no name to fill in."""
        if "%" not in self.filter:
            return self.filter
        levels = self.filter.split("/")
        for place, level in enumerate(levels):
            if level in PLACEHOLDERS:
                name = who.client_id if level == "%c" else who.owner
                if not _usable(name, first=place == 0):
                    return None if self.allow else "/".join([*levels[:place], "#"])
                levels[place] = name
        return "/".join(levels)


def _usable(name: str, *, first: bool) -> bool:
    """Whether a name that a client chose is one plain level, and so cannot reach beyond the rule."""
    return bool(name) and not any(sign in name for sign in "+#/\0") and not (first and name[0] == "$")


#: One line of the file.
AnyRule = Rule | NameRule


def decide(rules: Iterable[AnyRule], who: Principal, action: Action, asked: str, form: int = form_of(0)) -> bool:
    """The first rule that speaks of it decides, and no rule means no; about a name see ``names.decide_name``."""
    if action in OF_NAMES:
        return decide_name((rule for rule in rules if isinstance(rule, NameRule)), who, action, asked)
    plain = plain_filter(action, asked)
    if not plain:
        return False
    for rule in rules:
        if isinstance(rule, Rule) and rule.decides(who, action, plain, form):
            return rule.allow
    return False


def plain_filter(action: Action, asked: str) -> str:
    """What rules are held against: of a shared filter or a replay the filter behind it; "" if there is none."""
    if action not in OF_FILTERS:
        return asked
    try:
        prefixed = parse_shared(asked) or parse_replay(asked)
    except MqttError:
        return ""
    return prefixed[1] if prefixed else asked
