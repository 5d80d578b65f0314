"""One entry of ``uplink.rules``, and the list of them: what can be written, and what is said about mistakes.

What a rule asks for comes in two parts. Filter and QoS are known when a message is published: they decide whether it
is recorded for the uplink, and who else gets it. What a message says (``gateway``, ``device``, ``codec``, ``when``) is
looked at when it is read from the log and decides which rule it goes by. A publish thus never waits for a payload to be
parsed, and ``only`` can depend on filter and QoS alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from iot_mqtt.errors import MqttError
from iot_mqtt.ports.uplink import Mode
from iot_mqtt.topics import matches, parse_shared, validate_filter
from iot_mqtt.topics.filters import overlaps
from iot_mqtt.uplink.rules.expression import Condition, parse
from iot_mqtt.uplink.rules.patterns import Pattern
from iot_mqtt.uplink.rules.templates import MAX_NAME, Template, sanitised
from iot_mqtt.uplink.rules.tokens import ExpressionError

PATTERNS = ("gateway", "device", "codec")
KEYS = ("filter", *PATTERNS, "to", "mode", "key", "qos", "when")
BY = ("device", "client", "topic")
DEFAULT_TO = "iot.readings"
#: Where gateways' readings are published: what a rule is about that names no filter.
READINGS = "up/#"
#: A bound, not a tuning knob.
MAX_RULES = 500
#: What a gateway's reading has, and a condition can ask for.
OF_READINGS = ("gateway", "device", "codec", "schema", "ts", "seq", "values", "quality")
#: What a condition can ask for.
NAMES = ("topic", "client", "qos", "payload", *OF_READINGS)
#: What Kafka takes as the name of a topic, and every file system as that of a directory.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")
_BEGIN = re.compile(r"[A-Za-z0-9]")
#: What the names of Kafka's internal topics begin with.
_INTERNAL = "__"


class Figures:
    """What a rule has done since it is in force; what a sink gets again counts again."""

    __slots__ = ("matched", "sent")

    def __init__(self) -> None:
        #: Messages that came to it: filter and QoS fit, and no rule before it took them.
        self.matched = 0
        #: Of these, those that went up by it.
        self.sent = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry. What follows from it is made when it is; ``ValueError`` says what is wrong with that."""

    filter: str
    to: str = DEFAULT_TO
    mode: Mode = Mode.ALSO
    #: What the key of a record is: the device (the client where no gateway says which), the client, the topic, or a
    #: template.
    key: str = "device"
    #: The least that a message must have been published with.
    qos: int = 0
    gateway: str | None = None
    device: str | None = None
    codec: str | None = None
    when: str | None = None
    #: Patterns by the field of a reading that they are for.
    patterns: tuple[tuple[str, Pattern], ...] = field(init=False, compare=False, repr=False)
    condition: Condition | None = field(init=False, compare=False, repr=False)
    #: None: ``to`` and ``key`` are no templates.
    to_template: Template | None = field(init=False, compare=False, repr=False)
    key_template: Template | None = field(init=False, compare=False, repr=False)
    #: It takes all that its filter and QoS fit.
    unconditional: bool = field(init=False, compare=False, repr=False)
    #: Nothing of it depends on what a message says, but the device in its key.
    plain: bool = field(init=False, compare=False, repr=False)
    figures: Figures = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        asked = ((name, getattr(self, name)) for name in PATTERNS)
        made: dict[str, object] = {
            "patterns": tuple((name, Pattern(text)) for name, text in asked if text is not None),
            "condition": None if self.when is None else parse(self.when, NAMES),
            "to_template": _template(self.to),
            "key_template": _template(self.key),
            "figures": Figures(),
        }
        made["unconditional"] = not made["patterns"] and made["condition"] is None
        made["plain"] = made["unconditional"] and made["to_template"] is None and made["key_template"] is None
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @property
    def certain_to(self) -> str:
        """A topic that it writes to, whatever messages say; a template's is the one with ``other``."""
        return self.to if self.to_template is None else self.to_template.other

    def entry(self) -> dict[str, object]:
        """As it can be written: what is not the default."""
        found: dict[str, object] = {"filter": self.filter}
        for one in fields(self):
            if one.init and one.name != "filter" and (value := getattr(self, one.name)) != one.default:
                found[one.name] = value.value if isinstance(value, Mode) else value
        return found

    def matches(self, topic: str, qos: int) -> bool:
        """By what is known when a message is published."""
        return qos >= self.qos and matches(self.filter, topic)


def _template(text: str) -> Template | None:
    return Template(text) if "{" in text or "}" in text else None


def rule_of(entry: Mapping[str, object]) -> Rule:
    """One entry as it is written. ValueError says what is wrong with it."""
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(KEYS)}")
    mode = _text(entry, "mode", Mode.ALSO.value)
    if mode not in (modes := [one.value for one in Mode]):
        raise ValueError(f"mode must be one of {', '.join(modes)}, not {mode!r}")
    when = _optional(entry, "when")
    patterns = {name: _optional(entry, name) for name in PATTERNS}
    try:
        rule = Rule(_filter(entry), _to(entry), Mode(mode), _key(entry), _qos(entry), **patterns, when=when)
    except ExpressionError as error:
        raise ValueError(f"when: {error}") from None
    if rule.mode is Mode.ONLY and not rule.unconditional:
        raise ValueError(
            "mode only goes with filter and qos alone: who else gets a message is decided when it is published, "
            "before anybody looks into it; give the rule a filter of its own"
        )
    return rule


def rules_of(entries: Sequence[Mapping[str, object]]) -> tuple[list[Rule], list[str]]:
    """All entries that can be read, and all that is wrong, with the number of the entry."""
    rules, wrong = list[Rule](), list[str]()
    conditional: list[tuple[int, Rule]] = []
    if len(entries) > MAX_RULES:
        return [], [f"there are {len(entries)} rules; at most {MAX_RULES} are possible"]
    for number, entry in enumerate(entries, start=1):
        try:
            rule = rule_of(entry)
        except ValueError as error:
            wrong.append(f"entry {number}: {error}")
            continue
        rules.append(rule)
        if not rule.unconditional:
            conditional.append((number, rule))
        elif rule.mode is Mode.ONLY:
            before = next((at for at, other in conditional if overlaps(other.filter, rule.filter)), None)
            if before is not None:
                wrong.append(
                    f"entry {number}: mode only, but entry {before}, which has conditions, comes first for some of its "
                    "topics: whether subscribers get a message would depend on what it says; put this entry before it"
                )
    return rules, wrong


def _text(entry: Mapping[str, object], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, not {value!r}")  # noqa: TRY004 - a wrong value, whatever its type
    return value


def _optional(entry: Mapping[str, object], key: str) -> str | None:
    if entry.get(key) is None:
        return None
    text = _text(entry, key, "")
    if not text:
        raise ValueError(f"{key} must not be empty")
    return text


def _filter(entry: Mapping[str, object]) -> str:
    filter = entry.get("filter")
    if filter is None and any(entry.get(name) is not None for name in PATTERNS):
        return READINGS
    if not isinstance(filter, str):
        raise ValueError("needs a filter, like {filter: up/#}, or a gateway, device or codec")  # noqa: TRY004 - as above
    try:
        validate_filter(filter)
        shared = parse_shared(filter)
    except MqttError as error:
        raise ValueError(f"filter {filter!r}: {error.detail}") from None
    if shared is not None or filter.startswith("$"):
        raise ValueError(f"filter {filter!r}: what begins with $ does not go up")
    return filter


def _to(entry: Mapping[str, object]) -> str:
    to = _text(entry, "to", DEFAULT_TO)
    try:
        template = _template(to)
    except ValueError as error:
        raise ValueError(f"to: {error}") from None
    if template is None:
        if not _NAME.fullmatch(to):
            raise ValueError(f"to must be letters, digits, '.', '_' and '-', at most {MAX_NAME}, not {to!r}")
        if to.startswith(_INTERNAL):
            raise ValueError(f"to must not begin with {_INTERNAL}, as Kafka's internal topics do: {to!r}")
        return to
    if not _BEGIN.match(template.fixed[0]):
        raise ValueError(
            f"to must begin with a letter or digit of its own, like iot.by.{to}: what is in the braces comes from "
            "clients, and they could name any topic of the platform"
        )
    if "/" in "".join(template.fixed) or sanitised(template.other) != template.other:
        raise ValueError(f"to must be letters, digits, '.', '_' and '-' around its fields, at most {MAX_NAME}: {to!r}")
    return to


def _key(entry: Mapping[str, object]) -> str:
    key = _text(entry, "key", "device")
    try:
        template = _template(key)
    except ValueError as error:
        raise ValueError(f"key: {error}") from None
    if template is None and key not in BY:
        raise ValueError(
            f"key must be one of {', '.join(BY)} or a template like '{{client}}/{{topic[1]}}', not {key!r}"
        )
    return key


def _qos(entry: Mapping[str, object]) -> int:
    qos = entry.get("qos", 0)
    if isinstance(qos, bool) or qos not in (0, 1, 2) or not isinstance(qos, int):
        raise ValueError(f"qos must be 0, 1 or 2, not {qos!r}")
    return qos
