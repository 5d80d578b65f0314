"""What ``iot-mqtt passwd`` does to the file of users: set, remove, disable, enable, verify.

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

from iot_mqtt.auth import argon, kinds, scram_keys
from iot_mqtt.auth.files import FileError, read_text
from iot_mqtt.auth.users import DISABLED, SCRAM, Entry, check_name, entries, parse_users

_HEADER = "# Users of iot-mqtt, kept with `iot-mqtt passwd`. One per line: name:hash\n"


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
