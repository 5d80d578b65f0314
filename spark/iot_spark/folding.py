"""Many small directories of Parquet made one, while others read them, without a row missing or there twice at any time.

::

    dt=2026-11-21/batch=clean-1a2b3c4d-000000000007/*.parquet      written by a batch of a query
    dt=2026-11-21/version=000000000002/*.parquet, _holds.json      folded from batches and the version before

The newest version counts, and a batch that it holds does not. Both are decided by the one rename that gives a version
its name, so it does not matter when a folding ends half-way: what is left is removed by the next.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from uuid import uuid4

BATCH = "batch="
VERSION = "version="
HOLDS = "_holds.json"
#: Where versions are written; readers pass over names that begin with a dot.
STAGING = ".folding"


class Lost(Exception):
    """A folding would have lost rows, or made some; nothing was changed."""


def live(batches: Path, versions: Path) -> list[Path]:
    """The directories that have each row once."""
    # Batches first: those that a version takes in between are then in its list.
    found = _named(batches, BATCH)
    version = newest(versions)
    if version is None:
        return found
    held = holds(version)
    return [version, *(path for path in found if path.name not in held)]


def newest(versions: Path) -> Path | None:
    """The version that counts."""
    found = _named(versions, VERSION)
    return found[-1] if found else None


def holds(version: Path) -> frozenset[str]:
    """The names of the batches that were folded into it and may still lie there."""
    return frozenset(json.loads((version / HOLDS).read_text())["batches"])


def fold(
    batches: Path, versions: Path, taken: Iterable[Path], write: Callable[[Sequence[Path], Path], None]
) -> Path | None:
    """Make a new version of the newest one and of ``taken``, batches that are whole, and remove these.

    ``write`` gets the directories to read and the one to write to. None: there was nothing to do.
    """
    tidy(batches, versions)
    before = newest(versions)
    # What was taken in before, and could not be removed until now, is in it.
    held: frozenset[str] = frozenset() if before is None else holds(before)
    parts = sorted(path for path in taken if path.name not in held)
    if not parts:
        return None
    number = 1 if before is None else int(before.name.removeprefix(VERSION)) + 1
    staging = versions.parent / STAGING / f"{versions.name}-{uuid4().hex}"
    staging.parent.mkdir(parents=True, exist_ok=True)
    try:
        write([*([before] if before else []), *parts], staging)
        (staging / HOLDS).write_text(json.dumps({"batches": [path.name for path in parts]}))
        versions.mkdir(parents=True, exist_ok=True)
        target = versions / f"{VERSION}{number:012d}"
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    tidy(batches, versions)
    return target


def tidy(batches: Path, versions: Path) -> None:
    """Remove what the newest version holds, and the versions before it."""
    version = newest(versions)
    if version is None:
        return
    for name in sorted(holds(version)):
        if (batches / name).exists():
            shutil.rmtree(batches / name, ignore_errors=True)
    for older in _named(versions, VERSION)[:-1]:
        shutil.rmtree(older, ignore_errors=True)
    if batches != versions and batches.is_dir() and not any(batches.iterdir()):
        batches.rmdir()


def _named(folder: Path, prefix: str) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.startswith(prefix))
