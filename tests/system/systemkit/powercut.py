"""``iot-mqtt`` on a disk that says what it has synced: ``python powercut.py NOTES serve ...``.

Each sync of the grid's log is noted in the file NOTES when it is over and before anybody hears of it: which file, from
where, how many bytes. ``PowerCut`` is such a broker, and can be cut off from its power: what was not synced is zeros.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from iot_mqtt.app.cli import main
from iot_mqtt.grid import commit_log
from iot_mqtt.grid.commit_log import segments
from iot_mqtt.grid.commit_record import decode, records
from iot_mqtt.grid.syncing import Syncing


def note_syncs(notes: Path) -> None:
    """From now on, for this process."""
    file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    written: list[str] = []
    write_at, sync = vars(commit_log)["write_at"], Syncing.sync

    def durable() -> None:
        os.write(file, "".join(written).encode())
        written.clear()

    def writing(target: int, data: bytes, at: int, synced: bool) -> int:
        error: int = write_at(target, data, at, synced)
        written.append(f"{Path(os.readlink(f'/proc/self/fd/{target}')).name} {at} {len(data)}\n")
        if synced and not error:
            durable()
        return int(error)

    def syncing(self: Syncing, target: int, then: Callable[[int], None]) -> None:
        def over(error: int) -> None:
            if not error:
                durable()
            then(error)

        sync(self, target, over)

    setattr(commit_log, "write_at", writing)  # noqa: B010 - mypy does not let it be replaced
    setattr(Syncing, "sync", syncing)  # noqa: B010


class Power:
    """What a power cut would leave of a broker's grid, by its notes."""

    def __init__(self, grid: Path, notes: Path) -> None:
        self._grid = grid
        self._notes = notes

    def _synced(self) -> Iterator[tuple[str, int, int]]:
        for line in self._notes.read_text().splitlines():
            name, at, size = line.split()
            yield name, int(at), int(size)

    def _left(self, name: str, data: bytes) -> bytes:
        left = bytearray(len(data))
        for written, at, size in self._synced():
            if written == name:
                left[at : at + size] = data[at : at + size]
        return bytes(left)

    def holds(self, marker: bytes) -> bool:
        """Whether a key or a value of what is safe now has these bytes in it."""
        for part in segments(self._grid):
            for record in records(self._left(part.path.name, part.path.read_bytes()), part.salt):
                changes, prefixes = decode(record.body)
                if any(marker in one for pair in changes.items() for one in pair if one) or marker in b"".join(
                    prefixes
                ):
                    return True
        return False

    def cut(self) -> None:
        """The process is gone, and so is what was not synced."""
        for part in segments(self._grid):
            part.path.write_bytes(self._left(part.path.name, part.path.read_bytes()))


if __name__ == "__main__":
    note_syncs(Path(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    main()
