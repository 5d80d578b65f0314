"""Fixtures of the plugins' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.plugins.plugkit import House, house


@pytest.fixture
def here(tmp_path: Path) -> Iterator[House]:
    """A node's plugins in an empty place; their workers end with the test."""
    with house(tmp_path) as one:
        yield one
