"""What the tests put in: records, files of them as the broker leaves them, and settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from iot_spark.settings import Settings, settings_of

#: A quiet afternoon in September 2026.
NOON = 1_790_000_000_000


def reading(seq: int | None = 1, **more: Any) -> dict[str, Any]:
    """One reading of a gateway's device."""
    found: dict[str, Any] = {
        "id": f"gw-1/press/{seq}",
        "node": "node-1",
        "gateway": "gw-1",
        "device": "press",
        "ts": NOON,
        "ingest_ts": NOON + 5,
        "seq": seq,
        "values": {"temp": 21.5},
        "codec": "gateway",
        "schema": 1,
    }
    return found | more


def wrapped(payload: Any, **more: Any) -> dict[str, Any]:
    """One MQTT message of a client."""
    found: dict[str, Any] = {
        "id": "0.9f-1",
        "node": "node-1",
        "client": "press-7",
        "topic": "up/press-7/t",
        "ts": NOON,
        "ingest_ts": NOON,
        "qos": 1,
        "payload": payload,
    }
    return found | more


def line(record: Mapping[str, Any] | str) -> str:
    return record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)


def put(root: Path, name: str, records: Iterable[Mapping[str, Any] | str], topic: str = "iot.readings") -> Path:
    """A finished file of the broker's file sink."""
    folder = root / topic / "dt=2026-09-21"
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(f"{line(one)}\n" for one in records))
    return hidden.rename(folder / f"{name}.jsonl")


def written(root: Path, **more: Any) -> dict[str, Any]:
    """``settings.json`` over the files below a directory."""
    found: dict[str, Any] = {
        "source": {"kind": "files", "dir": str(root / "uplink"), "topics": ["iot.readings"], "max_files": 1},
        "tables": str(root / "tables"),
        "checkpoints": str(root / "checkpoints"),
        "status": str(root / "status"),
        "trigger_seconds": 0.5,
        "master": "local[2]",
    }
    return found | more


def settings(root: Path, **more: Any) -> Settings:
    return settings_of(written(root, **more))
