"""What RocksDB says in words where it fails, as what it means: rocksdict hands on nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from iot_mqtt.grid.faults import Damaged

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


def damaged(directory: Path, text: str) -> Damaged | None:
    """Why a directory cannot be opened whose files are not as RocksDB has left them; None: another trouble."""
    if missing := _MISSING.search(text):
        return Damaged(directory, f"{missing[1]} is missing")
    if "creating a new Db" in text:
        return Damaged(directory, "CURRENT is missing")
    if found := damage(text):
        return Damaged(directory, f"{found[0]} is damaged ({found[1]})")
    return Damaged(directory, text) if text.startswith("Invalid argument") else None
