"""The versions that a node keeps, and what was decided about them at run time: files below ``<data_dir>/plugins``.

::

    plugins/state.json                       enabled, isolation, current and previous version; written atomically
    plugins/<distribution>/<version>-<hash>/ what pip would put into site-packages

Whatever is loaded is loaded from here. What was installed by pip itself is copied first, so that replacing it does not
pull the files away from under connections that run on it, and the version before is there for a rollback. It is this
node's: every node of a cluster has its own.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path
from tempfile import mkdtemp

from iot_mqtt.plugins.finding import files, in_folder
from iot_mqtt.plugins.place import Place

log = logging.getLogger(__name__)

_STATE = "state.json"
_FORMAT = 1
#: Versions of a plugin that are kept besides the current and the previous one.
KEPT = 4
#: What differs between two installations of the same thing.
_NOT_CONTENT = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "WHEEL")


@dataclass(slots=True)
class Decided:
    """What is remembered of one plugin."""

    #: None: as the configuration says.
    enabled: bool | None = None
    isolation: str | None = None
    current: str | None = None
    previous: str | None = None
    #: Labels in the order in which they came or were gone back to; the last is what a reload takes.
    arrived: list[str] = field(default_factory=list)
    #: What pip had installed when that was last looked at.
    site: str | None = None


class Shelf:
    """The folder of one node. What is decided belongs to the reactor's thread; files are for one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.plugins: dict[str, Decided] = {}
        #: What is wrong with the state file, for a person; it is put aside then.
        self.trouble: str | None = None
        self._read()

    def of(self, name: str) -> Decided:
        return self.plugins.setdefault(name, Decided())

    def arrive(self, name: str, label: str) -> None:
        """It is what came last, or was gone back to."""
        decided = self.of(name)
        if label in decided.arrived:
            decided.arrived.remove(label)
        decided.arrived.append(label)

    def keeping(self, in_use: Collection[str]) -> Callable[[], None]:
        """What is to be done to the files: what was decided is written, versions that nobody wants any more go."""
        wanted = set(in_use)
        for one in self.plugins.values():
            wanted.update(one.arrived[-KEPT:], [label for label in (one.current, one.previous) if label])
        for one in self.plugins.values():
            one.arrived = [label for label in one.arrived if label in wanted]
        state = {"format": _FORMAT, "plugins": {name: asdict(one) for name, one in sorted(self.plugins.items())}}
        return partial(self._keep, wanted, json.dumps(state, indent=2))

    # Files.

    def _keep(self, wanted: set[str], state: str) -> None:
        for folder in list(self._folders()):
            if folder.name not in wanted:
                self.discard(folder)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self.folder / f"{_STATE}.new"
        with new.open("w", encoding="utf-8") as file:
            file.write(state)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.folder / _STATE)
        _sync(self.folder)
        _sync(self.folder.parent)

    def places(self) -> dict[str, dict[str, Place]]:
        """What is kept: name, label, place."""
        found: dict[str, dict[str, Place]] = {}
        for folder in self._folders():
            for place in in_folder(folder):
                found.setdefault(place.name, {})[place.label] = place
        return found

    def workplace(self) -> Path:
        """An empty folder for pip to install into; to be given to ``take_in`` or ``discard``."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=".new-", dir=self.folder))

    def discard(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def take_in(self, workplace: Path, distribution: Distribution) -> str:
        """Make what pip installed into a folder a version of ours; its label. It is on the disk when this returns."""
        label = f"{distribution.version}-{_digest(distribution)}"
        folder = self.folder / _safe(distribution.metadata["Name"]) / label
        if folder.exists():
            self.discard(workplace)
            return label
        folder.parent.mkdir(parents=True, exist_ok=True)
        workplace.chmod(0o755)
        for path in (*workplace.rglob("*"), workplace):
            _sync(path)
        workplace.replace(folder)
        for path in (folder.parent, self.folder, self.folder.parent):
            _sync(path)
        return label

    def copy_in(self, distribution: Distribution) -> str:
        """Make what pip installed into the environment a version of ours; its label."""
        label = f"{distribution.version}-{_digest(distribution)}"
        if not (self.folder / _safe(distribution.metadata["Name"]) / label).exists():
            workplace = self.workplace()
            for relative, path in files(distribution):
                (workplace / relative).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, workplace / relative)
            self.take_in(workplace, distribution)
        return label

    def _folders(self) -> Iterator[Path]:
        if self.folder.is_dir():
            for distribution in sorted(self.folder.iterdir()):
                if distribution.is_dir() and not distribution.name.startswith("."):
                    yield from (one for one in sorted(distribution.iterdir()) if one.is_dir())

    def _read(self) -> None:
        for left in self.folder.glob(".new-*"):  # of a node that died in the midst of it
            self.discard(left)
        path = self.folder / _STATE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["format"] != _FORMAT:
                raise ValueError(f"its format is {state['format']}, not {_FORMAT}")
            self.plugins = {name: Decided(**one) for name, one in state["plugins"].items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.trouble = f"{path} cannot be read ({error}); it is put aside, and the configuration counts"
            log.error("%s", self.trouble)
            path.replace(path.with_suffix(".bad"))


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(distribution: Distribution) -> str:
    digest = hashlib.sha256()
    for relative, path in sorted(files(distribution)):
        if Path(relative).name not in _NOT_CONTENT:
            digest.update(f"{relative}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:8]


def _safe(name: str) -> str:
    """A distribution's name as a folder: as packaging normalises it."""
    return "".join(one if one.isalnum() else "_" for one in name).strip("_").lower() or "_"
