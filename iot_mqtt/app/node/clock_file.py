"""What the wall clock was to the monotonic one while this machine has run, beside the grid in ``clock.json``::

    {"boot": "2b5f…", "offset": 1764500000.25, "since": 5021.7}

A node that starts again on a machine that was not started again knows by it how long it was off, whatever is done to
the wall clock. Another start of the machine makes it worthless, so it need not outlive a power cut.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from iot_mqtt.broker.retention_clock import EarlierClock
from iot_mqtt.ports.clock import Clock

FILE: Final = "clock.json"
#: Seconds between two looks.
LOOK_SECONDS: Final = 1.0
#: Seconds by which a clock that nobody sets differs.
_SAME: Final = 1.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class ClockFile:
    """Of one data directory."""

    def __init__(self, data_dir: Path, clock: Clock, boot_id: Path = _BOOT_ID) -> None:
        self._path = data_dir / FILE
        self._clock = clock
        self._boot = _boot(boot_id)
        self._written = self._read()

    def earlier(self) -> EarlierClock | None:
        """What is known of the lives before; None: nothing."""
        return self._written

    def look(self) -> None:
        """Note what the clock says, if that is new; before anything is recorded by it, and regularly."""
        now = self._clock.monotonic()
        offset = self._clock.wall() - now
        before = self._written
        if self._boot and (before is None or abs(offset - before.offset) > _SAME):
            self._write(EarlierClock(offset, now))

    def _write(self, known: EarlierClock) -> None:
        self._written = known
        part = self._path.with_name(f".{FILE}.part")
        try:
            part.write_text(json.dumps({"boot": self._boot, **known._asdict()}), encoding="utf-8")
            part.replace(self._path)
        except OSError:
            # What it says is no longer so: nothing is known then.
            with suppress(OSError):
                self._path.unlink()

    def _read(self) -> EarlierClock | None:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            known = EarlierClock(float(found["offset"]), float(found["since"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return known if self._boot and found["boot"] == self._boot else None


def _boot(path: Path) -> str:
    """Which start of the machine this is; empty: nobody says."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
