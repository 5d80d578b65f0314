"""Keys with dots, as the sections that they are in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"a.b": 1}`` as ``{"a": {"b": 1}}``."""
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *sections, name = key.split(".")
        below = tree
        for section in sections:
            below = below.setdefault(section, {})
        below[name] = value
    return tree
