"""Several ACL files, and directories of them: their order, what comes and goes, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.auth.acl_files import AclFiles
from iot_mqtt.auth.files import FileError
from iot_mqtt.ports.access import Principal


def filters(files: AclFiles) -> list[str]:
    who = Principal("c1", "ann")
    return [rule.filter for rules in files.content for rule in rules.of(who)]  # type: ignore[union-attr]


def write(path: Path, filter: str) -> None:
    """Replace a file, as editors do."""
    path.with_suffix(".new~").write_text(f"[all]\nallow all {filter}\n")
    path.with_suffix(".new~").replace(path)


def test_files_are_read_in_order(tmp_path: Path) -> None:
    """Of a directory by name; hidden ones and copies that editors keep are none; nothing is read twice."""
    folder = tmp_path / "rules"
    (folder / "sub").mkdir(parents=True)
    for name in ("20-line", "10-site", ".hidden", "10-site~"):
        (folder / name).write_text(f"[all]\nallow all {name}\n")
    write(tmp_path / "last", "last")
    files = AclFiles([str(folder), str(tmp_path / "last"), str(folder / "20-line")])
    assert filters(files) == ["10-site", "20-line", "last"]


def test_what_comes_goes_and_changes_is_seen(tmp_path: Path) -> None:
    """And what did not change is the same object, so that nobody's rights are made anew."""
    write(tmp_path / "b", "b")
    files = AclFiles([str(tmp_path)])
    before = files.content
    assert files.take(files.look(changed_only=True)) == [] and files.content is before
    write(tmp_path / "a", "a")
    assert files.take(files.look(changed_only=True)) == [] and filters(files) == ["a", "b"]
    write(tmp_path / "b", "other")
    assert files.take(files.look(changed_only=True)) == [] and filters(files) == ["a", "other"]
    (tmp_path / "a").unlink()
    assert files.take(files.look(changed_only=True)) == [] and filters(files) == ["other"]


def test_what_is_wrong_stays_as_it_was_and_is_told_once(tmp_path: Path) -> None:
    """A file that is new and wrong is left out; the others go on."""
    folder = tmp_path / "rules"
    folder.mkdir()
    write(folder / "a", "a")
    files = AclFiles([str(folder)])
    (folder / "a").write_text("nonsense")
    (folder / "b").write_text("nonsense")
    write(folder / "c", "c")
    errors = files.take(files.look(changed_only=True))
    assert [Path(error.path).name for error in errors] == ["a", "b"]
    assert filters(files) == ["a", "c"]
    assert files.take(files.look(changed_only=True)) == []
    assert sorted(error.path for error in files.outdated) == [str(folder / "a"), str(folder / "b")]
    assert len(files.take(files.look(changed_only=False))) == 2
    folder.rename(tmp_path / "away")
    assert [error.path for error in files.take(files.look(changed_only=True))] == [str(folder)]
    assert files.take(files.look(changed_only=True)) == [] and filters(files) == ["a", "c"]
    assert [error.path for error in files.outdated] == [str(folder), str(folder / "a")]
    (tmp_path / "away").rename(folder)
    write(folder / "b", "b")
    assert files.take(files.look(changed_only=True)) == [] and filters(files) == ["a", "b", "c"]
    write(folder / "a", "a")
    assert files.take(files.look(changed_only=True)) == [] and files.outdated == []


@pytest.mark.parametrize("name", ["missing", "wrong"])
def test_nothing_begins_with_a_file_that_is_wrong(tmp_path: Path, name: str) -> None:
    """Whichever of them it is."""
    write(tmp_path / "good", "good")
    (tmp_path / "wrong").write_text("nonsense")
    with pytest.raises(FileError):
        AclFiles([str(tmp_path / "good"), str(tmp_path / name)])
