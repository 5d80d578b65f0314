"""``uplink.rules``: which messages go up, where to, and whether subscribers get them too.

The first rule whose filter matches a topic counts, as with access rules and ``log.topics``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iot_mqtt.errors import MqttError
from iot_mqtt.ports.uplink import Mode
from iot_mqtt.topics import matches, parse_shared, validate_filter

KEYS = ("filter", "to", "mode", "key")
BY = ("device", "client", "topic")
DEFAULT_TO = "iot.readings"
#: What Kafka takes as the name of a topic, and every file system as that of a directory.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")
#: Topics whose rule is remembered; a bound, not a tuning knob.
MAX_TOPICS = 10_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry."""

    filter: str
    to: str = DEFAULT_TO
    mode: Mode = Mode.ALSO
    #: What the key of a record is: the device (the client where no gateway says which), the client or the topic.
    key: str = "device"


def rule_of(entry: Mapping[str, object]) -> Rule:
    """One entry as it is written. ValueError says what is wrong with it."""
    unknown = [key for key in entry if key not in KEYS]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; there are {', '.join(KEYS)}")
    mode, key = _text(entry, "mode", Mode.ALSO.value), _text(entry, "key", "device")
    if mode not in (modes := [one.value for one in Mode]):
        raise ValueError(f"mode must be one of {', '.join(modes)}, not {mode!r}")
    if key not in BY:
        raise ValueError(f"key must be one of {', '.join(BY)}, not {key!r}")
    return Rule(_filter(entry), _to(entry), Mode(mode), key)


def _text(entry: Mapping[str, object], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text, not {value!r}")  # noqa: TRY004 - a wrong value, whatever its type
    return value


def _filter(entry: Mapping[str, object]) -> str:
    filter = entry.get("filter")
    if not isinstance(filter, str):
        raise ValueError("needs a filter, like {filter: up/#}")  # noqa: TRY004 - as above
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
    if not _NAME.fullmatch(to):
        raise ValueError(f"to must be letters, digits, '.', '_' and '-', at most 249, not {to!r}")
    return to


class Rules:
    """All of them, with what was found for topics remembered."""

    __slots__ = ("rules", "_found")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._found: dict[bytes, Rule | None] = {}

    @property
    def filters(self) -> list[str]:
        """Of all rules."""
        return list(dict.fromkeys(rule.filter for rule in self.rules))

    def of(self, topic: bytes) -> Rule | None:
        """The rule for a topic."""
        found = self._found
        try:
            return found[topic]
        except KeyError:
            pass
        if len(found) >= MAX_TOPICS:
            found.clear()
        name = topic.decode()
        rule = next((one for one in self.rules if matches(one.filter, name)), None)
        found[topic] = rule
        return rule
