"""The flight recorder, as who looks at it sees it: the last packets of a client, described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from iot_mqtt.codec.describing import PacketInfo

__all__ = ["PacketInfo", "RecorderSettings", "Recording", "RecordingInfo"]


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """``recorder.*``: how much is kept of what goes over the connections of clients, and for how long."""

    enabled: bool = True
    #: Of one connection, and of all of them, at most.
    client_bytes: int = 2048
    bytes: int = 64 * 1024 * 1024
    #: Seconds after the end of a connection.
    keep_seconds: float = 3600.0
    #: Bytes of each payload, from its first on.
    payload_bytes: int = 0
    #: Seconds between two writes to the disk; 0: nothing is written, and a crash of the node loses it.
    save_seconds: float = 1.0


class RecordingInfo(NamedTuple):
    """One connection that was recorded."""

    client_id: str
    peer: str
    since: float
    #: None: it is open.
    until: float | None
    #: How it ended, as ``endings.end_with`` has it; "node_restarted" or "node_lost" if the node ended, crashed or
    #: began anew before it.
    end: str


class Recording(NamedTuple):
    """The same, with what was recorded as ``native.PacketRing`` keeps it."""

    info: RecordingInfo
    image: bytes
