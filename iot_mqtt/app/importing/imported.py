"""What is made of another broker's files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import click


@dataclass
class Imported:
    """What is to be written, and what is to be said."""

    #: Dotted keys of our configuration.
    keys: dict[str, Any] = field(default_factory=dict)
    users: str | None = None
    acl: str | None = None
    #: Commands that ban who was banned.
    bans: str | None = None
    notes: list[str] = field(default_factory=list)
    #: Those of them that are to stand in the configuration, too: of ports that are not opened.
    left_out: list[str] = field(default_factory=list)


class Refused(click.ClickException):
    """A file cannot be read, or is none of that broker's."""
