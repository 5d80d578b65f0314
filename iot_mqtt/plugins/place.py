"""Where one version of one codec lies. Apart from how it is found, which a worker has no need to know."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where one version of one codec lies."""

    name: str
    #: ``module:Class``.
    target: str
    distribution: str
    version: str
    #: Top-level modules of the distribution.
    tops: tuple[str, ...]
    #: A folder of its own; None: imported from where it is installed.
    folder: str | None = None
    #: Tells versions apart: version and content.
    label: str = ""
    bundled: bool = False

    def is_of(self, distribution: str) -> bool:
        """Whether it is one of this distribution's, as pip compares names."""
        return _plain(self.distribution) == _plain(distribution)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
