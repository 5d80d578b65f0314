"""What ends a command."""

from __future__ import annotations


class BackupError(Exception):
    """Why there is no backup, or why it was not put back; for a person."""
