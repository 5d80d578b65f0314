"""Files of users and of rules that lose all they say while a node runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.auth.acl_files import AclFiles
from iot_mqtt.auth.files import WatchedFile
from iot_mqtt.auth.users import Users, parse_users
from tests.unit.auth.test_users import HASH

WHY = "is empty, and was not before: one that is to say nothing has a comment in it"


def reread(file: WatchedFile[Users]) -> str | None:
    """By SIGHUP; what is wrong with it."""
    error = file.take(file.look(changed_only=False))
    return None if error is None else error.detail


def test_a_file_that_becomes_empty_keeps_what_it_said(tmp_path: Path) -> None:
    """As a torn redirection or a full disk leaves it; however often it is read."""
    path = tmp_path / "users"
    path.write_text(f"ann:{HASH}\n")
    file = WatchedFile(str(path), parse_users)
    path.write_bytes(b"")
    for _ in range(3):
        assert reread(file) == f"cannot be read: {WHY}"
        assert "ann" in file.content
    path.write_text(f"bob:{HASH}\n")
    assert reread(file) is None
    assert "bob" in file.content and "ann" not in file.content


@pytest.mark.parametrize("text", ["# nobody\n", "\n"])
def test_a_file_that_is_to_say_nothing_may(tmp_path: Path, text: str) -> None:
    """There is something in it."""
    path = tmp_path / "users"
    path.write_text(f"ann:{HASH}\n")
    file = WatchedFile(str(path), parse_users)
    path.write_text(text)
    assert reread(file) is None
    assert len(file.content) == 0


def test_a_file_that_was_empty_may_stay_so(tmp_path: Path) -> None:
    """Nobody loses anything."""
    path = tmp_path / "users"
    path.touch()
    file = WatchedFile(str(path), parse_users)
    assert reread(file) is None
    path.write_text(f"ann:{HASH}\n")
    assert reread(file) is None
    path.write_bytes(b"")
    assert reread(file) is not None


def test_rules_that_become_empty_stay(tmp_path: Path) -> None:
    """And are told of."""
    path = tmp_path / "acl"
    path.write_text("[all]\nallow all #\n")
    files = AclFiles([str(path)])
    before = files.content
    path.write_bytes(b"")
    (error,) = files.take(files.look(changed_only=True))
    assert error.detail.endswith(WHY)
    assert files.content is before
    assert files.outdated == [error]
