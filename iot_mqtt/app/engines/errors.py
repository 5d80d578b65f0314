"""What goes wrong when the servers of a cluster are started or stopped."""

from __future__ import annotations

import click


class EngineError(click.ClickException):
    """What happened and what to do about it, for the person who typed the command."""
