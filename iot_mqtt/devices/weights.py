"""What values take: as JSON, and about in memory, where a level of brackets is many times as large."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_OBJECT: Final = 200
_LIST: Final = 64
_MEMBER: Final = 64
_ITEM: Final = 32


def json_of(values: Mapping[str, Any]) -> bytes:
    """As it is measured."""
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace")


def weight_of(text: bytes) -> int:
    """Bytes in memory, about, of what this JSON says. Marks within texts count, too: it is never too little."""
    count = text.count
    return len(text) + _OBJECT * count(b"{") + _LIST * count(b"[") + _MEMBER * count(b":") + _ITEM * count(b",")
