"""The commit log against a disk that loses its power: what was not synced may be there, in part, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from iot_mqtt.grid import commit_log
from iot_mqtt.grid.commit_log import CommitLog, pending
from iot_mqtt.grid.commit_record import decode, encode
from tests.seeds import seeds_of

SECTOR = 512


@dataclass
class Blocks:
    """What a file holds for certain, and what was written since."""

    synced: bytes = b""
    since: list[tuple[int, bytes]] = field(default_factory=list)

    def after_the_cut(self, dice: Random) -> bytes:
        """Each sector that was written since is there or not, whatever others are."""
        found, share = bytearray(self.synced), dice.choice((0.0, 0.2, 0.8, 1.0))
        for offset, data in self.since:
            for at in range(offset - offset % SECTOR, offset + len(data), SECTOR):
                start, end = max(at, offset), min(at + SECTOR, offset + len(data))
                if dice.random() < share:
                    found.extend(bytes(max(0, end - len(found))))
                    found[start:end] = data[start - offset : end - offset]
        return bytes(found)


class Disk:
    """A directory that knows what of it is durable. Stands between the log and the system."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._files: dict[int, Blocks] = {}
        self._now: dict[str, Blocks] = {}
        self._synced: dict[str, Blocks] = {}
        self._since: list[tuple[str, Blocks | None]] = []
        opened, unlink = os.open, Path.unlink

        def open_(path: Path, flags: int, mode: int = 0o777) -> int:
            file = opened(path, flags, mode)
            self._name(path, Blocks())
            self._files[file] = self._now[path.name]
            return file

        def unlinked(path: Path) -> None:
            unlink(path)
            self._name(path, None)

        monkeypatch.setattr(os, "open", open_)
        monkeypatch.setattr(Path, "unlink", unlinked)
        monkeypatch.setattr(os, "pwrite", lambda file, data, at: self._write(file, data, at, sync=False) or len(data))
        monkeypatch.setattr(commit_log, "write_at", lambda file, data, at, sync: self._write(file, data, at, sync=sync))
        monkeypatch.setattr(commit_log, "sync_directory", lambda _: self._sync_names())
        #: Called before and behind everything.
        self.look: Callable[[], None] = lambda: None

    def _name(self, path: Path, blocks: Blocks | None) -> None:
        self.look()
        self._since.append((path.name, blocks))
        _set(self._now, path.name, blocks)
        self.look()

    def _write(self, file: int, data: bytes, at: int, *, sync: bool) -> int:
        self._files[file].since.append((at, data))
        self.look()
        if sync:
            self._files[file].synced = self._files[file].after_the_cut(_All())
            self._files[file].since.clear()
        self.look()
        return 0

    def _sync_names(self) -> None:
        self.look()
        self._synced = dict(self._now)
        self._since.clear()
        self.look()

    def cut(self, target: Path, dice: Random) -> None:
        """What stands there after the power went: names may be missing, and come back, in any order."""
        names = dict(self._synced)
        for name, blocks in self._since:
            if dice.random() < 0.5:
                _set(names, name, blocks)
        for path in target.iterdir():
            os.unlink(path)
        for name, kept in names.items():
            (target / name).write_bytes(kept.after_the_cut(dice))


class _All(Random):
    """Everything is there."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: object) -> float:  # type: ignore[override]
        return 1.0


def _set(names: dict[str, Blocks], name: str, blocks: Blocks | None) -> None:
    if blocks is None:
        names.pop(name, None)
    else:
        names[name] = blocks


@pytest.mark.parametrize("seed", seeds_of("power", 6))
def test_whatever_was_not_synced_every_acknowledged_batch_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """At every step of writing, of going on in another segment, and of starting anew."""
    dice = Random(seed)
    live, cut = tmp_path / "live", tmp_path / "cut"
    live.mkdir()
    cut.mkdir()
    monkeypatch.setattr(commit_log, "SEGMENT", 3000)
    monkeypatch.setattr(commit_log, "LARGE", 2000)
    monkeypatch.setattr(commit_log, "_ZEROS", bytes(4000))
    disk = Disk(live, monkeypatch)
    values: list[bytes] = []
    # Tables have the batches up to ``flushed`` (each seal closes one memory table), and ``acknowledged`` were synced.
    flushed = acknowledged = cuts = 0
    sealed: list[int] = []

    def look() -> None:
        nonlocal cuts
        cuts += 1
        disk.cut(cut, dice)
        # RocksDB may have written more out by itself, even what is in its memory and not yet in the log.
        applied = dice.randint(flushed, dice.choice((flushed, len(values))))
        found, odd = pending(cut, applied)
        assert odd is None
        assert [record.lsn for record in found] == list(range(applied + 1, applied + 1 + len(found)))
        assert acknowledged <= applied + len(found) <= len(values)
        for record in found:
            assert decode(record.body)[0] == {b"k": values[record.lsn - 1]}

    disk.look = look
    log = CommitLog(live)
    log.restart(1)
    for number in range(1, 61):
        values.append(dice.randbytes(dice.choice((1, 50, 700, 2500, 9000))))
        if log.full:
            log.begin(number)
            log.seal()
            sealed.append(number - 1)
            written = dice.randrange(len(sealed) + 1)
            flushed = sealed[written - 1] if written else flushed
            del sealed[:written]
            log.release(len(sealed))
        log.append(encode(log.salt, number, {b"k": values[-1]}, []), sync=True)
        acknowledged = number
        if dice.random() < 0.05:
            flushed = number
            sealed.clear()
            log.restart(number + 1)
    flushed = acknowledged
    log.close(needed=False)
    assert cuts > 150
