"""The schema of the unified message: what the broker really makes fits it, and a released one stays as it is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from iot_spark import schema
from jsonschema import Draft202012Validator, ValidationError

from iot_mqtt.codec.runs import run_of
from iot_mqtt.devices.link.messages import Composer
from iot_mqtt.ports.log import LogRun, Reference
from iot_mqtt.sdk import Readings
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rule, Rules
from iot_mqtt.values import CodecId, Origin
from tests.spark.records import reading, wrapped

#: Of every file that was released. A change of one of these lines is wrong; a new version is a new line.
RELEASED = {
    "message_v1.json": "590921982ba1db75f683261700886cdd0f0455fe6f0e8bd2f9975bdc078b3614",
    "message_v2.json": "e2c6aff0dc5fc3ac9cbde14e63f8fdb693dc1eac99cdcdf75bfb9aedb4b6c1e7",
}


def judge(record: object) -> None:
    for version in schema.versions():
        Draft202012Validator(schema.document(version)).validate(record)


def test_released_schemas_are_what_they_were() -> None:
    """Records of years are read by them."""
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in schema.SCHEMAS.glob("*.json")}
    assert found == RELEASED


def test_the_schemas_are_schemas() -> None:
    """Each is a valid one of its draft, and says which version it is."""
    for version in schema.versions():
        document = schema.document(version)
        Draft202012Validator.check_schema(dict(document))
        assert document["$id"].endswith(f":{version}")


@pytest.mark.parametrize("seq", [7, None])
@pytest.mark.parametrize("quality", [None, {"temp": "uncertain"}])
def test_what_a_codec_reads_fits(seq: int | None, quality: dict[str, str] | None) -> None:
    """The gateway's messages, composed by the broker's own code."""
    composer = Composer("node-1", "gw-1", CodecId("gateway", "3"))
    device = composer.device("press")
    assert device is not None
    values: dict[str, Any] = {"temp": 21.5, "count": 3, "on": True, "state": "läuft"}
    said = composer.compose(device, Readings("press", values, time=1_790_000_000_000, sequence=seq, quality=quality), 5)
    judge(json.loads(said))
    logged = LogRun(
        Reference(0, 0, 1000, 1),
        run_of(b"up/gw-1/press", [said], [1]),
        b"up/gw-1/press",
        "gw-1",
        1_790_000_000.5,
        Origin("", CodecId("gateway", "3")),
    )
    sent = json.loads(RulePlan(Rules([Rule("up/#")]), "node-1").records(logged, "0.0a1b2c3d")[0].value)
    assert sent["record"] == "0.0a1b2c3d-1000"
    judge(sent)


@pytest.mark.parametrize("payload", [b'{"t": 71.3}', b"71.3", b"null", b"on", b"\xff\x00", b"NaN", b"[1, 2]"])
def test_what_clients_publish_fits(payload: bytes) -> None:
    """Wrapped messages, made by the uplink's own code."""
    judge(json.loads(_uplink_record(payload)))


def _uplink_record(payload: bytes) -> bytes:
    logged = LogRun(Reference(0, 0, 1000, 1), run_of(b"up/x", [payload], [1]), b"up/x", "press-7", 1_790_000_000.5)
    return RulePlan(Rules([Rule("up/#")]), "node-1").records(logged, "0.0a1b2c3d")[0].value


@pytest.mark.parametrize(
    "record",
    [
        reading() | {"values": {"t": [1]}},
        reading() | {"ts": "now"},
        {name: value for name, value in reading().items() if name != "device"},
        wrapped(1) | {"payload_b64": "AA=="},
        {name: value for name, value in wrapped(1).items() if name != "payload"},
        reading() | {"client": "press"},
        [],
    ],
)
def test_other_things_do_not_fit(record: object) -> None:
    """So the tests above can fail."""
    with pytest.raises(ValidationError):
        judge(record)


def test_sparks_schema_has_every_field_of_both_shapes() -> None:
    """Derived, so nothing is written twice; what may be of several types is a VARIANT."""
    found = {field.name: field.dataType.simpleString() for field in schema.message(schema.NEWEST)}
    assert found["values"] == "map<string,variant>" and found["payload"] == "variant"
    assert found["seq"] == "bigint" and found["quality"] == "map<string,string>" and found["topic"] == "string"
    assert {*reading(), *wrapped(1), "record"} <= found.keys()


def test_a_version_that_is_not_there_is_read_as_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one joins by lying there."""
    assert [schema.version_of(told) for told in (b"1", "1", 1, "9", None, b"\xff", "")] == [1] * 7
    for name in ("message_v1.json", "message_v2.json"):
        (tmp_path / name).write_bytes((schema.SCHEMAS / "message_v1.json").read_bytes())
    monkeypatch.setattr(schema, "SCHEMAS", tmp_path)
    assert schema.versions() == [1, 2] and schema.version_of(b"2") == 2 and schema.version_of("3") == 1
