"""What ``iot-mqtt passwd`` does to the file."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from iot_mqtt.auth import argon, passwd
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.users import parse_users
from tests.unit.auth.authkit import cheap_hash


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash at the least cost: these tests are about the file."""
    monkeypatch.setattr(argon, "hash_password", lambda password: cheap_hash(password.decode()))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "users"


def test_the_first_password_makes_the_file(path: Path) -> None:
    """Readable by its owner alone, with a line that says what it is."""
    assert passwd.set_password(str(path), "ann", b"pw") is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("#")
    assert passwd.verify(str(path), "ann", b"pw")
    assert not passwd.verify(str(path), "ann", b"other")
    assert not passwd.verify(str(path), "bob", b"pw")
    assert os.listdir(path.parent) == ["users"]


def test_a_new_password_takes_the_place_of_the_old(path: Path) -> None:
    """Comments and the order of lines stay, other users too, and who may read the file."""
    path.write_text(f"# staff\nann:{cheap_hash('old')}\n\n# guests\nbob:{cheap_hash('b')}\n")
    path.chmod(0o640)
    assert passwd.set_password(str(path), "ann", b"new") is False
    lines = path.read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["# staff", "ann", "", "# guests", "bob"]
    assert passwd.verify(str(path), "ann", b"new")
    assert passwd.verify(str(path), "bob", b"b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_user_is_removed_once(path: Path) -> None:
    """The second time there is none, and the file is left as it is."""
    passwd.set_password(str(path), "ann", b"pw")
    passwd.set_password(str(path), "bob", b"pw")
    assert passwd.remove_user(str(path), "ann") is True
    before = path.stat().st_ino
    assert passwd.remove_user(str(path), "ann") is False
    assert path.stat().st_ino == before
    assert "ann" not in parse_users(path.read_text(), "users")
    assert passwd.verify(str(path), "bob", b"pw")


def test_a_user_is_disabled_and_enabled_with_the_password_it_had(path: Path) -> None:
    """A new password changes nothing about it; who is not there cannot be disabled."""
    passwd.set_password(str(path), "ann", b"pw")
    passwd.set_password(str(path), "bob", b"pw")
    for _ in range(2):
        assert passwd.set_disabled(str(path), "ann", disabled=True) is True
    assert not passwd.verify(str(path), "ann", b"pw")
    assert passwd.verify(str(path), "bob", b"pw")
    assert passwd.set_password(str(path), "ann", b"new") is False
    assert passwd.is_disabled(str(path), "ann")
    assert "ann:!$argon2id$" in path.read_text()
    assert passwd.set_disabled(str(path), "ann", disabled=False) is True
    assert passwd.verify(str(path), "ann", b"new")
    assert passwd.set_disabled(str(path), "carol", disabled=True) is False


@pytest.mark.parametrize("name", ["", " ann", "#ann", "a:b", "a\nb", "a\0b"])
def test_a_name_that_the_file_cannot_hold_is_refused(path: Path, name: str) -> None:
    """Nothing is written then."""
    with pytest.raises(ValueError):
        passwd.set_password(str(path), name, b"pw")
    assert not path.exists()


def test_an_empty_password_is_refused(path: Path) -> None:
    """It would let in whoever knows the name."""
    with pytest.raises(ValueError):
        passwd.set_password(str(path), "ann", b"")


def test_a_damaged_file_is_not_written_over(path: Path) -> None:
    """The error names the line, and the text stays for its owner to mend."""
    path.write_text("ann:oops\n")
    with pytest.raises(FileError) as caught:
        passwd.set_password(str(path), "bob", b"pw")
    assert caught.value.line == 1
    assert path.read_text() == "ann:oops\n"
    assert os.listdir(path.parent) == ["users"]


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No half file, no left-over beside it."""
    passwd.set_password(str(path), "ann", b"pw")
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space"):
        passwd.set_password(str(path), "bob", b"pw")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["users"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file behind it is replaced, not the link."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "users"
    link.symlink_to(tmp_path / "real" / "users")
    passwd.set_password(str(link), "ann", b"pw")
    passwd.set_password(str(link), "bob", b"pw")
    assert link.is_symlink()
    assert len(parse_users(link.read_text(), "users")) == 2


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """It is not made: a mistyped path should not become a folder."""
    with pytest.raises(FileError, match="nowhere"):
        passwd.set_password(str(tmp_path / "nowhere" / "users"), "ann", b"pw")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_whom_root_disables_the_node_sees_disabled(path: Path) -> None:
    """The file of the Debian package: root's, and read by the node's group."""
    passwd.set_password(str(path), "ann", b"pw")
    os.chown(path, 0, 12346)
    path.chmod(0o640)
    passwd.set_disabled(str(path), "ann", disabled=True)
    assert owned(path) == (0, 12346, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("folder", "file"),
    [
        ((0, 12346, 0o750), (0, 12346, 0o640)),  # /etc/iot-mqtt of the package
        ((12345, 12346, 0o700), (12345, 12346, 0o600)),  # a data directory
        ((12345, 12346, 0o755), (12345, 12346, 0o600)),
        ((12345, 12346, 0o751), (12345, 12346, 0o600)),
    ],
)
def test_a_file_that_root_makes_is_for_whom_its_folder_is(
    path: Path, folder: tuple[int, int, int], file: tuple[int, int, int]
) -> None:
    """For its owner; for a group if the folder is for that group and nobody else."""
    os.chown(path.parent, *folder[:2])
    path.parent.chmod(folder[2])
    passwd.set_password(str(path), "ann", b"pw")
    assert owned(path) == file


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("file", "alone"),
    [
        ((0, 0, 0o640), True),
        ((0, 12346, 0o600), True),
        ((0, 12346, 0o640), False),
        ((0, 0, 0o604), False),
        ((12345, 0, 0o600), False),
    ],
)
def test_a_file_that_only_root_can_read_is_known(path: Path, file: tuple[int, int, int], alone: bool) -> None:
    """A node of another user would not start with it."""
    path.write_text("")
    os.chown(path, *file[:2])
    path.chmod(file[2])
    assert passwd.is_roots_alone(str(path)) is alone


def owned(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)


def _add_users(path: str, prefix: str) -> None:
    for number in range(20):
        passwd.set_password(path, f"{prefix}{number}", b"pw")


def test_two_callers_do_not_lose_each_others_change(path: Path) -> None:
    """Two processes, twenty users each: forty users."""
    fork = multiprocessing.get_context("fork")
    callers = [fork.Process(target=_add_users, args=(str(path), prefix)) for prefix in "ab"]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert caller.exitcode == 0
    assert len(parse_users(path.read_text(), "users")) == 40
