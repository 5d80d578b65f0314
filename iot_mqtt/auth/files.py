"""Text files that people edit while the broker runs: read as a whole, kept as they were when a new text is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class FileError(Exception):
    """A file cannot be used: which one, where in it, and why."""

    def __init__(self, path: str, line: int | None, detail: str) -> None:
        super().__init__(f"{path}:{line}: {detail}" if line else f"{path}: {detail}")
        self.path = path
        self.line = line
        self.detail = detail


class WatchedFile(Generic[T]):
    """The parsed content of a file. Construction raises ``FileError``; so do reloads, which then change nothing.

    ``parse`` is given (text, path) and raises ``FileError`` with the line that is wrong.
    """

    __slots__ = ("path", "content", "_parse", "_seen")

    def __init__(self, path: str, parse: Callable[[str, str], T]) -> None:
        self.path = path
        self._parse = parse
        self.reload()

    def reload(self) -> None:
        """Read the file again, whether it changed or not."""
        # Looked at first: a change while it is being read is then seen by the next check.
        self._seen = signature_of(self.path)
        self.content: T = self._parse(read_text(self.path), self.path)

    def reload_if_changed(self) -> bool:
        """Read the file again if it is another than last time. A wrong text raises once, not at every check."""
        if signature_of(self.path) == self._seen:
            return False
        self.reload()
        return True


def read_text(path: str) -> str:
    """The file's text; ``FileError`` if it cannot be read or is no UTF-8."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileError(path, None, f"cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(path, data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from error


def signature_of(path: str) -> tuple[int, int, int] | None:
    """What is another when the file is; None while there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - every few seconds, for a path that is a str anyway
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
