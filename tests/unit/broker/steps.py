"""What functions of the broker run: the same on every machine, and on a busy one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import iot_mqtt

PACKAGE = str(Path(iot_mqtt.__file__).parent)
#: The harness's clock takes part in each of its turns, and none of a node's.
NOT_OURS = ("pipeline/clock.py",)


def called_by(work: Callable[[], object]) -> list[str]:
    """What functions of the broker run meanwhile."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(PACKAGE) and not name.endswith(NOT_OURS):
            found.append(f"{name[len(PACKAGE) + 1 :]}:{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found
