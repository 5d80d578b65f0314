"""What a message looks like on the platform: one JSON object on one line, whatever was published."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.codec.runs import run_of
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.ports.uplink import Mode, Record
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rule, Rules, rule_of
from iot_mqtt.values import NOBODY, UNKNOWN_CODEC, CodecId, Origin

SPOOL = "0.0a1b2c3d"


def plan(**options: object) -> RulePlan:
    return RulePlan(Rules([Rule("up/#", **options)]), 'n"1')  # type: ignore[arg-type]


def records(
    *payloads: bytes, topic: bytes = b"up/x", publisher: str = "c", origin: Origin = NOBODY, **options: object
) -> list[Record]:
    run = run_of(topic, list(payloads), list(range(1, len(payloads) + 1)))
    logged = LogRun(Reference(0, 0, 1000, len(payloads)), run, topic, publisher, 1_790_000_000.5, origin)
    return plan(**options).records(logged, SPOOL)


def test_a_plain_message_is_wrapped() -> None:
    """With everything that is known of it."""
    (found,) = records(b'{"t": 1.50, "b": 12345678901234567890}')
    assert json.loads(found.value) == {
        "id": f"{SPOOL}-1000",
        "node": 'n"1',
        "client": "c",
        "topic": "up/x",
        "ts": 1_790_000_000_500,
        "ingest_ts": 1_790_000_000_500,
        "qos": 1,
        "payload": {"t": 1.5, "b": 12345678901234567890},
    }
    assert b'"payload":{"t": 1.50, "b": 12345678901234567890}}' in found.value
    assert (found.key, found.timestamp, found.position) == ("c", 1_790_000_000_500, 1000)
    assert found.headers == (("node", b'n"1'), ("ingest_ts", b"1790000000500"))


def test_messages_of_a_run_have_ids_of_their_own() -> None:
    """Spool and position."""
    found = records(b"1", b"2", b"3")
    assert [json.loads(one.value)["id"] for one in found] == [f"{SPOOL}-{n}" for n in (1000, 1001, 1002)]
    assert [one.position for one in found] == [1000, 1001, 1002]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"{",
        b"NaN",
        b'{"a": Infinity}',
        b"\xef\xbb\xbf1",
        '"x"'.encode("utf-16"),
        b"[" * 100_000,
        b"1" * 5000,
    ],
)
def test_what_is_no_json_is_base64(payload: bytes) -> None:
    """And comes back as it was."""
    (found,) = records(payload)
    assert b64decode(json.loads(found.value)["payload_b64"]) == payload


def test_null_is_json() -> None:
    """It is a value, not the lack of one."""
    (found,) = records(b"null")
    assert "payload_b64" not in json.loads(found.value)


ACME = CodecId("acme", "3")
READING = {"id": "1", "node": "n", "gateway": "gw", "device": "d1", "ts": 5, "codec": "acme", "schema": 3}


def posted(*payloads: bytes, **options: object) -> list[Record]:
    """What the codec of the gateway "gw" has made for its device "d1"."""
    return records(*payloads, topic=b"up/gw/d1", publisher="gw", origin=Origin("anna", ACME), **options)


def told_with(payload: bytes, position: int) -> bytes:
    """What a gateway's codec made, and which record it is."""
    return payload[:-1] + b',"record":"%s-%d"}' % (SPOOL.encode(), position)


def test_a_reading_of_a_gateway_passes_with_the_id_of_its_record() -> None:
    """Its key is the device, and what a reader needs before it parses stands in the headers."""
    payload = json.dumps(READING).encode()
    (found,) = posted(payload)
    assert found.value == told_with(payload, 1000)
    assert found.key == "gw/d1"
    assert dict(found.headers) == {
        "node": b'n"1',
        "gateway": b"gw",
        "codec": b"acme",
        "schema": b"3",
        "ingest_ts": b"1790000000500",
    }


@pytest.mark.parametrize("publisher", ["mallory", "gw"])
@pytest.mark.parametrize("topic", [b"up/own/x", b"up/gw/d1"])
@pytest.mark.parametrize("user", ["", "bob"])
def test_nobody_else_can_write_a_gateways_readings(publisher: str, topic: bytes, user: str) -> None:
    """What looks like one and was made by no codec is wrapped, whatever its client calls itself."""
    (found,) = records(json.dumps(READING).encode(), topic=topic, publisher=publisher, origin=Origin(user))
    told = json.loads(found.value)
    assert (told["client"], told.get("user", ""), told["topic"]) == (publisher, user, topic.decode())
    assert told["payload"] == READING and "gateway" not in told
    assert found.key == publisher and "gateway" not in dict(found.headers)


@pytest.mark.parametrize(
    "topic",
    [
        b"up/other/d1",
        b"up/gw/d1/x",
        b"up/gw",
    ],
)
def test_a_codec_speaks_for_the_device_of_its_topic_only(topic: bytes) -> None:
    """Who made it and where it was published say whose reading it is; here it is nobody's."""
    found = records(b"1", json.dumps(READING).encode(), topic=topic, publisher="gw", origin=Origin("", ACME))
    assert [json.loads(one.value)["client"] for one in found] == ["gw", "gw"]
    assert {one.key for one in found} == {"gw"}


def test_readings_that_share_their_id_are_told_apart() -> None:
    """Those of one device in one frame have one number, and a gateway may begin to count again."""
    found = [json.loads(one.value) for one in posted(*[json.dumps(READING | {"ts": ts}).encode() for ts in (5, 6, 5)])]
    assert {one["id"] for one in found} == {"1"}
    assert [one["record"] for one in found] == [f"{SPOOL}-{n}" for n in (1000, 1001, 1002)]


def test_nobody_looks_into_a_reading() -> None:
    """Its metadata stand beside it: what its bytes say of themselves changes nothing."""
    (found,) = posted(b'{"gateway":"other","device":"d2","codec":"x","schema":9}')
    assert (found.key, dict(found.headers)["codec"], dict(found.headers)["schema"]) == ("gw/d1", b"acme", b"3")
    run = run_of(b"up/gw/d1", [b'{"a":1}', b'{"a":2}'], [1, 2])
    logged = LogRun(Reference(0, 0, 1000, 2), run, run.topic, "gw", 1.0, Origin("", ACME))
    rule = rule_of({"gateway": "g*", "device": "d1", "codec": "acme", "to": "iot.{codec}", "key": "{device}"})
    made = RulePlan(Rules([rule]), "n").records(logged, SPOOL)
    assert [(one.topic, one.key, one.value, one.position) for one in made] == [
        ("iot.acme", "d1", told_with(b'{"a":1}', 1000), 1000),
        ("iot.acme", "d1", told_with(b'{"a":2}', 1001), 1001),
    ]
    assert (rule.figures.matched, rule.figures.sent) == (2, 2)


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (READING, True),
        (READING | {"device": "d2"}, False),
        (READING | {"gateway": "other"}, False),
        ({name: value for name, value in READING.items() if name != "codec"}, False),
        ([1], False),
    ],
)
@pytest.mark.parametrize("options", [{}, {"when": "topic != 'x'"}], ids=["plain", "chosen"])
def test_readings_of_an_earlier_version_say_themselves_which_codec(
    payload: object, told: bool, options: dict[str, str]
) -> None:
    """Its log has noted only that some codec made them; what does not fit is nobody's."""
    body = json.dumps(payload).encode()
    found = records(b"\xff", body, topic=b"up/gw/d1", publisher="gw", origin=Origin("anna", UNKNOWN_CODEC), **options)
    assert [one.position for one in found] == [1000, 1001] and json.loads(found[0].value)["user"] == "anna"
    if told:
        assert (found[1].value, found[1].key, dict(found[1].headers)["codec"]) == (
            told_with(body, 1001),
            "gw/d1",
            b"acme",
        )
    else:
        assert (json.loads(found[1].value)["payload"], found[1].key) == (payload, "gw")


@pytest.mark.parametrize("options", [{}, {"condition": "topic != 'x'"}], ids=["plain", "chosen"])
def test_no_clients_key_is_that_of_a_gateways_device(options: dict[str, str]) -> None:
    """Whoever calls himself so does not stand in its place, as the last word in a topic that is compacted."""
    rule = rule_of({"when": options["condition"], "filter": "up/#"}) if options else Rule("up/#")
    run = run_of(b"up/own/x", [b"1", b"2"], [])
    logged = LogRun(Reference(0, 0, 1000, 2), run, run.topic, "gw/d1", 1.0)
    assert [one.key for one in RulePlan(Rules([rule]), "n").records(logged, SPOOL)] == ["$mqtt/gw/d1"] * 2


def test_a_line_stays_a_line() -> None:
    """However the JSON was laid out."""
    (wrapped,) = records(b'{\r\n "a":\n 1}\n')
    (older,) = records(
        json.dumps(READING, indent=1).encode(), topic=b"up/gw/d1", publisher="gw", origin=Origin("", UNKNOWN_CODEC)
    )
    assert json.loads(wrapped.value)["payload"] == {"a": 1} and json.loads(older.value)["payload"] == READING
    assert not {b"\n", b"\r"} & {bytes([byte]) for byte in wrapped.value + older.value}


@pytest.mark.parametrize(("key", "expected"), [("client", "gw"), ("topic", "up/gw/d1"), ("device", "gw/d1")])
def test_the_key_is_what_the_rule_says(key: str, expected: str) -> None:
    """Order is kept within it."""
    (found,) = posted(json.dumps(READING).encode(), key=key)
    assert found.key == expected


def test_a_topic_without_a_rule_makes_no_records() -> None:
    """Rules may have changed since it was read."""
    assert records(b"1", topic=b"other") == []
    assert plan().mode(b"other", 1) is None
    assert plan(mode=Mode.ONLY).mode(b"up/x", 1) is Mode.ONLY


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=_JSON, client=st.text(min_size=1), indent=st.sampled_from([None, 1]))
def test_any_json_comes_back_as_it_was(value: object, client: str, indent: int | None) -> None:
    """From any client."""
    if any("\ud800" <= character <= "\udfff" for character in client):
        return
    (found,) = records(json.dumps(value, indent=indent).encode(), publisher=client)
    line = json.loads(found.value)
    assert (line["payload"], line["client"]) == (value, client)
    assert b"\n" not in found.value


@given(st.binary(max_size=40))
def test_any_bytes_make_one_line_of_json(payload: bytes) -> None:
    """They are a value or base64."""
    (found,) = records(payload)
    line = json.loads(found.value)
    assert ("payload" in line) != ("payload_b64" in line)
    assert b"\n" not in found.value
    assert b"\r" not in found.value
