"""Text files that people edit while the broker runs: read as a whole, kept as they were when a new text is wrong.

Looking at a file may take as long as its file system does. So ``look`` changes nothing and may be called in any thread;
``take`` puts in force what it has found, in the reactor's.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from iot_mqtt.plain_files import read_again

T = TypeVar("T")
Signature = tuple[int, int, int] | None


class FileError(Exception):
    """A file cannot be used: which one, where in it, and why."""

    def __init__(self, path: str, line: int | None, detail: str) -> None:
        super().__init__(f"{path}:{line}: {detail}" if line else f"{path}: {detail}")
        self.path = path
        self.line = line
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Looked(Generic[T]):
    """A file as it was found."""

    signature: Signature
    #: What its text says; of a wrong one, what it said before.
    content: T
    #: There was a text that said it, if only a comment.
    had_content: bool
    #: Why the text that is there cannot be used.
    error: FileError | None = None


class WatchedFile(Generic[T]):
    """The parsed content of a file. Construction raises ``FileError``.

    ``parse`` is given (text, path) and raises ``FileError`` with the line that is wrong.
    """

    __slots__ = ("path", "_parse", "_now")

    def __init__(self, path: str, parse: Callable[[str, str], T]) -> None:
        self.path = path
        self._parse = parse
        # Looked at first: a change while it is being read is then seen by the next look.
        signature = signature_of(path)
        text = read_text(path)
        self._now = Looked(signature, parse(text, path), bool(text))

    @property
    def content(self) -> T:
        return self._now.content

    @property
    def error(self) -> FileError | None:
        """Why the text that is there cannot be used; what it said before counts."""
        return self._now.error

    def look(self, *, changed_only: bool) -> Looked[T]:
        """As it is now. With ``changed_only`` it is not read if it is the same file as last time."""
        now = self._now
        signature = signature_of(self.path)
        if changed_only and signature == now.signature:
            return now
        try:
            text = read_text(self.path, had_content=now.had_content)
            return Looked(signature, self._parse(text, self.path), bool(text))
        except FileError as error:
            return Looked(signature, now.content, now.had_content, error)

    def take(self, looked: Looked[T]) -> FileError | None:
        """Go by this from now on. A wrong text is told once, not at every look."""
        before, self._now = self._now, looked
        return None if looked is before else looked.error


def read_text(path: str, *, had_content: bool = False) -> str:
    """The file's text; ``FileError`` if it cannot be read or is no UTF-8, or if one that ``had_content`` is empty."""
    try:
        data = read_again(path, had_content=had_content)
    except OSError as error:
        raise FileError(path, None, f"cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(path, data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from error


def signature_of(path: str) -> Signature:
    """What is another when the file is; None while there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - every few seconds, for a path that is a str anyway
    except OSError:
        return None
    # When it was changed, which its rights are, too.
    return status.st_ctime_ns, status.st_size, status.st_ino
