"""``settings.json`` and the rules: what is right is read, what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from iot_spark.rules import BadRule, clean_rules, like
from iot_spark.settings import BadSettings, load, settings_of

from tests.spark.records import written


def test_settings_are_read_as_they_are_written(tmp_path: Path) -> None:
    """Every key of a full file arrives, with the types that it has."""
    said = written(
        tmp_path,
        source={
            "kind": "kafka",
            "topics": ["a", "b"],
            "bootstrap_servers": "h:1",
            "dir": None,
            "kafka_options": {"kafka.security.protocol": "SSL"},
            "max_records": 7,
            "max_files": 8,
        },
        watermark_minutes=5,
        clean={"topic": None, "invalid_topic": "iot.invalid", "future_seconds": 60},
        aggregate={"window_seconds": 10, "lateness_seconds": 20},
        alarm={"topic": "iot.alarms", "commands_topic": "iot.commands"},
        rules={"clean": [{"unit": "x"}], "alarms": []},
    )
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(said))
    found = load(path)
    assert found.source.topics == ("a", "b") and found.source.kafka_options == {"kafka.security.protocol": "SSL"}
    assert found.clean.topic is None and found.clean.future_seconds == 60
    assert found.trigger_seconds == 0.5 and found.checkpoint("clean") == tmp_path / "checkpoints" / "clean"
    assert found.rules.clean == ({"unit": "x"},)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": 1}, "colour is not known"),
        ({"clean": {"topc": "x"}}, "clean.topc is not known"),
        ({"clean": {"topic": 5}}, "clean.topic must be a text, not 5"),
        ({"watermark_minutes": "60"}, "watermark_minutes must be a whole number"),
        ({"watermark_minutes": True}, "watermark_minutes must be a whole number"),
        ({"watermark_minutes": 0}, "watermark_minutes must be more than 0"),
        ({"trigger_seconds": -1}, "trigger_seconds must be more than 0"),
        ({"tables": "tables"}, "tables must be an absolute path"),
        ({"source": {"kind": "files"}}, "source.dir is missing"),
        ({"source": {"kind": "kafka"}}, "source.bootstrap_servers is missing"),
        ({"source": {"kind": "pulsar"}}, "source.kind must be one of kafka, files"),
        ({"source": {"topics": []}}, "source.kind is missing"),
        ({"source": {"kind": "kafka", "topics": "a"}}, "source.topics must be a list"),
        ({"source": {"kind": "kafka", "topics": ["a", 1]}}, r"source.topics[1] must be a text"),
        ({"rules": {"clean": [1, 2], "x": 1}}, "rules.x is not known"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """The error begins with the key."""
    with pytest.raises(BadSettings) as caught:
        settings_of(written(tmp_path) | change)
    assert told in str(caught.value)


def test_a_missing_or_broken_file_says_what_to_do(tmp_path: Path) -> None:
    """The path, and the command that makes it."""
    with pytest.raises(BadSettings, match="iot-mqtt pipeline settings"):
        load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(BadSettings, match=r"bad.json is not JSON"):
        load(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("text", "rules.clean[1] must be a mapping"),
        ({"unti": "°C"}, "rules.clean[1]: unti is not known"),
        ({"match": {"tags": "x"}}, "rules.clean[1].match: tags is not known"),
        ({"match": {"tag": 3}}, "rules.clean[1].match: tag must be a text, not 3"),
        ({"min": "3"}, "rules.clean[1]: min must be a number"),
        ({"min": True}, "rules.clean[1]: min must be a number"),
        ({"scale": float("nan")}, "rules.clean[1]: scale must be a number"),
        ({"scale": 0}, "rules.clean[1]: scale must not be 0"),
        ({"min": 3, "max": 2}, "rules.clean[1]: min 3 is more than max 2"),
        ({"outside": "drop"}, "rules.clean[1]: outside must be one of invalid, quality"),
    ],
)
def test_a_wrong_rule_is_named_with_its_place(entry: object, told: str) -> None:
    """Which entry of the list, which key of it, and why."""
    with pytest.raises(BadRule) as caught:
        clean_rules([{"unit": "°C"}, entry])
    assert told in str(caught.value)


def test_patterns_take_sql_signs_as_they_are() -> None:
    """A per cent sign in a tag's name stands for itself."""
    assert like("a*b?c%d_e\\") == "a%b_c\\%d\\_e\\\\"
