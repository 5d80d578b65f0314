"""``settings.json``: from the configuration to what the jobs are told."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from iot_mqtt.app.config import Config, read_config
from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.app.pipeline.kafka_options import kafka_options
from iot_mqtt.app.pipeline.settings import read_rules, settings_of, text_of, uses_kafka, write_settings
from iot_mqtt.uplink.kafka.settings import SecuritySettings


def config(*sets: str) -> Config:
    return read_config(None, sets, {}).config


def made(*sets: str) -> dict[str, Any]:
    """As a job reads it."""
    found: dict[str, Any] = json.loads(text_of(settings_of(config(*sets))))
    return found


def test_out_of_the_box_jobs_read_the_files_and_write_tables_alone(tmp_path: Path) -> None:
    """Nothing is installed, so no topic of Kafka is named."""
    found = made(f"node.data_dir={tmp_path}")
    assert found["source"]["kind"] == "files"
    assert found["source"]["dir"] == str(tmp_path / "uplink")
    assert found["tables"] == str(tmp_path / "pipeline" / "tables")
    topics = [found["clean"]["topic"], found["clean"]["invalid_topic"], *found["alarm"].values()]
    assert topics == [None] * 4
    assert not uses_kafka(config())


def test_with_kafka_the_topics_are_told() -> None:
    """All of them."""
    found = made("uplink.kind=kafka", "uplink.kafka.bootstrap_servers=a:1,b:2", "pipeline.topics=iot.readings,iot.more")
    assert found["source"]["kind"] == "kafka"
    assert found["source"]["bootstrap_servers"] == "a:1,b:2"
    assert found["source"]["topics"] == ["iot.readings", "iot.more"]
    assert found["clean"] == {"topic": "iot.clean", "invalid_topic": "iot.invalid", "future_seconds": 3600}
    assert found["alarm"] == {"topic": "iot.alarms", "commands_topic": "iot.commands"}
    assert uses_kafka(config("uplink.kind=kafka"))


@pytest.mark.parametrize(
    ("sets", "kind"),
    [
        (["pipeline.source=kafka"], "kafka"),
        (["uplink.kind=none", "pipeline.source=files"], "files"),
        (["uplink.kind=kafka", "pipeline.source=files"], "files"),
    ],
)
def test_the_source_can_be_chosen(sets: list[str], kind: str) -> None:
    """Over what the uplink says."""
    assert made(*sets)["source"]["kind"] == kind


def test_without_an_uplink_there_is_nothing_to_read() -> None:
    """And both ways out are named."""
    with pytest.raises(PipelineError, match=r"uplink\.kind is none.*pipeline\.source"):
        settings_of(config("uplink.kind=none"))


def test_the_keys_are_those_of_the_contract() -> None:
    """The jobs refuse a key that they do not know."""
    found = made()
    assert set(found) == {
        *("source", "tables", "checkpoints", "status", "trigger_seconds", "watermark_minutes"),
        *("clean", "aggregate", "alarm", "rules", "master"),
    }
    assert set(found["source"]) == {
        *("kind", "topics", "dir", "bootstrap_servers", "kafka_options", "max_records", "max_files"),
    }


def test_the_jobs_read_what_is_made() -> None:
    """Held against the reader itself."""
    settings = pytest.importorskip("iot_spark.settings")
    for sets in ([], ["uplink.kind=kafka"]):
        assert settings.settings_of(made(*sets)).master == "local[2]"


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Also where one of other rights was before."""
    path = tmp_path / "below" / "clean.json"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o644)
    write_settings(settings_of(config()), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["master"] == "local[2]"
    assert list(path.parent.iterdir()) == [path]


def test_rules_travel_as_they_are(tmp_path: Path) -> None:
    """Both lists; an empty one is one."""
    path = tmp_path / "rules.yaml"
    path.write_text("clean:\n- {match: {tag: t}, unit: °C}\nalarms:\n")
    assert made(f"pipeline.rules={path}")["rules"] == {"clean": [{"match": {"tag": "t"}, "unit": "°C"}], "alarms": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clean: [", "while parsing"),
        ("- a", "must be a mapping"),
        ("cleaning: []", "unknown key 'cleaning'"),
        ("clean: {a: 1}", "clean must be a list of mappings"),
        ("alarms: [a]", "alarms must be a list of mappings"),
        ("alarms: [{above: .nan}]", "write it in quotes"),
        ("alarms: [{since: 2026-01-01}]", "write it in quotes"),
    ],
)
def test_a_mistake_in_the_rules_is_named_with_the_file(tmp_path: Path, text: str, words: str) -> None:
    """Before Spark is started."""
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(PipelineError) as told:
        read_rules(str(path))
    assert words in str(told.value)
    assert str(path) in str(told.value)


def test_rules_that_are_not_there_are_named(tmp_path: Path) -> None:
    """With the key."""
    with pytest.raises(PipelineError, match=r"pipeline\.rules: .*No such file"):
        read_rules(str(tmp_path / "none.yaml"))


def test_user_and_password_become_a_line_of_jaas() -> None:
    """Quotes in a password do not end it."""
    found = kafka_options(SecuritySettings("sasl_ssl", mechanism="SCRAM-SHA-512", username="joe", password='a"b\\c'))
    assert found == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="joe" password="a\\"b\\\\c";'
        ),
    }
    plain = kafka_options(SecuritySettings("sasl_plaintext", username="joe", password="x"))
    assert "plain.PlainLoginModule" in plain["kafka.sasl.jaas.config"]


def test_certificates_become_pem_stores(tmp_path: Path) -> None:
    """The key is read, because Java wants it in the option itself."""
    (tmp_path / "cert.pem").write_text("CERT")
    (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\nx")
    found = kafka_options(SecuritySettings("ssl", "/ca.pem", str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")))
    assert found == {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "CERT",
        "kafka.ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nx",
    }
    assert kafka_options(SecuritySettings("plaintext")) == {}


def test_a_key_of_another_form_is_refused_with_the_command(tmp_path: Path) -> None:
    """Java would say only that something is wrong."""
    (tmp_path / "key.pem").write_text("-----BEGIN RSA PRIVATE KEY-----\nx")
    with pytest.raises(PipelineError, match="openssl pkcs8"):
        kafka_options(SecuritySettings("ssl", cert=str(tmp_path / "key.pem")))
