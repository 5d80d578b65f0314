"""The byte that stands for a cache where its name would be too long: in front of the keys on disk, in notes of batches.

It is kept for ever: numbers are added, never changed or used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from iot_mqtt.ports.grid import CacheName

TAGS: Final[Mapping[CacheName, bytes]] = {
    CacheName.META: b"\x01",
    CacheName.SESSIONS: b"\x02",
    CacheName.CHANNELS: b"\x03",
    CacheName.SUBSCRIPTIONS: b"\x04",
    CacheName.ROUTES: b"\x05",
    CacheName.RETAINED: b"\x06",
    CacheName.QUEUE: b"\x07",
    CacheName.DUP: b"\x08",
    CacheName.PUBREL: b"\x09",
    CacheName.RECEIVED: b"\x0a",
    CacheName.WILLS: b"\x0b",
    CacheName.LOG: b"\x0c",
    CacheName.LOG_INDEX: b"\x0d",
    CacheName.LOG_META: b"\x0e",
    CacheName.LOG_TURNS: b"\x0f",
    CacheName.PROGRESS: b"\x10",
    CacheName.SEGMENTS: b"\x11",
    CacheName.GROUPS: b"\x12",
    CacheName.SHARES: b"\x13",
    CacheName.DEVICES: b"\x14",
    CacheName.SHADOWS: b"\x15",
    CacheName.COMMANDS: b"\x16",
    CacheName.PLUGINS: b"\x17",
}
