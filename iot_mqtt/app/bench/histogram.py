"""How long things took, in steps of two percent: of any number of them in the same few kilobytes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

_STEP: Final = math.log(1.02)
#: Seconds; what is less is this.
_LEAST: Final = 1e-6


class Histogram:
    """Of seconds."""

    def __init__(self) -> None:
        self.count = 0
        self.most = 0.0
        self._steps: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        self.count += 1
        self.most = max(self.most, seconds)
        step = int(math.log(max(seconds, _LEAST) / _LEAST) / _STEP)
        self._steps[step] = self._steps.get(step, 0) + 1

    def at(self, share: float) -> float | None:
        """What this share of them did not take longer than; None if there are none."""
        if not self.count:
            return None
        left = math.ceil(share * self.count)
        for step in sorted(self._steps):
            left -= self._steps[step]
            if left <= 0:
                return min(self.most, _LEAST * math.exp((step + 1) * _STEP))
        return self.most

    def milliseconds(self, shares: Iterable[float] = (0.5, 0.9, 0.99, 0.999)) -> dict[str, float | None]:
        """``p50`` and so on, and ``max``."""
        found = {f"p{share * 100:g}": self.at(share) for share in shares} | {"max": self.most if self.count else None}
        return {name: None if value is None else round(value * 1000, 3) for name, value in found.items()}
