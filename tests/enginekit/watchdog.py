"""Runs a command when its parent is gone, however it went: for servers that outlive the command that started them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Standard input ends when the last holder of its other end does, and that is the test session alone.
_WATCH = "import subprocess, sys; sys.stdin.read(); subprocess.run(sys.argv[1:], stdout=2)"


@contextmanager
def at_the_end(*command: str) -> Iterator[None]:
    """Run a command behind the block, or when this process is killed inside it."""
    watch = subprocess.Popen([sys.executable, "-Ic", _WATCH, *command], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        watch.communicate()
