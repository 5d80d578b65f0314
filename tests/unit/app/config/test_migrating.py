"""Keys that were renamed: told where they stand, and written anew."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from iot_mqtt.app.cli import main
from iot_mqtt.app.config import ConfigError, load_config
from iot_mqtt.app.config.limits import KEYS, RENAMED, SECTIONS
from iot_mqtt.app.config.migrating import name_of_now

OLD = {"mqtt.most_sessions": "mqtt.max_sessions", "listeners.*.bind": "listeners.*.host", "log.max_qos": "mqtt.max_qos"}
FILE = """\
mqtt: # what it may
  most_sessions: 5  # a few
listeners:
  mqtt: {bind: 127.0.0.1, port: 5}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for old, now in OLD.items():
        monkeypatch.setitem(RENAMED, old, now)
    file = tmp_path / "application.yaml"
    file.write_text(FILE)
    return file


def test_the_name_of_now_is_told(file: Path) -> None:
    """With the line, and with what writes it."""
    with pytest.raises(ConfigError) as refused:
        load_config(str(file), (), {})
    assert [str(one).split("; ")[0] for one in refused.value.problems] == [
        f"{file}:2:3: mqtt.most_sessions: is called mqtt.max_sessions now",
        f"{file}:4:10: listeners.mqtt.bind: is called listeners.mqtt.host now",
    ]


def test_a_file_is_written_anew_with_its_comments(file: Path) -> None:
    """What it was is kept beside it."""
    dry = CliRunner().invoke(main, ["config", "migrate", str(file), "--dry-run"])
    assert (dry.exit_code, file.read_text()) == (0, FILE)
    result = CliRunner().invoke(main, ["config", "migrate", str(file)])
    assert (result.exit_code, result.output) == (0, dry.output)
    assert file.read_text() == FILE.replace("most_sessions", "max_sessions").replace("bind", "host")
    assert file.with_name("application.yaml.before").read_text() == FILE
    assert load_config(str(file), (), {}).mqtt.max_sessions == 5
    again = CliRunner().invoke(main, ["config", "migrate", str(file)])
    assert "every key has its name of now" in again.output


def test_what_is_in_another_section_now_is_left_to_the_author(file: Path) -> None:
    """He is told where."""
    file.write_text("log: {max_qos: 1}\n")
    result = CliRunner().invoke(main, ["config", "migrate", str(file)])
    assert result.exit_code == 1 and "log.max_qos is mqtt.max_qos now: move it there" in result.output
    assert yaml.safe_load(file.read_text()) == {"log": {"max_qos": 1}}


def test_names_of_now_are_names_that_there_are() -> None:
    """And names of before are not."""
    for old, now in RENAMED.items():
        assert old not in KEYS and (now in KEYS or now in SECTIONS), old
    assert name_of_now("listeners.x.tls.cert", {"listeners.*.tls": "listeners.*.secure"}) == "listeners.x.secure.cert"
