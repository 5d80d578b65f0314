"""The options that say how messages are printed, and the printing: whole, and before they are acknowledged."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import BinaryIO

import click

from iot_mqtt.app.client.formats import BadFormat, Piece, printer
from iot_mqtt.app.terminal import together
from iot_mqtt.codec import Publish

output_options = together(
    click.option("-v", "--verbose", is_flag=True, help="Print topic and payload."),
    click.option("-F", "--format", help="Print in this format: %t topic, %p payload, %j JSON, ...; as mosquitto_sub."),
    click.option("-N", "no_end", is_flag=True, help="No end of line behind each message."),
)


class Output:
    """Standard output. What comes from others cannot control a terminal."""

    def __init__(self, piece: Piece, file: BinaryIO, now: Callable[[], float] = time.time) -> None:
        self._piece = piece
        self._file = file
        self._now = now

    def write(self, message: Publish) -> None:
        self._file.write(self._piece(message, self._now()))

    def flush(self) -> None:
        self._file.flush()


def output(*, verbose: bool, format: str | None, no_end: bool, as_json: bool) -> Output:
    safe = sys.stdout.isatty()
    try:
        piece = printer(format, verbose=verbose, json_lines=as_json, ends=not no_end, safe=safe)
    except BadFormat as error:
        raise click.UsageError(f"-F: {error}") from error
    return Output(piece, sys.stdout.buffer)
