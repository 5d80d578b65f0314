"""Which rule a message goes by: the first one that fits it, and where that sends it.

``of`` answers from the topic and QoS alone and remembers what it found; that is all there is to do for rules that are
``plain``. For others ``choose`` looks into the message. When a rule's conditions do not hold, the next one is tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from iot_mqtt.ports.uplink import MadeTopic
from iot_mqtt.uplink.rules.entry import OF_READINGS, Rule
from iot_mqtt.uplink.rules.templates import MAX_NAME, Source, Template, folded, sanitised
from iot_mqtt.uplink.rules.truth import MISSING

#: Topics whose rules are remembered; a bound, not a tuning knob.
MAX_TOPICS = 10_000
#: Different names that templates may make, all together: they come from clients, and each is a topic of the platform
#: or an open file.
MAX_NAMES = 200


class Facts(NamedTuple):
    """A message, as far as rules may ask."""

    topic: str
    client: str
    qos: int
    #: What was published, if it is JSON; else ``MISSING``.
    payload: object
    #: What is known of a gateway's reading: who made it, and the rest where a condition asks. None: it is none.
    reading: Mapping[str, object] | None

    def scope(self) -> dict[str, object]:
        """By the names of conditions."""
        found: dict[str, object] = {"topic": self.topic, "client": self.client, "qos": self.qos}
        if self.payload is not MISSING:
            found["payload"] = self.payload
        if self.reading is not None:
            found.update((name, self.reading[name]) for name in OF_READINGS if name in self.reading)
        return found


class Choice(NamedTuple):
    """What becomes of a message."""

    rule: Rule
    to: str
    key: str


class Names:
    """The names that templates made, of which there are only so many, and no two that Kafka takes for one."""

    __slots__ = ("_taken", "_spelt", "_reserved", "turned_away")

    def __init__(self, reserved: Collection[str]) -> None:
        self._taken: dict[str, MadeTopic] = {}
        #: By what Kafka compares: the name as it was made first.
        self._spelt: dict[str, str] = {}
        self._reserved = frozenset(map(folded, reserved))
        #: Records that went to a template's ``other`` instead.
        self.turned_away = 0

    def __len__(self) -> int:
        return len(self._taken)

    def of(self, template: Template, source: Source) -> str:
        """The topic of the platform for a message."""
        raw = template.filled(source)[:MAX_NAME]
        taken = self._taken.get(raw)
        if taken is not None:
            return taken
        name, other = sanitised(raw), template.other
        if name == other:
            return other
        letters = folded(name)
        if (
            len(self._taken) >= MAX_NAMES
            # A client must not write to a topic that means something else, whatever it calls itself.
            or letters in self._reserved
            or self._spelt.setdefault(letters, name) != name
        ):
            self.turned_away += 1
            return other
        made = self._taken[raw] = MadeTopic(name, other)
        return made


class Rules:
    """All of them, with what was found for topics remembered. ``reserved``: topics of the platform that no template may
    make.
    """

    __slots__ = ("rules", "names", "_found", "_mixed")

    def __init__(self, rules: Sequence[Rule], reserved: Collection[str] = ()) -> None:
        self.rules = tuple(rules)
        self.names = Names({rule.certain_to for rule in rules}.union(reserved))
        #: By QoS: the first rule of a topic.
        self._found: tuple[dict[bytes, Rule | None], ...] = ({}, {}, {})
        #: By QoS: all that a topic's messages may go by, where the first one does not say it all; and whether that
        #: depends on what is in them.
        self._mixed: tuple[dict[bytes, tuple[tuple[Rule, ...], bool]], ...] = ({}, {}, {})

    @property
    def filters(self) -> list[str]:
        """Of all rules."""
        return list(dict.fromkeys(rule.filter for rule in self.rules))

    def notes(self, went: str = "went") -> tuple[str, ...]:
        """What an operator has to know, in words; ``went``: what became of records."""
        if not self.names.turned_away:
            return ()
        text = (
            "templates of uplink.rules make too many topics, or one that is taken, where '.' and '_' are one letter: "
            f"{len(self.names)} there are, {self.names.turned_away} records {went} to the topic 'other' of their rule; "
            "look at what clients call themselves, change `to`, and run `iot-mqtt ctl uplink reload`"
        )
        return (text,)

    def of(self, topic: bytes, qos: int = 2) -> Rule | None:
        """The first rule that fits a topic and a QoS, whatever its conditions."""
        found = self._found[qos]
        try:
            return found[topic]
        except KeyError:
            pass
        if len(found) >= MAX_TOPICS:
            found.clear()
        name = topic.decode()
        rule = next((one for one in self.rules if one.matches(name, qos)), None)
        found[topic] = rule
        return rule

    def asks(self, topic: bytes, qos: int) -> bool:
        """Whether messages of a topic and QoS go different ways by what is in them."""
        return self._all_of(topic, qos)[1]

    def choose(self, topic: bytes, facts: Facts, count: int = 1) -> Choice | None:
        """The rule that a message goes by, or so many of which the same is known; None: it does not go up. Counts."""
        scope: dict[str, object] | None = None
        for rule in self._all_of(topic, facts.qos)[0]:
            rule.figures.matched += count
            if rule.patterns and not _fits(rule, facts.reading):
                continue
            if rule.condition is not None:
                scope = facts.scope() if scope is None else scope
                if not rule.condition.holds(scope):
                    continue
            rule.figures.sent += count
            return self._choice(rule, facts)
        return None

    def _all_of(self, topic: bytes, qos: int) -> tuple[tuple[Rule, ...], bool]:
        mixed = self._mixed[qos]
        found = mixed.get(topic)
        if found is None:
            if len(mixed) >= MAX_TOPICS:
                mixed.clear()
            listed, name = [], topic.decode()
            for rule in self.rules:
                if rule.matches(name, qos):
                    listed.append(rule)
                    if rule.unconditional:
                        break
            found = mixed[topic] = tuple(listed), any(rule.condition is not None for rule in listed)
        return found

    def _choice(self, rule: Rule, facts: Facts) -> Choice:
        source = Source(facts.topic, facts.client, facts.reading)
        to = rule.to if rule.to_template is None else self.names.of(rule.to_template, source)
        by = rule.key_template
        key = key_of(rule.key, source) if by is None else by.filled(source)
        # JSON can spell half a surrogate pair, UTF-8 cannot.
        return Choice(rule, to, key if key.isascii() else key.encode("utf-8", "replace").decode())


def key_of(by: str, source: Source) -> str:
    """A record's key by one of ``entry.BY``."""
    if by == "topic":
        return source.topic
    if by == "device":
        return client_key(source.client) if source.reading is None else f"{source.client}/{source.reading['device']}"
    return source.client


def client_key(client: str) -> str:
    """Where a client stands for the device: never what the key of a device behind a gateway could be."""
    return f"$mqtt/{client}" if "/" in client else client


def _fits(rule: Rule, reading: Mapping[str, object] | None) -> bool:
    """Whether a reading is from whom the rule wants; nothing else is."""
    return reading is not None and all(pattern.matches(reading.get(name)) for name, pattern in rule.patterns)
