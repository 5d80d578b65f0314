"""The ``alarms:`` of the rules, read strictly: one frozen ``AlarmRule`` each, or an error that says what to write.

    - name: press too hot
      match: {gateway: "line-*", device: press, tag: [temperature, oil_temperature]}
      kind: threshold
      above: 90            # raised when a value is above it ...
      clear: 85            # ... cleared when one is 85 or less; in between nothing changes
      hold: 10             # and only if it lasts 10 seconds
      severity: critical
      command: {target: "{gateway}/{device}", body: {speed: 0}, expires_in: 60}

``kind: rate`` watches the change in units per second, between a reading and the newest one that is at least ``per``
seconds older. ``kind: missing`` watches for silence of ``missing`` seconds: of a device, or of each tag if the rule
names tags.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from iot_spark.rules import BadRule

Kind = Literal["threshold", "rate", "missing"]

KINDS: Final = ("threshold", "rate", "missing")
SEVERITIES: Final = ("info", "warning", "critical")

_MAX_NAME: Final = 128
_MAX_HOLD: Final = 30 * 86_400.0
#: The readings of so many seconds are kept for each series that such a rule watches.
_MAX_PER: Final = 3600.0
_DEFAULT_PER: Final = 1.0
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_PLACES: Final = frozenset({"gateway", "device", "tag"})
_BOTH: Final = frozenset({"name", "match", "kind", "severity", "command", "clear_command"})
_OF_LEVEL: Final = frozenset({"above", "below", "clear", "hold"})
_OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "threshold": _BOTH | _OF_LEVEL,
    "rate": _BOTH | _OF_LEVEL | {"per"},
    "missing": _BOTH | {"missing"},
}
_OF_COMMAND: Final = frozenset({"target", "body", "expires_in", "retry", "wants_reply"})


@dataclass(frozen=True, slots=True)
class Match:
    """Which series a rule is about. A pattern has ``*`` for any text and ``?`` for any one character."""

    gateway: tuple[str, ...] = ("*",)
    device: tuple[str, ...] = ("*",)
    tag: tuple[str, ...] = ("*",)


@dataclass(frozen=True, slots=True)
class CommandRule:
    """What is sent to a device when an alarm is raised, or cleared."""

    #: With ``{gateway}``, ``{device}`` and ``{tag}`` still in it.
    target: str
    #: JSON, as it will be sent.
    body: str = "null"
    expires_in: float | None = None
    retry: bool = False
    wants_reply: bool = False


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """One rule. Times are seconds."""

    name: str
    kind: Kind
    match: Match = Match()
    #: Which way a value is wrong, and from where on; None of both for ``missing``.
    above: float | None = None
    below: float | None = None
    #: Where it is well again: ``above`` or ``below`` itself, if the rule does not say.
    clear: float | None = None
    #: How long it must last. For ``missing``, how long the silence is.
    hold: float = 0.0
    #: ``rate``: how much older the reading must be that one is compared with.
    per: float = _DEFAULT_PER
    severity: str = "warning"
    command: CommandRule | None = None
    clear_command: CommandRule | None = None

    @property
    def threshold(self) -> float:
        """The number that was passed, for whoever reads the alarm."""
        if self.above is not None:
            return self.above
        return self.hold if self.below is None else self.below

    @property
    def whole_device(self) -> bool:
        """A heartbeat of the device: any tag will do, and there is one alarm for all of them."""
        return self.kind == "missing" and self.match.tag == ("*",)


def read_alarms(found: object) -> tuple[AlarmRule, ...]:
    """The rules of a list as YAML or JSON gives it. None is no rules."""
    if found is None:
        return ()
    if not isinstance(found, Sequence) or isinstance(found, str | bytes):
        raise BadRule("alarms: write a list of rules, each beginning with `- name: ...`")
    rules = tuple(_rule(entry, number) for number, entry in enumerate(found, 1))
    seen: set[str] = set()
    for rule in rules:
        if rule.name in seen:
            raise BadRule(f"alarms: there are two rules named {rule.name!r}; a rule's name is how its alarms are found")
        seen.add(rule.name)
    return rules


def _rule(entry: object, number: int) -> AlarmRule:
    fields = _Fields(entry, f"alarms, rule {number}")
    name = fields.text("name")
    if not name or len(name) > _MAX_NAME:
        raise fields.bad("name", f"give it a name of 1 to {_MAX_NAME} characters")
    fields.where = f"alarms, rule {name!r}"
    kind = fields.text("kind")
    if kind not in KINDS:
        raise fields.bad("kind", f"{kind!r} is none of {', '.join(KINDS)}")
    fields.only(_OF_KIND[kind])
    severity = fields.text("severity", "warning")
    if severity not in SEVERITIES:
        raise fields.bad("severity", f"{severity!r} is none of {', '.join(SEVERITIES)}")
    above, below, clear = (None, None, None) if kind == "missing" else _levels(fields)
    return AlarmRule(
        name=name,
        kind=cast("Kind", kind),
        match=_match(fields),
        above=above,
        below=below,
        clear=clear,
        hold=fields.seconds("missing", None, least=1.0) if kind == "missing" else fields.seconds("hold", 0.0),
        per=fields.seconds("per", _DEFAULT_PER, least=0.001, most=_MAX_PER),
        severity=severity,
        command=_command(fields, "command"),
        clear_command=_command(fields, "clear_command"),
    )


def _levels(fields: _Fields) -> tuple[float | None, float | None, float]:
    above, below, clear = fields.number("above"), fields.number("below"), fields.number("clear")
    if above is not None and below is not None:
        raise fields.bad("below", "a rule has one of above and below; for both ends write two rules")
    if above is not None:
        if clear is not None and clear > above:
            raise fields.bad("clear", f"{clear:g} is more than above: {above:g}, so it would clear while it is raised")
        return above, None, above if clear is None else clear
    if below is None:
        raise fields.bad("above", "say from where on it is an alarm: `above: 90`, or `below: 5`")
    if clear is not None and clear < below:
        raise fields.bad("clear", f"{clear:g} is less than below: {below:g}, so it would clear while it is raised")
    return None, below, below if clear is None else clear


def _match(fields: _Fields) -> Match:
    if "match" not in fields.found:
        return Match()
    inner = _Fields(fields.found["match"], f"{fields.where}, match")
    inner.only(_PLACES)
    return Match(gateway=inner.patterns("gateway"), device=inner.patterns("device"), tag=inner.patterns("tag"))


def _command(fields: _Fields, key: str) -> CommandRule | None:
    if fields.found.get(key) is None:
        return None
    inner = _Fields(fields.found[key], f"{fields.where}, {key}")
    inner.only(_OF_COMMAND)
    target = inner.text("target")
    if not target or target.startswith("/") or set("+#\0") & set(target):
        raise inner.bad(
            "target", f'{target!r} is no target; write "{{gateway}}/{{device}}", or one such as "gw7/press"'
        )
    for place in _PLACEHOLDER.findall(target):
        if place not in _PLACES:
            raise inner.bad("target", f"{{{place}}} is none of {{gateway}}, {{device}}, {{tag}}")
    if set("{}") & set(_PLACEHOLDER.sub("", target)):
        raise inner.bad("target", f"{target!r} has a brace without its other half")
    try:
        body = json.dumps(inner.found.get("body"), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise inner.bad("body", f"it must be what JSON can hold: {error}")
    return CommandRule(
        target=target,
        body=body,
        expires_in=None if inner.found.get("expires_in") is None else inner.seconds("expires_in", None, least=1.0),
        retry=inner.flag("retry"),
        wants_reply=inner.flag("wants_reply"),
    )


class _Fields:
    """A mapping of a rule, and where it stands, for the errors."""

    def __init__(self, found: object, where: str) -> None:
        if not isinstance(found, Mapping):
            raise BadRule(f"{where}: write keys and values, not {found!r}")
        self.found: Mapping[object, object] = found
        self.where = where

    def bad(self, key: str, why: str) -> BadRule:
        return BadRule(f"{self.where}, {key}: {why}")

    def only(self, known: frozenset[str]) -> None:
        for key in self.found:
            if key not in known:
                raise BadRule(f"{self.where}: there is no {key!r} here; there is {', '.join(sorted(known))}")

    def text(self, key: str, default: str | None = None) -> str:
        value = self.found.get(key, default)
        if value is None:
            raise self.bad(key, "is missing")
        if not isinstance(value, str):
            raise self.bad(key, f"write a text, not {value!r}")
        return value

    def number(self, key: str) -> float | None:
        value = self.found.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.bad(key, f"write a number, not {value!r}")
        return float(value)

    def seconds(self, key: str, default: float | None, *, least: float = 0.0, most: float = _MAX_HOLD) -> float:
        value = self.number(key)
        if value is None:
            if default is None:
                raise self.bad(key, "is missing: write a number of seconds")
            return default
        if not least <= value <= most:
            raise self.bad(key, f"{value:g} is not between {least:g} and {most:g} seconds")
        return value

    def flag(self, key: str) -> bool:
        value = self.found.get(key, False)
        if not isinstance(value, bool):
            raise self.bad(key, f"write true or false, not {value!r}")
        return value

    def patterns(self, key: str) -> tuple[str, ...]:
        value = self.found.get(key, "*")
        several = [value] if isinstance(value, str) else value
        if not isinstance(several, Sequence) or not several or not all(isinstance(one, str) and one for one in several):
            raise self.bad(key, f'write a pattern such as "press-*", or a list of them, not {value!r}')
        patterns = tuple(cast("Sequence[str]", several))
        return ("*",) if "*" in patterns else patterns
