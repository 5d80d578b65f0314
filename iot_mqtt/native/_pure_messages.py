"""The pure-Python twin of the part of ``_scan.pyx`` that makes messages of packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iot_mqtt.native._pure_lengths import block_length, body


class Messages:
    """Makes messages of packets. One for the whole process."""

    __slots__ = ("_kind", "_read")

    def __init__(self, kind: type[Any], read: Callable[[bytes, float], tuple[bytes, float | None]]) -> None:
        """``read``: of a property block that came at a time, what is passed on of it, and when the message expires."""
        self._kind = kind
        self._read = read

    def last(
        self, data: bytes, begin: int, count: int, five: bool, publisher: str, wall: float
    ) -> tuple[dict[bytes, Any], int] | None:
        """The last message of each topic in packets of one first byte, and the size of all messages, also those that
        others came after; None if one of them has no payload, or a topic that begins with "$".
        """
        qos, retain = (data[begin] >> 1 & 3, data[begin] & 1 == 1) if count else (0, False)
        found: dict[bytes, Any] = {}
        stop, size = begin, 0
        for _ in range(count):
            start, stop = body(data, stop)
            behind = start + 2 + (data[start] << 8 | data[start + 1])
            block = behind + (2 if qos else 0)
            length, payload = block_length(data, block, stop) if five else (0, block)
            topic = data[start + 2 : behind]
            if payload == stop or topic[0] == ord("$"):
                return None
            raw = data[payload - length : payload]
            properties, expires_at = self._read(raw, wall) if raw else (b"", None)
            found[topic] = self._kind(
                topic,
                data[payload:stop],
                qos,
                retain=retain,
                properties=properties,
                expires_at=expires_at,
                publisher=publisher,
            )
            size += found[topic].size
        return found, size
