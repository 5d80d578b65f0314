"""What root makes in a node's data directory is the node's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iot_mqtt.app.backup.running import left_to_owner

OWNER = (12345, 12346)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a node that runs as another user."""
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    os.chown(data, *OWNER)
    return data


def owner(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid


def fill(folder: Path) -> None:
    (folder / "grid" / "deep").mkdir(parents=True)
    (folder / "grid" / "deep" / "LOG").write_text("")
    (folder / "LOCK").write_text("")


def test_what_root_makes_belongs_to_the_owner_of_the_directory(data: Path) -> None:
    """However deep; and what an earlier command left there that was killed."""
    fill(data)
    with left_to_owner(data):
        (data / "more").write_text("")
    assert len([*data.rglob("*")]) == 5
    assert {owner(path) for path in data.rglob("*")} == {OWNER}


def test_so_it_is_after_what_fails(data: Path) -> None:
    """A restore of a damaged backup is run again, perhaps by the node's user."""
    with pytest.raises(ValueError, match="damaged"), left_to_owner(data):
        fill(data)
        raise ValueError("damaged")
    assert {owner(path) for path in data.rglob("*")} == {OWNER}


def test_a_directory_that_is_not_there_will_be_that_of_who_has_the_one_above(data: Path) -> None:
    """The next one that is there, with all in between."""
    with left_to_owner(data / "a" / "b"):
        fill(data / "a" / "b")
    assert len([*data.rglob("*")]) == 6
    assert {owner(path) for path in data.rglob("*")} == {OWNER}
    with left_to_owner(data / "never" / "made"):
        pass


def test_roots_own_directories_and_files_of_others_stay(tmp_path: Path, data: Path) -> None:
    """As in a container where everything is root's; and Spark's files are Spark's."""
    with left_to_owner(tmp_path):
        (tmp_path / "new").write_text("")
    assert owner(tmp_path / "new") == owner(tmp_path)
    (data / "table").write_text("")
    os.chown(data / "table", 777, 778)
    with left_to_owner(data):
        pass
    assert owner(data / "table") == (777, 778)


def test_links_give_nothing_away_that_lies_elsewhere(tmp_path: Path, data: Path) -> None:
    """Whoever owns the directory may have put them there."""
    (tmp_path / "shadow").write_text("root's")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root's")
    (data / "soft").symlink_to(tmp_path / "shadow")
    (data / "folder").symlink_to(tmp_path / "etc")
    os.link(tmp_path / "shadow", data / "hard")
    with left_to_owner(data):
        pass
    elsewhere = [tmp_path / "shadow", tmp_path / "etc", tmp_path / "etc" / "passwd"]
    assert {owner(path) for path in elsewhere} == {(0, 0)}
