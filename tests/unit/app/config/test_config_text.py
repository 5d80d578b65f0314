"""Configuration as people read it: the annotated file, ``show`` and ``explain``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from iot_mqtt.app.config import limits, load_config, read_config, schema
from iot_mqtt.app.config.limits import KEYS, SECTIONS, pattern_of
from iot_mqtt.app.config.sections import known_listeners
from iot_mqtt.app.config.text import explained, reference, shown

REPOSITORY_FILE = Path(__file__).parents[4] / "application.yaml"


def uncommented(text: str) -> str:
    """The annotated file with every ``#key: value`` made real."""
    return "\n".join(
        line.replace("#", "", 1) if line.lstrip().startswith("#") and not line.lstrip().startswith("# ") else line
        for line in text.split("\n")
    )


def test_the_file_of_the_repository_is_what_the_schema_renders() -> None:
    """``iot-mqtt config reference > application.yaml`` after every change of a key."""
    assert REPOSITORY_FILE.read_text(encoding="utf-8") == reference()


def test_the_file_of_the_repository_changes_nothing() -> None:
    """Every key in it is commented out, so that what is not is what an operator changed."""
    assert read_config(str(REPOSITORY_FILE), (), {}).written == {}


def test_every_key_is_in_the_file_with_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking away every ``#`` writes out all the defaults, and nothing else."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.yaml").write_text(uncommented(reference()))
    loaded = read_config("all.yaml", (), {})
    assert loaded.config == load_config(None, (), {})
    assert set(schema.keys(["mqtt"])) <= set(loaded.written)


def test_every_key_and_section_means_something() -> None:
    """A new key without a sentence fails here, and so does a sentence without its key."""
    patterns = {pattern_of(key) for key in schema.keys(known_listeners())}
    assert patterns == set(KEYS)
    sections = set(schema.keys(known_listeners(), sections=True)) - set(schema.keys(known_listeners()))
    assert {pattern_of(key) for key in sections} | {f"listeners.{name}" for name in known_listeners()} == set(SECTIONS)


def test_every_default_is_within_its_limits() -> None:
    """What we ship would be accepted if it were written out."""
    loaded = read_config(None, (), {})
    assert [limits.complaint(key, loaded.value(key)) for key in schema.keys(known_listeners())] == [None] * len(
        schema.keys(known_listeners())
    )


def test_explain_names_the_winner_and_what_it_overrides(tmp_path: Path) -> None:
    """The whole chain, with the place of each."""
    path = tmp_path / "application.yaml"
    path.write_text("mqtt:\n  max_qos: 0\n")
    loaded = read_config(str(path), ("mqtt.max_qos=1",), {"IOT_MQTT__MQTT__MAX_QOS": "2"})
    assert explained(loaded, "mqtt.max_qos") == (
        "mqtt.max_qos = 1\n"
        "  from       --set mqtt.max_qos\n"
        "  overrides  IOT_MQTT__MQTT__MAX_QOS = 2\n"
        f"  overrides  {path}:2:3 = 0\n"
        "  type       a whole number, 0 to 2\n"
        "  default    2\n"
        "\n"
        "  Highest QoS of a publish.\n"
    )


def test_explain_tells_why_a_default_is_not_the_usual_one() -> None:
    """Derived defaults name their cause."""
    text = explained(read_config(None, ("auth.users_file=/u",), {}), "auth.allow_anonymous")
    assert text is not None
    assert text.startswith("auth.allow_anonymous = false\n  from       default, because auth.users_file is set\n")


def test_explain_of_a_section_lists_its_keys() -> None:
    """With where each comes from."""
    text = explained(read_config(None, ("admin.port=1",), {}), "admin")
    assert text is not None
    assert "  admin.host = 127.0.0.1  (default)\n  admin.port = 1  (--set admin.port)\n" in text


@pytest.mark.parametrize("key", ["mqt", "mqtt.max", "listeners.x", "listeners.mqtt.port.x", "", "."])
def test_explain_knows_what_is_no_key(key: str) -> None:
    """The command then says which one was meant."""
    assert explained(read_config(None, (), {}), key) is None


def test_show_is_yaml_that_gives_the_same_configuration(tmp_path: Path) -> None:
    """It can be kept as a file."""
    loaded = read_config(None, ("listeners.in.protocol=mqtt", "node.id=x"), {})
    (tmp_path / "shown.yaml").write_text(shown(loaded))
    assert read_config(str(tmp_path / "shown.yaml"), (), {}).config == loaded.config
    assert "  id: x  # --set node.id\n" in shown(loaded)


def test_secrets_are_masked_wherever_they_are_shown() -> None:
    """In lists and mappings, too."""
    rules = "uplink.rules=[{topic: a, sasl_password: hunter2}]"
    loaded = read_config(None, (rules,), {})
    explanation = explained(loaded, "uplink.rules")
    assert explanation is not None
    assert "hunter2" not in shown(loaded) + explanation
    assert yaml.safe_load(shown(loaded))["uplink"]["rules"] == [{"topic": "a", "sasl_password": "******"}]
