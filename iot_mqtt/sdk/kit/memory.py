"""How much memory Python has in use, as ``tracemalloc`` sees it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


def in_use() -> int:
    """Bytes, after all that is garbage was collected."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def traced() -> Iterator[None]:
    """Look while this is open."""
    was = tracemalloc.is_tracing()
    if not was:
        tracemalloc.start()
    try:
        yield
    finally:
        if not was:
            tracemalloc.stop()
