"""The ACL files of a node: one, several, or those of a directory, each a text of rules, read one behind the other.

In a directory every file counts, by its name, but those that begin with a dot or end in ``~``. Each file is kept as it
was when a new text of it is wrong; one that is taken out of a directory says nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iot_mqtt.auth.acl import parse_rules
from iot_mqtt.auth.files import FileError, Looked, Signature, WatchedFile, signature_of
from iot_mqtt.auth.sections import Rules


@dataclass(frozen=True, slots=True)
class _Known:
    """A file, how it was found, and the entry of the paths that it was found by."""

    file: WatchedFile[Rules]
    looked: Looked[Rules] | None
    entry: str


@dataclass(frozen=True, slots=True)
class _Wrong:
    """What it looked like, and why it cannot be used."""

    signature: Signature
    error: FileError


@dataclass(frozen=True, slots=True)
class RulesLooked:
    """All files as they were found."""

    #: By path.
    files: Mapping[str, _Known]
    #: The paths that could not be used: each is told of once.
    wrong: Mapping[str, _Wrong]
    errors: Sequence[FileError] = ()


class AclFiles:
    """What they say now, in their order. Construction raises ``FileError``."""

    __slots__ = ("content", "_paths", "_now")

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        self._now = RulesLooked({}, {})
        self.content: tuple[Rules, ...] = ()
        for error in self.take(self.look(changed_only=False)):
            raise error

    def look(self, *, changed_only: bool) -> RulesLooked:
        """What there is now; with ``changed_only`` only other files than last time are read. In any thread."""
        return _Look(self._now, changed_only=changed_only).at(self._paths)

    def take(self, looked: RulesLooked) -> list[FileError]:
        """Go by these from now on. Errors are told once."""
        errors = [*looked.errors]
        for known in looked.files.values():
            if known.looked is not None and (error := known.file.take(known.looked)) is not None:
                errors.append(error)
        errors.sort(key=lambda error: error.path)
        self._now = looked
        content = tuple(known.file.content for known in looked.files.values())
        if content != self.content:
            self.content = content
        return errors

    @property
    def outdated(self) -> list[FileError]:
        """Why files cannot be used as they are; what they said before counts."""
        files = (known.file.error for known in self._now.files.values())
        return [*(wrong.error for wrong in self._now.wrong.values()), *(error for error in files if error is not None)]


class _Look:
    """One look at all paths."""

    def __init__(self, before: RulesLooked, *, changed_only: bool) -> None:
        self._before = before
        self._changed_only = changed_only
        #: What was told of already.
        self._told = before.wrong if changed_only else {}
        self._wrong: dict[str, _Wrong] = {}
        self._errors: list[FileError] = []

    def at(self, paths: Sequence[str]) -> RulesLooked:
        files: dict[str, _Known] = {}
        for entry in paths:
            for path in self._found_by(entry):
                known = self._before.files.get(path)
                if known is None:
                    file, looked = self._new(path), None
                else:
                    file = known.file
                    looked = None if entry in self._wrong else file.look(changed_only=self._changed_only)
                if file is not None:
                    files.setdefault(path, _Known(file, looked, entry))
        return RulesLooked(files, self._wrong, self._errors)

    def _found_by(self, entry: str) -> list[str]:
        """The files that an entry means; where it cannot be looked at, those that it meant last time."""
        known = [path for path, one in self._before.files.items() if one.entry == entry]
        was_directory = any(path != entry for path in known)
        if not was_directory and not Path(entry).is_dir():
            return [entry]
        try:
            names = sorted(one.name for one in Path(entry).iterdir() if one.is_file())
        except OSError as error:
            wrong = _Wrong(None, FileError(entry, None, f"cannot be read: {error.strerror}"))
            self._wrong[entry] = wrong
            if entry not in self._told:
                self._errors.append(wrong.error)
            return known
        return [str(Path(entry) / name) for name in names if name[0] != "." and name[-1] != "~"]

    def _new(self, path: str) -> WatchedFile[Rules] | None:
        """A file that was not there before; None if it is wrong."""
        signature = signature_of(path)
        told = self._told.get(path)
        if told is not None and told.signature == signature:
            self._wrong[path] = told
            return None
        try:
            return WatchedFile(path, parse_rules)
        except FileError as error:
            self._wrong[path] = _Wrong(signature, error)
            self._errors.append(error)
            return None
