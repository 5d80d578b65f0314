"""``why`` asked of a real broker: the cause of a fault is named, with the words that it is about."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from systemkit.process import BrokerProcess

#: Seconds in which what has happened is known.
PATIENCE = 20.0


def findings(broker: BrokerProcess, client_id: str) -> list[dict[str, Any]]:
    """What the broker says, the likeliest cause first; its data directory may be on a disk of its own."""
    token = Path(f"/proc/{broker.pid}/root{broker.data_dir}/admin.token").read_text(encoding="utf-8").strip()
    found = json.loads(broker.http(f"/api/v1/clients/{quote(client_id, safe='')}/why", token=token))
    return list(found["findings"])


def named(broker: BrokerProcess, client_id: str, code: str, *words: str) -> dict[str, Any]:
    """The finding of this code, once there is one with these words; it must come, and say what would help."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = findings(broker, client_id)
        for one in found:
            if one["code"] == code and all(word in one["text"] for word in words):
                assert one["helps"], one
                return one
        assert time.monotonic() < deadline, f"why {client_id} says nothing of {code} with {words}: {found}"
        time.sleep(0.1)
