"""What a node keeps beside its grid: versions of plugins, the audit log, what was changed of its configuration while it
ran, and the files of users and rules.

In an archive they are ``plugins/…``, ``audit/…`` and ``changed.yaml``, as in the data directory, and
``named/KEY/NAME`` for a file that a key of the configuration names. The latter are put back into ``restored/`` of the
data directory, because where they are to be is for whoever wrote the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from stat import S_ISREG

from iot_mqtt.app.backup.errors import BackupError
from iot_mqtt.app.config import Config
from iot_mqtt.app.config.changed import FILE as CHANGED
from iot_mqtt.whole_files import new_file

_FOLDERS = ("audit", "plugins")
#: With which records the audit log begins.
_BEGINNINGS = "audit.json"
_NAMED = "named"
RESTORED = "restored"


def kept_files(config: Config) -> Iterator[tuple[str, bytes]]:
    """Path in the archive, and content; one that goes away meanwhile is left out."""
    data_dir = Path(config.node.data_dir)
    yield from files_below(data_dir)
    yield from _read(data_dir / CHANGED, CHANGED)
    named = [("auth.users_file", config.auth.users_file)] if config.auth.users_file else []
    named += [("auth.acl_file", name) for name in config.auth.acl_file or ()]
    for key, name in named:
        place = Path(name)
        for path in sorted(place.iterdir()) if place.is_dir() else [place]:
            if not path.is_dir():
                yield from _read(path, f"{_NAMED}/{key}/{path.name}")


def files_below(data_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Of these, what is in the data directory, as it was at one moment.

    Records of the audit log name each other over its files, which grow meanwhile and never change.
    """
    sizes = _sizes(data_dir)
    while (again := _sizes(data_dir)) != sizes:
        sizes = again
    for path, size in sizes.items():
        for name, content in _read(path, path.relative_to(data_dir).as_posix()):
            yield name, content[:size]
    # Replaced, and before records go: read after them it knows of all that are not there any more.
    yield from _read(data_dir / _BEGINNINGS, _BEGINNINGS)


def _sizes(data_dir: Path) -> dict[Path, int]:
    found = {}
    for folder in _FOLDERS:
        for path in sorted((data_dir / folder).rglob("*")):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if S_ISREG(status.st_mode):
                    found[path] = status.st_size
    return found


def has_place(name: str) -> bool:
    """Whether this release knows what the file of an archive is."""
    first, *rest = PurePosixPath(name).parts
    return first in (*_FOLDERS, _NAMED) if rest else first in (_BEGINNINGS, CHANGED)


class Restored:
    """Takes files of an archive; one that is there already, and is another, is left alone and told.

    Those of a later release, for which there is no place, are passed over and told.
    """

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.written = 0
        self.kept: list[Path] = []
        self.named: list[Path] = []
        self.unknown: list[str] = []

    def take(self, name: str, content: bytes) -> None:
        if not has_place(name):
            self.unknown.append(name)
            return
        parts = PurePosixPath(name).parts
        named = parts[0] == _NAMED
        path = self._data_dir.joinpath(RESTORED, *parts[1:]) if named else self._data_dir.joinpath(*parts)
        if path.exists():
            if path.read_bytes() != content:
                self.kept.append(path)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with new_file(path) as file:
            file.write(content)
        self.written += 1
        if named:
            self.named.append(path)


def _read(path: Path, name: str) -> Iterator[tuple[str, bytes]]:
    try:
        yield name, path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror}") from error
