"""What ``iot-mqtt passwd`` does to the file of users: set, remove, verify.

The file is replaced as a whole by one rename, so that a running broker sees the old text or the new one;
comments and the order of lines stay. A lock on its folder keeps two callers from losing each other's change.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iot_mqtt.auth import argon
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.users import check_name, entries, parse_users

_HEADER = "# Users of iot-mqtt, kept with `iot-mqtt passwd`. One per line: name:hash\n"


def set_password(path: str, name: str, password: bytes) -> bool:
    """Give a user a password, making the file and the user if need be; True if the user is new.

    ``ValueError`` if the file cannot hold such a name or the password is empty.
    """
    check_name(name)
    if not password:
        raise ValueError("the password is empty")
    line = f"{name}:{argon.hash_password(password)}"
    with _edit(path) as lines:
        place = _find(lines, name, path)
        if place is None:
            lines.append(line)
        else:
            lines[place] = line
    return place is None


def remove_user(path: str, name: str) -> bool:
    """Take a user out of the file; False if there was none."""
    with _edit(path) as lines:
        place = _find(lines, name, path)
        if place is not None:
            del lines[place]
    return place is not None


def verify(path: str, name: str, password: bytes) -> bool:
    """True if the file has this user with this password."""
    users = parse_users(read_text(path), path)
    return argon.verify_password(users.hash_of(name), password) and name in users


def _find(lines: list[str], name: str, path: str) -> int | None:
    """The index of a user's line. Reads the whole file, so that a damaged one is not written back."""
    found = None
    for number, known, _ in entries("\n".join(lines), path):
        if known == name:
            found = number - 1
    return found


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
        os.fsync(descriptor)  # the rename is to survive a power cut too
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
    """Write the whole file anew: mode 0600, the owner it had, all or nothing."""
    try:
        # mkstemp makes it 0600 from the start.
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                _keep_owner(descriptor, target)
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink()
            raise
    except OSError as error:
        raise FileError(str(target), None, f"cannot be written: {error.strerror}") from error


def _keep_owner(descriptor: int, target: Path) -> None:
    """Leave the file with the account that reads it, when root changes it."""
    if target.exists():
        old = target.stat()
        if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(descriptor, old.st_uid, old.st_gid)
