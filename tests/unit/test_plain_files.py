"""Files that people name: what might never end is refused at once."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from iot_mqtt.plain_files import read_plain, require_plain


def test_a_file_is_read_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(b"ann:\n" * 100_000)
    (tmp_path / "link").symlink_to(path)
    for name in ("users", "link"):
        assert read_plain(str(tmp_path / name)) == path.read_bytes()
        require_plain(str(tmp_path / name))
    assert read_plain(os.devnull) == b""


@pytest.mark.parametrize("kind", ["pipe", "written pipe", "socket", "folder", "zeros", "nothing"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    writer = None
    if "pipe" in kind:
        os.mkfifo(path)
        if kind == "written pipe":
            writer = os.open(path, os.O_RDWR)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "zeros":
        path.symlink_to("/dev/zero")
    for use in (read_plain, require_plain):
        with pytest.raises(OSError) as refused:
            use(str(path))
        assert refused.value.strerror
    if writer is not None:
        os.close(writer)
