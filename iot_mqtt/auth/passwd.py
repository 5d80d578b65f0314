"""What ``iot-mqtt passwd`` does to the file of users: set, remove, disable, enable, verify.

The file is replaced as a whole by one rename, so that a running broker sees the old text or the new one;
comments and the order of lines stay. A lock on its folder keeps two callers from losing each other's change.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iot_mqtt.auth import argon, kinds, scram_keys
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.users import DISABLED, SCRAM, Entry, check_name, entries, parse_users
from iot_mqtt.whole_files import new_file

_HEADER = "# Users of iot-mqtt, kept with `iot-mqtt passwd`. One per line: name:hash\n"
_GROUP_READS: Final = stat.S_IRGRP | stat.S_IXGRP


def set_password(path: str, name: str, password: bytes, *, scram: bool = False) -> bool:
    """Give a user a password, making the file and the user if need be; True if the user is new.

    Who is disabled stays disabled. ``scram``: with keys for SCRAM; without, the user has none any more.
    ``ValueError`` if the file cannot hold such a name or the password is empty.
    """
    check_name(name)
    if not password:
        raise ValueError("the password is empty")
    encoded = argon.hash_password(password)
    if scram:
        encoded += f"{SCRAM}{scram_keys.derive(password)}"
    with _edit(path) as lines:
        entry = _find(lines, name, path)
        if entry is None:
            lines.append(_line(name, encoded, disabled=False))
        else:
            lines[entry.number - 1] = _line(name, encoded, disabled=entry.disabled)
    return entry is None


def set_disabled(path: str, name: str, *, disabled: bool) -> bool:
    """Let nobody in by this name any more, or again with its old password; False if there is no such user."""
    with _edit(path) as lines:
        entry = _find(lines, name, path)
        if entry is not None:
            keys = "" if entry.scram is None else f"{SCRAM}{entry.scram}"
            lines[entry.number - 1] = _line(name, entry.hash + keys, disabled=disabled)
    return entry is not None


def is_disabled(path: str, name: str) -> bool:
    """Whether the file has this user, disabled."""
    return parse_users(read_text(path), path).is_disabled(name)


def remove_user(path: str, name: str) -> bool:
    """Take a user out of the file; False if there was none."""
    with _edit(path) as lines:
        entry = _find(lines, name, path)
        if entry is not None:
            del lines[entry.number - 1]
    return entry is not None


def is_roots_alone(path: str) -> bool:
    """Whether a node of any other user cannot read the file."""
    found = Path(path).stat()
    readers = stat.S_IROTH | stat.S_IRGRP if found.st_gid else stat.S_IROTH
    return found.st_uid == 0 and not found.st_mode & readers


def verify(path: str, name: str, password: bytes) -> bool:
    """True if the file has this user with this password."""
    users = parse_users(read_text(path), path)
    return kinds.verify(users.hash_of(name), password) and name in users


def _find(lines: list[str], name: str, path: str) -> Entry | None:
    """A user's line. Reads the whole file, so that a damaged one is not written back."""
    found = None
    for entry in entries("\n".join(lines), path):
        if entry.name == name:
            found = entry
    return found


def _line(name: str, encoded: str, *, disabled: bool) -> str:
    return f"{name}:{DISABLED if disabled else ''}{encoded}"


@contextmanager
def _edit(path: str) -> Iterator[list[str]]:
    """The file's lines, to be changed in place; they are written back if they were."""
    target = Path(os.path.realpath(path))  # a link stays a link
    with _locked(target.parent):
        text = read_text(str(target)) if target.exists() else _HEADER
        before = text.removesuffix("\n").split("\n")
        lines = before.copy()
        yield lines
        if lines != before or not target.exists():
            _replace(target, "\n".join(lines) + "\n")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise FileError(str(folder), None, f"cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
    """Write the whole file anew, all or nothing."""
    try:
        with new_file(target) as file:
            if not target.exists() and os.geteuid() == 0:
                _give_to_readers_of(target.parent, file.fileno())
            file.write(text.encode())
    except OSError as error:
        raise FileError(str(target), None, f"cannot be written: {error.strerror}") from error


def _give_to_readers_of(folder: Path, descriptor: int) -> None:
    """What root makes is for the owner of its folder, and for a group if the folder is for that group and nobody else:
    the node that reads it runs as another user.
    """
    found = folder.stat()
    os.fchown(descriptor, found.st_uid, found.st_gid)
    if found.st_mode & _GROUP_READS == _GROUP_READS and not found.st_mode & stat.S_IRWXO:
        os.fchmod(descriptor, 0o640)
