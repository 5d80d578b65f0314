"""Where a configured value was written, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Layer(IntEnum):
    """Who had a say; the highest wins."""

    DEFAULT = 0
    FILE = 1
    #: What was changed while the node ran; it lies in the data directory.
    CHANGED = 2
    ENVIRONMENT = 3
    SET = 4


@dataclass(frozen=True, slots=True)
class Origin:
    """The place of one value: ``application.yaml:12:3``, ``IOT_MQTT__NODE__ID`` or ``--set node.id``."""

    layer: Layer
    where: str
    #: What relative paths written there are relative to.
    directory: str = "."

    def __str__(self) -> str:
        return self.where


DEFAULT = Origin(Layer.DEFAULT, "default")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with the configuration, in one line."""

    origin: Origin | None
    key: str
    text: str

    def __str__(self) -> str:
        where = "" if self.origin is None else str(self.origin)
        key = "" if where == f"--set {self.key}" else self.key
        return ": ".join(part for part in (where, key, self.text) if part)


class ConfigError(Exception):
    """The configuration is refused; ``problems`` is all that is wrong with it, not the first thing only."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
