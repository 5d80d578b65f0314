"""Rules about topics and names: the ACL file, and how its rules decide.

    # everybody, anonymous clients included
    [all]
    deny  publish   plant/+/locked/#
    allow subscribe plant/#

    [user gateway-7]
    allow all       up/gateway-7/#

    allow client    gateway-7-*
    allow gateway   gateway-7

    # users of a group, as the file of users, or whatever else vouched for them, says
    [group operators]
    allow command   line-1/#
    allow shadow    line-1/#

    # clients whose id fits, whoever they are
    [client press-*]
    allow publish   qos<=1 noretain up/%c/#

    # clients that come from there
    [address 10.7.0.0/16]
    deny  publish   retain #

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

Between ``publish`` and its filter there may be conditions, each a word: ``qos<=N``, ``qos>=N``, ``qos=N``, ``retain``,
``noretain``. The rule then speaks only of messages that meet them all, so ``allow publish qos<=1 noretain FILTER``
leaves QoS 2 and retained ones to the rules behind it, and to the no at the end. What was published otherwise is
refused as a whole; nothing is sent on at a lower QoS or without its flag.

``allow|deny command TARGET`` is about commands to devices, ``allow|deny shadow TARGET`` about their shadows. A target
is ``CLIENT`` or ``GATEWAY/DEVICE``, may have wildcards and placeholders, and stands for topics:

- ``allow command T`` allows to publish to ``down/T`` what is a command: QoS 1 or 2, not retained. ``deny command T``
  denies to publish anything there.
- ``shadow-read T`` is the right to subscribe to ``shadow/T/+``, ``shadow-write T`` that to publish there (``desired``,
  and for the device itself ``reported``), ``shadow T`` both.

A rule about names is ``allow|deny client|gateway PATTERN``: which client ids a user may connect with, and as which
gateways it may log in. ``all`` says nothing about names.

- In a pattern ``*`` stands for any text, ``?`` for one character, ``%u`` for the verified user name, sign for sign;
  everything else stands for itself. Without a verified name, an *allow* rule with ``%u`` fits nothing, and a *deny*
  rule takes any text in its place.
- The first rule that speaks of the name decides. If none does, the answer is no where an *allow* rule of the same
  kind applies to the client, and yes elsewhere: names that nobody wrote about are free. What a name stands for is
  guarded all the same, because a session belongs to the user who began it.
- An id that the broker gives to a client that brought none is not asked for.

The pattern of ``[client PATTERN]`` is one of these. A client id is what a client says it is: give rights to it only
where rules about names say who may be called so. ``[address NETWORK]`` is an address or a network (``10.7.0.0/16``,
``fd00::/8``). Where nobody knows the address, its *allow* rules do not apply and its *deny* rules do.

Rules come from several places: ACL files, the grid (``ctl auth rules``), and what a client brought with its proof
(claims of a token; rules without a section, for itself). They are read one behind the other: what a client brought that
denies, the files, the grid, what it brought that allows. So a token takes something away from what its user may, or
adds what no rule speaks of.
"""

from __future__ import annotations

import re
from typing import Final

from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.names import NameRule, checked_pattern
from iot_mqtt.auth.rules import PLACEHOLDERS, AnyRule, Rule, decide
from iot_mqtt.auth.sections import HEADERS, Rules
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.access import ALL_FORMS, OF_NAMES, Action
from iot_mqtt.topics.filters import validate_filter

__all__ = ["BROUGHT", "AnyRule", "Rule", "Rules", "decide", "parse_brought", "parse_rule", "parse_rules"]

_SENDING: Final = frozenset({Action.PUBLISH})
_RECEIVING: Final = frozenset({Action.SUBSCRIBE, Action.READ})
_REPLAYING: Final = frozenset({Action.REPLAY})
_ACTIONS: Final = {
    "publish": _SENDING,
    "write": _SENDING,
    "subscribe": _RECEIVING,
    "read": _RECEIVING,
    "replay": _REPLAYING,
    "all": _SENDING | _RECEIVING | _REPLAYING,
}
#: Rules about targets: what they are about, and where (before the target, behind it).
_TARGETS: Final = {
    "command": (_SENDING, "down/", ""),
    "shadow": (_SENDING | _RECEIVING, "shadow/", "/+"),
    "shadow-read": (_RECEIVING, "shadow/", "/+"),
    "shadow-write": (_SENDING, "shadow/", "/+"),
}
#: The source of rules that a client brought.
BROUGHT: Final = "token"
_NAMES: Final = {action.value: action for action in OF_NAMES}

_RETAINED: Final = 0b101010
_CONDITION: Final = re.compile(r"qos(<=|>=|=)([012])|retain|noretain")
#: Messages that are commands, if they are sent where commands are.
_COMMANDS: Final = 0b010100


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
                raise ValueError(f"a rule stands below one of {HEADERS}")
            else:
                section.append(parse_rule(line, number, path))
        except ValueError as error:
            raise FileError(path, number, str(error)) from None
        except MqttError as error:
            raise FileError(path, number, error.detail) from None
    return rules


def parse_brought(lines: tuple[str, ...]) -> list[AnyRule]:
    """Rules without sections that a client brought with its proof; ``ValueError`` if one of them is none."""
    try:
        return [parse_rule(line.strip(), number, BROUGHT) for number, line in enumerate(lines, start=1)]
    except MqttError as error:
        raise ValueError(error.detail) from None


def _header(line: str) -> str:
    if not line.endswith("]"):
        raise ValueError("a section's line ends in ']'")
    return line[1:-1].strip()


def parse_rule(line: str, number: int, source: str) -> AnyRule:
    """One rule; ``ValueError`` or ``MqttError`` if it is none."""
    # The filter or pattern is the rest of the line: spaces and '#' are part of it.
    words = line.split(None, 2)
    if len(words) != 3 or words[0] not in ("allow", "deny") or words[1] not in {*_ACTIONS, *_TARGETS, *_NAMES}:
        raise ValueError(
            f"a rule is: allow|deny {'|'.join(_ACTIONS)} FILTER, allow|deny {'|'.join(_TARGETS)} TARGET, "
            "or allow|deny client|gateway PATTERN"
        )
    verdict, verb, rest = words
    allow = verdict == "allow"
    if verb in _NAMES:
        return NameRule(allow, _NAMES[verb], checked_pattern(rest), number, line, source)
    forms, rest = _conditions(rest)
    if forms != ALL_FORMS and _ACTIONS.get(verb) != _SENDING:
        raise ValueError("conditions (qos<=1, noretain, …) go with publish")
    if verb in _ACTIONS:
        actions, filter = _ACTIONS[verb], _checked(rest)
    else:
        actions, before, behind = _TARGETS[verb]
        filter = _checked(before + (rest if rest == "#" or rest.endswith("/#") else rest + behind))
        if verb == "command" and allow:
            forms = _COMMANDS
    return Rule(allow, actions, filter, number, forms, line, source)


def _conditions(rest: str) -> tuple[int, str]:
    """The forms that the words before a filter leave, and the filter."""
    forms = ALL_FORMS
    while True:
        word, *behind = rest.split(None, 1)
        condition = _CONDITION.fullmatch(word)
        if condition is None or not behind:
            break
        forms &= _forms_of(word, condition)
        rest = behind[0]
    if not forms:
        raise ValueError("no message meets all of these conditions")
    return forms, rest


def _forms_of(word: str, condition: re.Match[str]) -> int:
    if word == "retain":
        return _RETAINED
    if word == "noretain":
        return ALL_FORMS & ~_RETAINED
    sign, qos = condition[1], int(condition[2])
    meeting = {"<=": range(qos + 1), ">=": range(qos, 3), "=": range(qos, qos + 1)}[sign]
    return sum(0b11 << 2 * one for one in meeting)


def _checked(filter: str) -> str:
    validate_filter(filter)
    if filter.startswith("$share/"):
        raise ValueError("shared subscriptions are judged by the filter behind their group: leave $share/GROUP/ out")
    if filter.startswith("$replay/"):
        raise ValueError("replays are judged by the filter behind their beginning: leave $replay/FROM/ out")
    for level in filter.split("/"):
        if level not in PLACEHOLDERS and any(mark in level for mark in PLACEHOLDERS):
            raise ValueError("%c and %u stand for a whole level")
    return filter
