"""What lives of nodes need."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def _quiet() -> Iterator[None]:
    """A full disk is reported each time; here it is full a thousand times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
