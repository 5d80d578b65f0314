"""Where the payloads of ``iot-mqtt pub`` come from, and how fast they may go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from iot_mqtt.app.client.client import Client
from iot_mqtt.app.client.errors import ClientError
from iot_mqtt.codec import MAX_PACKET_SIZE

_PIECE: Final = 65_536


def of_files(paths: tuple[str, ...]) -> Iterator[bytes]:
    """The contents of each file, read when its turn comes."""
    for path in paths:
        try:
            if Path(path).stat().st_size > MAX_PACKET_SIZE:
                raise ClientError(f"{path} is larger than a message of MQTT may be")
            yield Path(path).read_bytes()
        except OSError as error:
            raise ClientError(f"cannot read {path}: {error.strerror}") from error


def of_lines(client: Client, number: int) -> Iterator[bytes]:
    """The lines of a file that may still be growing; the connection lives on while there is none."""
    rest = bytearray()
    while True:
        while not client.step(None, number):
            client.arrived.clear()
        data = os.read(number, _PIECE)
        rest += data
        *lines, last = rest.split(b"\n")
        yield from map(bytes, lines)
        rest = last
        if len(rest) > MAX_PACKET_SIZE:
            raise ClientError("a line is larger than a message of MQTT may be")
        if not data:
            if rest:
                yield bytes(rest)
            return


def repeated(payloads: Callable[[], Iterator[bytes]], times: int) -> Iterator[bytes]:
    """All of them so many times; 0: for ever."""
    done = 0
    while not times or done < times:
        yield from payloads()
        done += 1


class Pace:
    """Not more than so many a second, evenly; who was held up may not catch up by a burst."""

    def __init__(self, rate: float | None, delay: float, now: Callable[[], float] = time.monotonic) -> None:
        self._between = max(1 / rate if rate else 0.0, delay)
        self._now = now
        self._next: float | None = None

    def wait(self, client: Client) -> None:
        """Until the next one may go."""
        if not self._between:
            return
        now = self._now()
        due = now if self._next is None else self._next
        while now < due:
            client.step(due)
            client.arrived.clear()
            now = self._now()
        self._next = max(due, now - self._between) + self._between
