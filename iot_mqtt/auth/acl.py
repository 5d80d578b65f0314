"""Rules about topics and names: the ACL file, and how its rules decide.

    # everybody, anonymous clients included
    [all]
    deny  publish   plant/+/locked/#
    allow subscribe plant/#

    [user gateway-7]
    allow all       up/gateway-7/#

    allow client    gateway-7-*
    allow gateway   gateway-7

    # clients that named no user, or whose name nobody verified
    [anonymous]
    allow read      public/#

A rule about topics is ``allow|deny publish|subscribe|replay|all FILTER``, the filter being the rest of the line.
``write`` and ``read`` are mosquitto's words for ``publish`` and ``subscribe``. A will is published like anything
else; whoever may subscribe may receive. ``replay`` is the right to what was published in the past: a subscription
that begins there (``$replay/<from>/<filter>``) needs it, and the right to subscribe as well. ``all`` has all three.

- The sections that apply to a client are read as one list, in the order of the file. The first rule that speaks
  of what is asked decides; if none does, the answer is no.
- A subscription is *allowed* by a rule whose filter covers all that it asks for, and *denied* by a rule that
  meets any of it, and so is a replay. Shared subscriptions are judged by the filter behind their group, replays
  by the one behind their beginning.
- ``%c`` and ``%u``, each as a whole level, are the client's id and its verified user name. One that is
  missing or has ``+``, ``#`` or ``/`` in it fits no *allow* rule, and a *deny* rule then covers all from that level on.
- A topic that begins with ``$`` must be named: ``#`` and ``+/x`` say nothing about it, and neither does ``%c/x``.

A rule about names is ``allow|deny client|gateway PATTERN``: which client ids a user may connect with, and as which
gateways it may log in. ``all`` says nothing about names.

- In a pattern ``*`` stands for any text, ``?`` for one character, ``%u`` for the verified user name, sign for sign;
  everything else stands for itself. Without a verified name, an *allow* rule with ``%u`` fits nothing, and a *deny*
  rule takes any text in its place.
- The first rule that speaks of the name decides. If none does, the answer is no where an *allow* rule of the same
  kind applies to the client, and yes elsewhere: names that nobody wrote about are free. What a name stands for is
  guarded all the same, because a session belongs to the user who began it.
- An id that the broker gives to a client that brought none is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.names import NameRule, checked_pattern, decide_name
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.access import OF_NAMES, Action, Principal
from iot_mqtt.topics.filters import covers, matches, overlaps, parse_replay, parse_shared, validate_filter

_SENDING = frozenset({Action.PUBLISH})
_RECEIVING = frozenset({Action.SUBSCRIBE, Action.READ})
_REPLAYING = frozenset({Action.REPLAY})
_ACTIONS = {
    "publish": _SENDING,
    "write": _SENDING,
    "subscribe": _RECEIVING,
    "read": _RECEIVING,
    "replay": _REPLAYING,
    "all": _SENDING | _RECEIVING | _REPLAYING,
}
_NAMES = {action.value: action for action in OF_NAMES}
#: What is asked of a filter, not of a topic.
_OF_FILTERS = frozenset({Action.SUBSCRIBE, Action.REPLAY})
_PLACEHOLDERS = ("%c", "%u")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line about topics. Two rules that say the same are equal, wherever they stand."""

    allow: bool
    actions: frozenset[Action]
    filter: str
    line: int = field(default=0, compare=False)

    def decides(self, who: Principal, action: Action, asked: str) -> bool:
        """True if this rule speaks of it; ``asked`` is a topic, or for SUBSCRIBE and REPLAY a plain filter."""
        if action not in self.actions:
            return False
        filter = self._filter_for(who)
        if filter is None:
            return False
        if action not in _OF_FILTERS:
            return matches(filter, asked)
        return covers(filter, asked) if self.allow else overlaps(filter, asked)

    def _filter_for(self, who: Principal) -> str | None:
        """The filter with its names filled in; None if an allow rule has no name to fill in."""
        if "%" not in self.filter:
            return self.filter
        levels = self.filter.split("/")
        for place, level in enumerate(levels):
            if level in _PLACEHOLDERS:
                name = _name(who, level)
                if not _usable(name, first=place == 0):
                    return None if self.allow else "/".join([*levels[:place], "#"])
                levels[place] = name
        return "/".join(levels)


def _name(who: Principal, placeholder: str) -> str:
    if placeholder == "%c":
        return who.client_id
    return who.owner


def _usable(name: str, *, first: bool) -> bool:
    """Whether a name that a client chose is one plain level, and so cannot reach beyond the rule."""
    return bool(name) and not any(sign in name for sign in "+#/\0") and not (first and name[0] == "$")


#: One line of the file.
AnyRule = Rule | NameRule


class Rules:
    """All rules of a file, by whom they are about."""

    __slots__ = ("_everybody", "_anonymous", "_users", "_merged")

    def __init__(self) -> None:
        self._everybody: list[AnyRule] = []
        self._anonymous: list[AnyRule] = []
        self._users: dict[str, list[AnyRule]] = {}
        #: By user, None for anonymous clients; who has no rules of his own shares those of "".
        self._merged: dict[str | None, tuple[AnyRule, ...]] = {}

    def section(self, header: str) -> list[AnyRule]:
        """The rules below ``[header]``; ``ValueError`` if there can be no such section."""
        word, _, name = header.partition(" ")
        match word, name.strip():
            case "all", "":
                return self._everybody
            case "anonymous", "":
                return self._anonymous
            case "user", user if user:
                return self._users.setdefault(user, [])
        raise ValueError(f"[{header}] is none of [all], [anonymous] and [user NAME]")

    def of(self, who: Principal) -> tuple[AnyRule, ...]:
        """The rules that apply to a client, in the order of the file."""
        user = None if who.anonymous or who.username is None else who.username
        if user is not None and user not in self._users:
            user = ""
        merged = self._merged.get(user)
        if merged is None:
            own = self._anonymous if user is None else self._users.get(user, [])
            merged = self._merged[user] = tuple(sorted([*self._everybody, *own], key=lambda rule: rule.line))
        return merged


def decide(rules: Iterable[AnyRule], who: Principal, action: Action, asked: str) -> bool:
    """The first rule that speaks of it decides, and no rule means no; about a name see ``names.decide_name``."""
    if action in OF_NAMES:
        return decide_name((rule for rule in rules if isinstance(rule, NameRule)), who, action, asked)
    if action in _OF_FILTERS:
        try:
            prefixed = parse_shared(asked) or parse_replay(asked)
        except MqttError:
            return False
        asked = prefixed[1] if prefixed else asked
    if not asked:
        return False
    for rule in rules:
        if isinstance(rule, Rule) and rule.decides(who, action, asked):
            return rule.allow
    return False


def parse_rules(text: str, path: str) -> Rules:
    """Read an ACL file; ``FileError`` names the first line that is wrong."""
    rules = Rules()
    section: list[AnyRule] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        try:
            if line.startswith("["):
                section = rules.section(_header(line))
            elif section is None:
                raise ValueError("a rule stands below [all], [anonymous] or [user NAME]")
            else:
                section.append(_rule(line, number))
        except ValueError as error:
            raise FileError(path, number, str(error)) from None
        except MqttError as error:
            raise FileError(path, number, error.detail) from None
    return rules


def _header(line: str) -> str:
    if not line.endswith("]"):
        raise ValueError("a section's line ends in ']'")
    return line[1:-1].strip()


def _rule(line: str, number: int) -> AnyRule:
    # The filter or pattern is the rest of the line: spaces and '#' are part of it.
    words = line.split(None, 2)
    if len(words) != 3 or words[0] not in ("allow", "deny") or (words[1] not in _ACTIONS and words[1] not in _NAMES):
        raise ValueError(f"a rule is: allow|deny {'|'.join(_ACTIONS)} FILTER, or allow|deny client|gateway PATTERN")
    verdict, verb, filter = words
    if verb in _NAMES:
        return NameRule(verdict == "allow", _NAMES[verb], checked_pattern(filter), number)
    validate_filter(filter)
    if filter.startswith("$share/"):
        raise ValueError("shared subscriptions are judged by the filter behind their group: leave $share/GROUP/ out")
    if filter.startswith("$replay/"):
        raise ValueError("replays are judged by the filter behind their beginning: leave $replay/FROM/ out")
    for level in filter.split("/"):
        if level not in _PLACEHOLDERS and any(mark in level for mark in _PLACEHOLDERS):
            raise ValueError("%c and %u stand for a whole level")
    return Rule(verdict == "allow", _ACTIONS[verb], filter, number)
