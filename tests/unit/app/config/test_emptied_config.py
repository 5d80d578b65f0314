"""A configuration file that loses all it says while a node runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.app.config import ConfigError
from iot_mqtt.app.config.reading import Rereading, read_config


def test_a_file_that_becomes_empty_is_refused(tmp_path: Path) -> None:
    """Its ports would be closed; however often it is read, until there is something in it."""
    path = tmp_path / "application.yaml"
    path.write_text("node: {id: a}\n")
    reread = Rereading(read_config(str(path), (), {}), (), {})
    path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(ConfigError, match="is empty, and was not before"):
            reread()
    path.write_text("# all defaults\n")
    assert reread().config.node.id == read_config(None, (), {}).config.node.id


def test_a_file_that_was_empty_may_stay_so(tmp_path: Path) -> None:
    """It is one that says nothing, until it has said something."""
    path = tmp_path / "application.yaml"
    path.touch()
    reread = Rereading(read_config(str(path), (), {}), ("node.id=b",), {})
    assert reread().config.node.id == "b"
    path.write_text("mqtt: {}\n")
    reread()
    path.write_bytes(b"")
    with pytest.raises(ConfigError):
        reread()


def test_without_a_file_nothing_is_missed() -> None:
    """Defaults and the command line may be all there is."""
    assert Rereading(read_config(None, (), {}), ("node.id=b",), {})().config.node.id == "b"
