"""The format of a data directory: the same goes, older ones are brought up to date, newer ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from iot_mqtt import __version__
from iot_mqtt.app.cli import main
from iot_mqtt.app.data_format import FILE, FORMAT, DataFormat, FormatRefused, format_of, prepare
from iot_mqtt.grid.engine import Engine
from iot_mqtt.grid.engine_format import FORMAT as GRID_FORMAT


def test_a_directory_without_the_file_is_the_first(tmp_path: Path) -> None:
    """And is noted; a new one is made."""
    folder = tmp_path / "data"
    assert format_of(folder) == DataFormat(1, None)
    prepare(folder)
    assert format_of(folder) == DataFormat(FORMAT, __version__)
    before = (folder / FILE).stat().st_mtime_ns
    prepare(folder)
    assert (folder / FILE).stat().st_mtime_ns == before


def test_steps_are_taken_one_after_the_other_and_again_where_one_was_killed(tmp_path: Path) -> None:
    """What is done is noted at once."""
    done: list[int] = []
    killed = [True]

    def second(folder: Path) -> None:
        assert format_of(folder).format == 2
        if killed.pop():
            raise KeyboardInterrupt
        done.append(2)

    steps = {1: lambda _: done.append(1), 2: second}
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, 3, steps)
    assert (done, format_of(tmp_path).format) == ([1], 2)
    killed.append(False)
    prepare(tmp_path, 3, steps)
    assert (done, format_of(tmp_path).format) == ([1, 2], 3)


def test_a_newer_one_is_refused_and_left_alone(tmp_path: Path) -> None:
    """With the version that knows it."""
    text = json.dumps({"format": FORMAT + 1, "written_by": "9.1.0"})
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FormatRefused, match=r"written by iot-mqtt 9\.1\.0; this is .*: start that version"):
        prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE] and (tmp_path / FILE).read_text() == text
    result = CliRunner().invoke(main, ["version", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0 and "format 2, written by iot-mqtt 9.1.0" in result.output


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "1", "written_by": "x"}', '{"format": 0, "written_by": ""}']
)
def test_what_cannot_be_read_is_refused(text: str, tmp_path: Path) -> None:
    """Nobody guesses."""
    (tmp_path / FILE).write_text(text)
    with pytest.raises(FormatRefused, match=r"VERSION is damaged: .* put back the file of before"):
        prepare(tmp_path)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """By its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatRefused, match="file"):
        prepare(tmp_path / "file" / "data")


def test_the_format_of_the_grid_is_told_too(tmp_path: Path) -> None:
    """An older release may know the directory's and not the grid's; a node that runs is not disturbed."""
    engine = Engine(tmp_path / "grid", pause=lambda _: None)
    engine.open()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "grid").iterdir()}
    result = CliRunner().invoke(main, ["version", "--data-dir", str(tmp_path)])
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "grid").iterdir()} == before
    engine.close()
    major, minor = GRID_FORMAT
    assert (result.exit_code, f"its grid has format {major}.{minor}; this version" in result.output) == (0, True)


def test_a_directory_without_a_grid_has_no_format_of_it(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["version", "--data-dir", str(tmp_path)])
    assert (result.exit_code, "grid" in result.output.replace(str(tmp_path), "")) == (0, False)


def test_a_grid_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "grid").mkdir()
    (tmp_path / "grid" / "CURRENT").write_text("MANIFEST-000001\n")
    result = CliRunner().invoke(main, ["version", "--data-dir", str(tmp_path)])
    assert result.exit_code == 1
    assert "cannot be opened" in result.output
