"""Why a grid's directory cannot be opened. A start-up error for a person to read, never a reason code."""

from __future__ import annotations

from pathlib import Path


class OpenFault(Exception):
    """The directory stays as it is until somebody decides."""


class InUse(OpenFault):
    """Another process, or another grid of this one, holds the directory."""


class TooNew(OpenFault):
    """A later version wrote the directory in a format that this one cannot read."""


class Damaged(OpenFault):
    """Something that was once acknowledged is unreadable. Going on would hide that."""

    def __init__(self, directory: Path, what: str) -> None:
        super().__init__(f"{directory}: {what}. Nothing was changed; restore a copy or move the directory away")
