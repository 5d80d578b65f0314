"""What a node sets for its whole process is as it was when its test is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def level_of_logs() -> Iterator[None]:
    """A node that takes over its configuration sets it for everybody."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)
