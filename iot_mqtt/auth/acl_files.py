"""The ACL files of a node: one, several, or those of a directory, each a text of rules, read one behind the other.

In a directory every file counts, by its name, but those that begin with a dot or end in ``~``. Each file is kept as it
was when a new text of it is wrong; one that is taken out of a directory says nothing any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.files import FileError, WatchedFile, signature_of
from iot_mqtt.auth.sections import Rules

#: The paths of a look that could not be used, and what they looked like: each is told of once.
_Wrong = dict[str, tuple[int, int, int] | None]


class AclFiles:
    """What they say now, in their order. Construction raises ``FileError``."""

    __slots__ = ("content", "_paths", "_files", "_wrong")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        #: By path; behind each the entry of ``paths`` that it was found by.
        self._files: dict[str, tuple[WatchedFile[Rules], str]] = {}
        self._wrong: _Wrong = {}
        self.content: tuple[Rules, ...] = ()
        for error in self.renew(changed_only=False):
            raise error

    def renew(self, *, changed_only: bool) -> list[FileError]:
        """Read again what there is; with ``changed_only`` what is another file than last time. Errors are told once."""
        if not changed_only:
            self._wrong.clear()
        errors: list[FileError] = []
        wrong: _Wrong = {}
        files: dict[str, tuple[WatchedFile[Rules], str]] = {}
        for entry in self._paths:
            for path in self._found_by(entry, wrong, errors):
                known = self._files.get(path)
                file = self._new(path, wrong, errors) if known is None else known[0]
                if known is not None and entry not in wrong:
                    _renew(known[0], errors, changed_only=changed_only)
                if file is not None:
                    files.setdefault(path, (file, entry))
        self._files, self._wrong = files, wrong
        content = tuple(file.content for file, _ in files.values())
        if content != self.content:
            self.content = content
        return errors

    def _found_by(self, entry: str, wrong: _Wrong, errors: list[FileError]) -> list[str]:
        """The files that an entry means; where it cannot be looked at, those that it meant last time."""
        known = [path for path, (_, by) in self._files.items() if by == entry]
        was_directory = any(path != entry for path in known)
        if not was_directory and not Path(entry).is_dir():
            return [entry]
        try:
            names = sorted(one.name for one in Path(entry).iterdir() if one.is_file())
        except OSError as error:
            wrong[entry] = None
            if entry not in self._wrong:
                errors.append(FileError(entry, None, f"cannot be read: {error.strerror}"))
            return known
        return [str(Path(entry) / name) for name in names if name[0] != "." and name[-1] != "~"]

    def _new(self, path: str, wrong: _Wrong, errors: list[FileError]) -> WatchedFile[Rules] | None:
        """A file that was not there before; None if it is wrong."""
        signature = signature_of(path)
        if path in self._wrong and self._wrong[path] == signature:
            wrong[path] = signature
            return None
        try:
            return WatchedFile(path, parse_rules)
        except FileError as error:
            wrong[path] = signature
            errors.append(error)
            return None


def _renew(file: WatchedFile[Rules], errors: list[FileError], *, changed_only: bool) -> None:
    try:
        if changed_only:
            file.reload_if_changed()
        else:
            file.reload()
    except FileError as error:
        errors.append(error)
