"""The token file."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from iot_mqtt.admin.token import announce, announced, load_token, read_token


def test_the_first_start_makes_a_token_that_only_its_owner_reads(tmp_path: Path) -> None:
    """Mode 0600, long enough not to be guessed."""
    token = load_token(str(tmp_path / "new"))
    file = tmp_path / "new" / "admin.token"
    assert (file.stat().st_mode & 0o777, len(token) >= 40, file.read_text()) == (0o600, True, f"{token}\n")


def test_later_starts_keep_it(tmp_path: Path) -> None:
    """Scripts go on working over a restart."""
    assert load_token(str(tmp_path)) == load_token(str(tmp_path)) == read_token(str(tmp_path))


def test_two_nodes_have_different_tokens(tmp_path: Path) -> None:
    """It is random."""
    assert load_token(str(tmp_path / "a")) != load_token(str(tmp_path / "b"))


def test_a_token_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    """A copied data directory may have lost the mode."""
    (tmp_path / "admin.token").write_text("chosen\n")
    (tmp_path / "admin.token").chmod(0o644)
    assert load_token(str(tmp_path)) == "chosen"
    assert (tmp_path / "admin.token").stat().st_mode & 0o777 == 0o600


def test_an_empty_token_file_is_replaced(tmp_path: Path) -> None:
    """A crash between creating and writing must not leave a node whose token is the empty text."""
    (tmp_path / "admin.token").write_text("")
    assert len(load_token(str(tmp_path))) >= 40


def test_a_full_disk_leaves_nothing_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says which file there was no room for."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as refused:
        load_token(str(tmp_path))
    assert refused.value.filename == str(tmp_path / "admin.token")
    assert list(tmp_path.iterdir()) == []


def test_nobody_started_here_yet(tmp_path: Path) -> None:
    """``ctl`` can tell that from a token."""
    assert (read_token(str(tmp_path)), announced(str(tmp_path))) == (None, None)


def test_the_address_is_left_beside_the_token(tmp_path: Path) -> None:
    """With port 0 nobody could know it beforehand; the last start counts."""
    announce(str(tmp_path), "http://127.0.0.1:1")
    announce(str(tmp_path), "http://127.0.0.1:2")
    assert announced(str(tmp_path)) == "http://127.0.0.1:2"


@pytest.mark.parametrize("kind", ["folder", "bytes"])
def test_a_file_that_is_none_is_told_with_its_name(tmp_path: Path, kind: str) -> None:
    """It stays as it is: who knows what it was for."""
    path = tmp_path / "admin.token"
    if kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe")
    with pytest.raises(OSError) as refused:
        load_token(str(tmp_path))
    assert refused.value.filename == str(path) and path.exists()
