"""What takes long shows that it goes on: a bar where the end is known, a line that changes where it is not.

On standard error, and only if that is a terminal: whoever redirects it gets nothing of this.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

import click

from iot_mqtt.app.terminal import span

_EVERY: Final = 0.5
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def going_on(doing: Callable[[], str]) -> Iterator[None]:
    """A line with what is being done, and for how long already, while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    over, began = Event(), time.monotonic()

    def show() -> None:
        while not over.wait(_EVERY):
            click.echo(f"{_CLEAR}{doing()} ({span(time.monotonic() - began)})", nl=False, err=True)

    thread = Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        click.echo(_CLEAR, nl=False, err=True)


class Bar:
    """So much of so much. ``at`` may say more or less than before."""

    def __init__(self, label: str, length: int) -> None:
        self.length = length
        self.hidden = not sys.stderr.isatty() or not length
        self._bar = click.progressbar(
            length=max(1, length), label=label, file=sys.stderr, show_pos=True, hidden=self.hidden
        )

    def at(self, done: int) -> None:
        if not self.hidden:
            self._bar.update(min(done, self.length) - self._bar.pos)

    def end(self) -> None:
        if not self.hidden:
            self._bar.render_finish()
