"""How fast a simulated grid is for somebody."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Speed:
    """Seconds from a request to its effect, and from there to the answer."""

    least: float = 0.0005
    most: float = 0.002
