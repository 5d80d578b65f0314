"""``--watch``: the same command again and again, on a terminal in the same place."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from itertools import count

import click

from iot_mqtt.app.ctl.errors import CtlError
from iot_mqtt.app.terminal import moment, plain

_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


class _Paper(io.StringIO):
    """What a command prints meanwhile; it is as wide as the terminal that will show it."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def watch(
    command: Callable[[], None],
    seconds: float,
    *,
    as_json: bool,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> None:
    """Until it is interrupted. What fails at first fails; later it is said, and tried again.

    With ``as_json`` each time is one line.
    """
    terminal = sys.stdout.isatty() and not as_json
    try:
        for turn in count():
            paper = _Paper(terminal)
            try:
                with redirect_stdout(paper):
                    command()
                text = paper.getvalue()
            except CtlError as error:
                if not turn:
                    raise
                text = f"{paper.getvalue()}Error: {plain(str(error))}\n"
                if not terminal:
                    click.echo(text, nl=False, err=True)
                    text = ""
            if terminal:
                _show(text, f"every {seconds:g} s: {moment(now())}", first=not turn)
            elif as_json and text:
                click.echo(json.dumps(json.loads(text), ensure_ascii=False))
            elif text:
                click.echo(f"{text}\n", nl=False)
            sleep(seconds)
    except KeyboardInterrupt:
        return


def _show(text: str, heading: str, *, first: bool) -> None:
    """Over what stood there before; what does not fit is counted."""
    height = shutil.get_terminal_size().lines
    lines = [heading, *text.splitlines()]
    if len(lines) > height - 1:
        left = len(lines) - (height - 2)
        lines = [*lines[: height - 2], f"and {left} lines more"]
    screen = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
    click.echo(f"{_HOME}{_REST if first else ''}{screen}{_REST}", nl=False)
