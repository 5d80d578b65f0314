"""The dry run: what it counts, what it shows, and that what it keeps is bounded."""

from __future__ import annotations

import json

import pytest

from iot_mqtt.codec.runs import run_of
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.uplink.desk import EXAMPLES
from iot_mqtt.uplink.rules import Facts, Rule, rule_of
from iot_mqtt.uplink.trial import (
    MAX_DIFFERENCES,
    MAX_SHOWN,
    NOWHERE,
    OTHERS,
    Message,
    Trial,
    message_of,
    messages_of,
)
from iot_mqtt.values import NOBODY, UNKNOWN_CODEC, CodecId, Origin

READING = {"id": "1", "node": "n", "gateway": "gw", "device": "d1", "ts": 5000, "codec": "acme", "values": {"t": 9}}


def plain(topic: str, payload: object, client: str = "c") -> Message:
    return Message(Facts(topic, client, 1, payload, None), json.dumps(payload).encode(), 7.0)


def test_it_says_what_goes_where_and_what_would_be_different() -> None:
    """By rule, with examples; what no rule wants is counted as well."""
    now = [rule_of({"filter": "up/#"}), rule_of({"filter": "audit/#", "mode": "only"})]
    then = [
        rule_of({"filter": "up/#", "when": "payload.t > 80", "to": "hot"}),
        rule_of({"filter": "up/+/t", "key": "topic"}),
        rule_of({"filter": "audit/#"}),
    ]
    trial = Trial(then, now)
    for topic, payload in [("up/a/t", {"t": 90}), ("up/a/t", {"t": 5}), ("up/a", 1), ("audit/x", 2), ("else", 3)]:
        trial.add(plain(topic, payload))
    found = trial.result("a note")
    assert [(rule.matched, rule.sent, rule.to) for rule in found.rules] == [
        (3, 1, {"hot": 1}),
        (1, 1, {"iot.readings": 1}),
        (1, 1, {"iot.readings": 1}),
    ]
    (example,) = found.rules[0].examples
    assert (example.topic, example.client, example.to, example.key) == ("up/a/t", "c", "hot", "c")
    assert json.loads(example.payload) == {"t": 90}
    assert (found.messages, found.unmatched, [one.topic for one in found.unmatched_examples]) == (
        5,
        2,
        ["up/a", "else"],
    )
    assert found.changed == 3
    assert {(one.now, one.then, one.messages) for one in found.differences} == {
        ("iot.readings", "hot", 1),
        ("iot.readings", NOWHERE, 1),
        ("iot.readings, not to subscribers", "iot.readings", 1),
    }
    assert found.other_keys == 1
    assert (found.first_at, found.last_at, found.notes) == (7.0, 7.0, ("a note",))


def test_nothing_is_counted_for_real() -> None:
    """The rules in force are looked at only."""
    rule = Rule("#")
    trial = Trial([rule], [rule])
    trial.add(plain("a", 1))
    assert (rule.figures.matched, trial.result().rules[0].sent, trial.result().changed) == (0, 1, 0)


def test_what_it_keeps_is_bounded() -> None:
    """Topics, examples and differences; what is left out is counted."""
    trial = Trial([rule_of({"filter": "#", "to": "x.{topic}"})], [rule_of({"filter": "#", "to": "y.{topic}"})])
    many = MAX_DIFFERENCES + 30
    for number in range(many):
        trial.add(plain(f"t{number}", "x" * 5000))
    found = trial.result()
    (rule,) = found.rules
    assert (len(rule.to), rule.to[OTHERS], len(rule.examples)) == (MAX_SHOWN + 1, many - MAX_SHOWN, EXAMPLES)
    assert len(rule.examples[0].payload) < 200
    assert (len(found.differences), found.changed) == (MAX_DIFFERENCES, many)
    assert "30 messages are different in further ways" in found.notes[0]


def test_records_of_the_uplink_are_read_again() -> None:
    """Readings, wrapped JSON, and wrapped bytes."""
    reading = message_of(json.dumps(READING).encode())
    assert (reading.facts.topic, reading.facts.client, reading.arrived) == ("up/gw/d1", "gw", 5.0)
    assert reading.facts.reading is not None
    wrapped = {"id": "2", "node": "n", "client": "c", "topic": "a/b", "ts": 1, "ingest_ts": 2000, "qos": 2}
    found = message_of(json.dumps({**wrapped, "payload": {"t": 1}}).encode())
    assert found.facts == Facts("a/b", "c", 2, {"t": 1}, None)
    assert found.arrived == 2.0
    found = message_of(json.dumps({**wrapped, "payload_b64": "/w=="}).encode())
    assert found.payload == b"\xff"
    assert "payload" not in found.facts.scope()


@pytest.mark.parametrize("codec", [UNKNOWN_CODEC, CodecId("acme", "3")])
def test_messages_of_the_log_are_readings_where_a_codec_made_them(codec: CodecId) -> None:
    """Also those of an earlier version, which say themselves which codec."""
    payload = json.dumps(READING).encode()
    run = run_of(b"up/gw/d1", [payload] * 2, [])
    for origin in (Origin("", codec), NOBODY):
        logged = LogRun(Reference(0, 0, 1000, 2), run, run.topic, "gw", 1.0, origin)
        found = list(messages_of(logged))
        assert [one.payload for one in found] == [payload] * 2
        assert [one.facts.reading for one in found] == ([READING] * 2 if origin.codec else [None] * 2)


@pytest.mark.parametrize(
    "line", [b"", b"\xff", b"[]", b"{}", b'{"topic": "a"}', b'{"topic": "a", "client": "c", "qos": 5}',
             b'{"topic": "a", "client": "c", "payload_b64": "?"}']
)  # fmt: skip
def test_other_lines_are_no_records(line: bytes) -> None:
    """And are told as such."""
    with pytest.raises(ValueError):
        message_of(line)
