"""Patterns of names, of clients and users for instance: ``*`` is any text, ``?`` any character, nothing else a sign."""

from __future__ import annotations


def for_fnmatch(pattern: str) -> str:
    """The same pattern as ``fnmatch`` writes it, where a bracket is a sign, too."""
    return pattern.replace("[", "[[]")
