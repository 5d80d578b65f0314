"""Which lines of the product an input reaches, and the smallest inputs that reach together what all of them do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from tests.fuzz.target import Target

#: A step from one line of a file to another.
Step = tuple[str, int, int]


def reached(target: Target, data: bytes) -> set[Step]:
    """The steps that an input takes through ``iot_mqtt``."""
    steps: set[Step] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        file = frame.f_code.co_filename
        if "/iot_mqtt/" not in file or event != "call":
            return None
        before = 0

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal before
            if event == "line":
                steps.add((file, before, frame.f_lineno))
                before = frame.f_lineno
            return line

        return line

    sys.settrace(trace)
    try:
        target.run(data)
    finally:
        sys.settrace(None)
    return steps


def smallest(target: Target, found: Iterable[bytes], base: Sequence[bytes] = ()) -> list[bytes]:
    """Small ones first; those that reach nothing new are left out, and so is what the base reaches."""
    known: set[Step] = set()
    for data in base:
        known |= reached(target, data)
    chosen = []
    for data in sorted(found, key=lambda one: (len(one), one)):
        steps = reached(target, data)
        if not steps <= known:
            known |= steps
            chosen.append(data)
    return chosen
