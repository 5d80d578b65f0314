"""The dry run: what rules would do with messages that were recorded, and what would be different from now.

Nothing is sent and nothing is counted for real: both sets of rules are made anew. What it keeps is bounded, however
many messages it is shown.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from iot_mqtt import native
from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode
from iot_mqtt.uplink.desk import EXAMPLES, Difference, Example, RuleTrial, TrialInfo
from iot_mqtt.uplink.records import legacy_messages, metadata_of
from iot_mqtt.uplink.rules import MISSING, Choice, Facts, Rule, Rules, rule_of
from iot_mqtt.values import UNKNOWN_CODEC

#: Topics of the platform that are told one by one, of each rule.
MAX_SHOWN = 20
#: Different changes that are told; the others are counted.
MAX_DIFFERENCES = 50
PAYLOAD_SHOWN = 120
NOWHERE = "does not go up"
OTHERS = "..."

_READING = frozenset(("id", "node", "gateway", "device", "ts"))


class Message(NamedTuple):
    """One message to try rules on."""

    facts: Facts
    #: For people.
    payload: bytes
    #: None: it is not known when it came.
    arrived: float | None


def messages_of(run: LogRun) -> Iterator[Message]:
    """Messages of the log."""
    if run.origin.codec == UNKNOWN_CODEC:
        for one in legacy_messages(run):
            yield from messages_of(one)
        return
    metadata, topic = metadata_of(run), run.topic.decode()
    for payload in run.run.payloads():
        value = native.decoded(payload)
        reading = value if metadata is not None and isinstance(value, dict) else metadata
        body = MISSING if value is native.NOT_JSON else value
        yield Message(Facts(topic, run.publisher, run.run.qos, body, reading), payload, run.arrived)


def message_of(line: bytes) -> Message:
    """A record, as the uplink wrote it. ValueError says what is wrong with it."""
    record = native.decoded(line)
    if not isinstance(record, dict):
        raise ValueError("is not a JSON object")  # noqa: TRY004 - a wrong line, whatever its type
    if record.keys() >= _READING:
        gateway, device = str(record["gateway"]), str(record["device"])
        return Message(Facts(f"up/{gateway}/{device}", gateway, 1, record, record), line, _seconds(record))
    topic, client, qos = record.get("topic"), record.get("client"), record.get("qos", 0)
    if not isinstance(topic, str) or not isinstance(client, str) or qos not in (0, 1, 2):
        raise ValueError("is no record of the uplink: neither a gateway's reading, nor with topic, client and qos")
    if "payload" in record:
        value = record["payload"]
        payload = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    else:
        value, payload = MISSING, b64decode(str(record.get("payload_b64", "")), validate=True)
    return Message(Facts(topic, client, int(qos), value, None), payload, _seconds(record))


def _seconds(record: Mapping[str, object]) -> float | None:
    came = record.get("ingest_ts", record.get("ts"))
    return came / 1000 if isinstance(came, int | float) and not isinstance(came, bool) else None


class _Way(NamedTuple):
    """What becomes of one message."""

    choice: Choice | None
    mode: Mode | None

    @property
    def shown(self) -> str:
        if self.choice is None:
            return NOWHERE
        return f"{self.choice.to}, not to subscribers" if self.mode is Mode.ONLY else self.choice.to


class Trial:
    """Rules and what they did so far. ``now``: the rules in force; None: nothing is compared."""

    def __init__(self, then: Sequence[Rule], now: Sequence[Rule] | None, reserved: Iterable[str] = ()) -> None:
        self._then = Rules(_anew(then), tuple(reserved))
        self._now = None if now is None else Rules(_anew(now), tuple(reserved))
        self._to: list[dict[str, int]] = [{} for _ in then]
        self._examples: list[list[Example]] = [[] for _ in then]
        self._numbers = {id(rule): index for index, rule in enumerate(self._then.rules)}
        self._missed: list[Example] = []
        self._unmatched = self._changed = self._other_keys = self._messages = self._untold = 0
        self._differences: dict[tuple[str, str], tuple[int, Example]] = {}
        self._first: float | None = None
        self._last: float | None = None

    def add(self, message: Message) -> None:
        """Try one."""
        self._messages += 1
        if message.arrived is not None:
            self._first = message.arrived if self._first is None else min(self._first, message.arrived)
            self._last = message.arrived if self._last is None else max(self._last, message.arrived)
        topic = message.facts.topic.encode("utf-8", "replace")
        then = _way(self._then, topic, message.facts)
        if then.choice is None:
            self._unmatched += 1
            if len(self._missed) < EXAMPLES:
                self._missed.append(_example(message, then))
        else:
            self._note(message, then, then.choice)
        if self._now is not None:
            self._compare(message, _way(self._now, topic, message.facts), then)

    def _note(self, message: Message, way: _Way, choice: Choice) -> None:
        index = self._numbers[id(choice.rule)]
        counted = self._to[index]
        name = choice.to if choice.to in counted or len(counted) < MAX_SHOWN else OTHERS
        counted[name] = counted.get(name, 0) + 1
        if len(self._examples[index]) < EXAMPLES:
            self._examples[index].append(_example(message, way))

    def _compare(self, message: Message, now: _Way, then: _Way) -> None:
        if now.shown == then.shown:
            if now.choice is not None and then.choice is not None and now.choice.key != then.choice.key:
                self._other_keys += 1
            return
        self._changed += 1
        pair = (now.shown, then.shown)
        if pair in self._differences:
            count, example = self._differences[pair]
            self._differences[pair] = (count + 1, example)
        elif len(self._differences) < MAX_DIFFERENCES:
            self._differences[pair] = (1, _example(message, then))
        else:
            self._untold += 1

    def result(self, *notes: str) -> TrialInfo:
        """All of it. ``notes``: what there is to say about where the messages are from."""
        said = list(notes)
        if self._untold:
            said.append(f"{self._untold} messages are different in further ways that are not listed")
        said += self._then.notes("would go")
        return TrialInfo(
            messages=self._messages,
            first_at=self._first,
            last_at=self._last,
            rules=tuple(self._rule(index, rule) for index, rule in enumerate(self._then.rules)),
            unmatched=self._unmatched,
            unmatched_examples=tuple(self._missed),
            changed=None if self._now is None else self._changed,
            differences=tuple(
                Difference(now, then, count, example) for (now, then), (count, example) in self._differences.items()
            ),
            other_keys=self._other_keys,
            notes=tuple(said),
        )

    def _rule(self, index: int, rule: Rule) -> RuleTrial:
        return RuleTrial(
            number=index + 1,
            rule=written(rule),
            matched=rule.figures.matched,
            sent=rule.figures.sent,
            to=self._to[index],
            examples=tuple(self._examples[index]),
        )


def written(rule: Rule) -> str:
    """A rule on one line."""
    return json.dumps(rule.entry(), ensure_ascii=False)


def _anew(rules: Sequence[Rule]) -> list[Rule]:
    """The same rules with figures of their own."""
    return [rule_of(rule.entry()) for rule in rules]


def _way(rules: Rules, topic: bytes, facts: Facts) -> _Way:
    first = rules.of(topic, facts.qos)
    return _Way(None, None) if first is None else _Way(rules.choose(topic, facts), first.mode)


def _example(message: Message, way: _Way) -> Example:
    facts, choice = message.facts, way.choice
    shown = message.payload[: PAYLOAD_SHOWN * 4].decode("utf-8", "replace")
    if len(shown) > PAYLOAD_SHOWN:
        shown = f"{shown[:PAYLOAD_SHOWN]}..."
    to, key = ("", "") if choice is None else (choice.to, choice.key)
    return Example(facts.topic, facts.client, facts.qos, shown, to, key)
