"""Whose the files of a node are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iot_mqtt.app.config import read_config
from iot_mqtt.app.config.private_files import narrow, set_umask


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*paths: Path) -> list[str]:
    return [f"{path.stat().st_mode & 0o777:o}" for path in paths]


@pytest.mark.parametrize(("who", "shared", "file"), [("owner", "700", "600"), ("group", "750", "640")])
def test_what_is_wider_is_narrowed_once(tmp_path: Path, who: str, shared: str, file: str) -> None:
    """What is for others is opened to the group at most, and nothing is widened."""
    data, elsewhere, log = tmp_path / "data", tmp_path / "tables", tmp_path / "node.log"
    for name in ("uplink", "grid", "plugins"):
        (data / name).mkdir(parents=True)
    elsewhere.mkdir()
    log.touch()
    sets = [f"node.data_dir={data}", f"node.readable_by={who}", f"log.file={log}", f"pipeline.dir={elsewhere}"]
    config = read_config(None, sets, {}).config
    set_umask(config)
    lines = narrow(config)
    assert modes(data, data / "uplink", data / "grid", data / "plugins") == [shared, shared, "700", "700"]
    assert modes(log, elsewhere) == [file, "777"]
    assert len(lines) == 5 and all("narrowed" in line for line in lines)
    assert narrow(config) == []
    data.chmod(0o500)
    assert narrow(config) == [] and modes(data) == ["500"]


def test_what_is_made_is_narrow_at_once(tmp_path: Path) -> None:
    """The directory itself, those above it, and whatever is written there later."""
    config = read_config(None, [f"node.data_dir={tmp_path}/a/data"], {}).config
    set_umask(config)
    assert narrow(config) == []
    (tmp_path / "a" / "data" / "x").touch()
    assert modes(tmp_path / "a", tmp_path / "a" / "data", tmp_path / "a" / "data" / "x") == ["700", "700", "600"]
