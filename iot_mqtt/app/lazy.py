"""Commands that are imported when they are run, so that ``iot-mqtt --version`` does not load a broker."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click


class LazyCommand(click.Command):
    """The name and the first sentence of a command; ``load`` imports it from its place, ``module:attribute``."""

    def __init__(self, name: str, place: str, help: str) -> None:
        super().__init__(name, help=help)
        self.place = place

    def load(self) -> click.Command:
        module, _, attribute = self.place.partition(":")
        with importing():
            command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.place} is not a command")
        return command


class LazyGroup(click.Group):
    """A group that lists its commands without an import, and loads the one that is asked for."""

    def __init__(self, *arguments: Any, lazy: Iterable[LazyCommand], **options: Any) -> None:
        super().__init__(*arguments, **options)
        for command in lazy:
            self.add_command(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


@contextmanager
def importing() -> Iterator[None]:
    """Around imports of much: what they make stays, and no collection looks at it, now or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
