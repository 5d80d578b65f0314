"""Files that are whole or not there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from iot_mqtt.whole_files import new_file


def write(path: Path, content: bytes = b"new") -> None:
    with new_file(path) as file:
        file.write(content)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whoever wants more readers says so."""
    write(tmp_path / "file")
    assert (mode(tmp_path / "file"), (tmp_path / "file").read_bytes()) == (0o600, b"new")


@pytest.mark.parametrize("before", [0o600, 0o640, 0o644, 0o400])
def test_who_may_read_a_file_may_read_the_one_in_its_place(tmp_path: Path, before: int) -> None:
    """And nobody else."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(before)
    write(path)
    assert (mode(path), path.read_bytes()) == (before, b"new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_root_leaves_a_file_with_its_owner_and_its_group(tmp_path: Path) -> None:
    """As it leaves its mode."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 12345, 12346)
    write(path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (12345, 12346, 0o640)


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="no more"), new_file(path) as file:
        file.write(b"ne")
        raise ValueError("no more")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_what_lies_in_the_way_is_not_written_into(tmp_path: Path) -> None:
    """What a killed process left goes; where a link leads stays as it is."""
    (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / ".file.part").symlink_to(tmp_path / "elsewhere")
    write(tmp_path / "file")
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "file"]


def test_what_cannot_be_made_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    """Nobody knows the other one."""
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "nowhere" / "file")
    assert caught.value.filename == str(tmp_path / "nowhere" / "file")


def test_a_secret_is_for_its_owner_alone_whoever_could_read_what_was_there(tmp_path: Path) -> None:
    """As it would be if it were new."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)
    with new_file(path, secret=True) as file:
        file.write(b"new")
    assert (mode(path), path.read_bytes()) == (0o600, b"new")
