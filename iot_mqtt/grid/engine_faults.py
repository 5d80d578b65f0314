"""What RocksDB says in words where it fails, as what it means: rocksdict hands on nothing else."""

from __future__ import annotations

import re
from errno import ENOSPC
from os import strerror
from pathlib import Path
from typing import Final

from iot_mqtt.grid.disk import left_on
from iot_mqtt.grid.faults import Damaged, InUse, OpenFault
from iot_mqtt.grid.owner_file import OwnerFile

_CORRUPTION: Final = "Corruption: "
_TABLE: Final = re.compile(r"[^/\s]+\.sst")
_MISSING: Final = re.compile(r"/([^/\s]+): No such file or directory")


def stalled(error: Exception) -> bool:
    """Whether a write was refused because it would have had to wait for compaction."""
    return "incomplete" in str(error).lower()


def damage(text: str) -> tuple[str, str] | None:
    """Which file is damaged and how; None: another trouble."""
    if not text.startswith(_CORRUPTION):
        return None
    name = _TABLE.search(text)
    return "one of its files" if name is None else name[0], text.removeprefix(_CORRUPTION).splitlines()[0]


def open_fault(directory: Path, error: BaseException, owner: OwnerFile) -> OpenFault:
    """Why a directory cannot be opened."""
    text = str(error)
    if "/LOCK:" in text:
        return InUse(f"{directory} is in use{owner.named}: two brokers cannot share a data directory")
    if found := _damaged(directory, text):
        return found
    left = f"; {left_on(directory)}" if strerror(ENOSPC) in text else ""
    return OpenFault(f"{directory} cannot be opened: {text}{left}")


def _damaged(directory: Path, text: str) -> Damaged | None:
    """Where its files are not as RocksDB has left them; None: another trouble."""
    if missing := _MISSING.search(text):
        return Damaged(directory, f"{missing[1]} is missing")
    if "creating a new Db" in text:
        return Damaged(directory, "CURRENT is missing")
    if found := damage(text):
        return Damaged(directory, f"{found[0]} is damaged ({found[1]})")
    return Damaged(directory, text) if text.startswith("Invalid argument") else None
