"""A disk that keeps what was synced, for certain, and of the rest what a power cut happens to leave.

``Disk.apply`` takes one step of a journal after the other; ``Disk.leave`` writes what is there if the power goes now:

* ``lost``: nothing that was not synced is there, neither bytes nor names;
* ``part``: of each file the first of the unsynced writes, the last one of them torn, and so of each directory's names;
* ``mixed``: each sector of each unsynced write is there or not, whatever the others are. Names keep their order, as in
  every file system with a journal.

A sync of a file holds for what was written before it began. Names are held by a sync of their directory alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, Literal

from tests.powercut.journal import Kind, Step

SECTOR: Final = 512
Tearing = Literal["lost", "part", "mixed"]
TEARINGS: Final[tuple[Tearing, ...]] = ("lost", "part", "mixed")


@dataclass(slots=True)
class Change:
    """A write, of zeros if there are no bytes; or, with an offset of -1, a new length."""

    offset: int
    length: int
    data: bytes | None = None

    def put(self, content: bytearray) -> None:
        """Do it, to the end."""
        if self.offset < 0:
            del content[self.length :]
            content.extend(bytes(self.length - len(content)))
        else:
            self.part(content, 0, self.length)

    def part(self, content: bytearray, start: int, end: int) -> None:
        """Write from one byte of it to another."""
        first, last = self.offset + start, self.offset + end
        content.extend(bytes(max(0, last - len(content))))
        content[first:last] = bytes(end - start) if self.data is None else self.data[start:end]

    def sectors(self) -> Iterator[tuple[int, int]]:
        """The parts of it that a disk writes as a whole."""
        at = 0
        while at < self.length:
            end = min(self.length, at + SECTOR - (self.offset + at) % SECTOR)
            yield at, end
            at = end


@dataclass(eq=False, slots=True)
class File:
    """What a file holds for certain, and what was written since."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Change] = field(default_factory=list)

    def sync(self, count: int) -> None:
        """So many of the unsynced writes are durable."""
        for change in self.since[:count]:
            change.put(self.synced)
        del self.since[:count]

    def left(self, tearing: Tearing, dice: Random) -> bytearray:
        """What a power cut leaves of it."""
        content = bytearray(self.synced)
        if tearing == "part":
            whole = dice.randint(0, len(self.since))
            for change in self.since[:whole]:
                change.put(content)
            for change in self.since[whole : whole + 1]:
                if change.offset >= 0:
                    change.part(content, 0, dice.randrange(change.length + 1))
        elif tearing == "mixed":
            share = dice.choice((0.1, 0.5, 0.9))
            for change in self.since:
                if change.offset < 0:
                    if dice.random() < share:
                        change.put(content)
                elif change.data is None:  # zeros are zeros; what matters is how far the file goes
                    change.part(content, 0, dice.choice((0, change.length)))
                else:
                    for start, end in change.sectors():
                        if dice.random() < share:
                            change.part(content, start, end)
        return content


@dataclass(eq=False, slots=True)
class Folder:
    """Names for certain, and what became of names since: a change is whole or not at all."""

    now: dict[bytes, File | Folder] = field(default_factory=dict)
    synced: dict[bytes, File | Folder] = field(default_factory=dict)
    since: list[dict[bytes, File | Folder | None]] = field(default_factory=list)
    #: Names in other folders that go when the one that was given here is durable: of files that were moved.
    moved: dict[bytes, tuple[Folder, bytes]] = field(default_factory=dict)

    def change(self, names: dict[bytes, File | Folder | None]) -> None:
        """Give or take names, in one step."""
        _put(self.now, names)
        self.since.append(names)

    def sync(self, count: int) -> None:
        """So many of the unsynced changes are durable."""
        for names in self.since[:count]:
            _put(self.synced, names)
            for name in names:
                folder, before = self.moved.pop(name, (None, b""))
                if folder is not None:
                    folder.synced.pop(before, None)
        del self.since[:count]

    def left(self, tearing: Tearing, dice: Random) -> dict[bytes, File | Folder]:
        """The names that a power cut leaves."""
        names = dict(self.synced)
        for change in self.since[: 0 if tearing == "lost" else dice.randint(0, len(self.since))]:
            _put(names, change)
        return names


def _put(names: dict[bytes, File | Folder], change: dict[bytes, File | Folder | None]) -> None:
    for name, thing in change.items():
        if thing is None:
            names.pop(name, None)
        else:
            names[name] = thing


class Disk:
    """Everything below the root. ``lies`` says of which files a sync does nothing: to see that its loss is found."""

    def __init__(self, lies: Callable[[bytes], bool] = lambda path: False) -> None:
        self.root = Folder()
        self._lies = lies
        self._files: dict[tuple[int, int], tuple[bytes, File | Folder]] = {}
        self._syncs: dict[tuple[int, int], tuple[File | Folder, int]] = {}

    def apply(self, step: Step) -> None:
        """One step further."""
        held = self._files.get((step.pid, step.file))
        match step.kind:
            case Kind.OPEN:
                self._open(step)
            case Kind.CLOSE:
                self._files.pop((step.pid, step.file), None)
            case Kind.WRITE | Kind.ZEROS if held and isinstance(held[1], File):
                data = step.first if step.kind is Kind.WRITE else None
                held[1].since.append(Change(step.offset, step.length, data))
            case Kind.TRUNCATE if held and isinstance(held[1], File):
                held[1].since.append(Change(-1, step.length))
            case Kind.SYNC_BEGINS if held and not self._lies(held[0]):
                self._syncs[step.pid, step.other] = held[1], len(held[1].since)
            case Kind.SYNC_ENDS:
                self._sync_ends(step)
            case Kind.RENAME | Kind.UNLINK | Kind.LINK | Kind.MKDIR | Kind.RMDIR:
                self._name(step)

    def leave(self, target: Path, tearing: Tearing, dice: Random) -> None:
        """Make a directory as a power cut would leave the root."""
        shutil.rmtree(target, ignore_errors=True)
        _make(self.root, target, tearing, dice)

    def _open(self, step: Step) -> None:
        thing = self._at(step.first)
        if thing is None:
            folder, name = self._parent(step.first)
            thing = File()
            folder.change({name: thing})
        elif isinstance(thing, File) and step.offset & os.O_TRUNC:
            thing.since.append(Change(-1, 0))
        self._files[step.pid, step.file] = step.first, thing

    def _sync_ends(self, step: Step) -> None:
        thing, count = self._syncs.pop((step.pid, step.other), (None, 0))
        if thing is None:
            return
        thing.sync(count)
        # Of two syncs at the same time, the second one has nothing left to do with what the first one did.
        for key, (other, more) in self._syncs.items():
            if other is thing:
                self._syncs[key] = other, max(0, more - count)

    def _name(self, step: Step) -> None:
        folder, name = self._parent(step.first)
        if step.kind is Kind.MKDIR:
            folder.change({name: Folder()})
        elif step.kind in (Kind.UNLINK, Kind.RMDIR):
            folder.change({name: None})
        elif (thing := self._at(step.first)) is not None:
            other, new = self._parent(step.second)
            gone: dict[bytes, File | Folder | None] = {name: None} if step.kind is Kind.RENAME else {}
            if other is folder:
                folder.change(gone | {new: thing})
            else:
                other.change({new: thing})
                if step.kind is Kind.RENAME:  # its old name is kept as long as it may be needed
                    folder.now.pop(name)
                    other.moved[new] = folder, name

    def _parent(self, path: bytes) -> tuple[Folder, bytes]:
        *above, name = _parts(path)
        folder = self._at(b"/".join(above))
        if not isinstance(folder, Folder):
            raise TypeError(f"{path!r} is in no directory that the recorder knows")
        return folder, name

    def _at(self, path: bytes) -> File | Folder | None:
        thing: File | Folder | None = self.root
        for part in _parts(path):
            thing = thing.now.get(part) if isinstance(thing, Folder) else None
        return thing


def _parts(path: bytes) -> list[bytes]:
    return [part for part in os.path.normpath(path).split(b"/") if part not in (b"", b".")]


def _make(folder: Folder, target: Path, tearing: Tearing, dice: Random) -> None:
    target.mkdir(mode=0o700)
    for name, thing in folder.left(tearing, dice).items():
        path = target / os.fsdecode(name)
        if isinstance(thing, Folder):
            _make(thing, path, tearing, dice)
        else:
            content = thing.left(tearing, dice)
            with path.open("wb") as file:
                file.write(content.rstrip(b"\0"))
                file.truncate(len(content))
            path.chmod(0o600)
