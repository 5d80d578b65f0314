"""Codecs by name: installed entry points of the group ``iot_mqtt.codecs``, or ``module:Class``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from iot_mqtt.sdk.codec import Codec
from iot_mqtt.sdk.kit.checking import misfits
from iot_mqtt.sdk.kit.conversation import said

GROUP: Final = "iot_mqtt.codecs"


class NotFound(Exception):
    """There is no such codec, or it cannot be imported; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry point, and what is behind it."""

    name: str
    target: str
    distribution: str
    distribution_version: str
    codec: type[Codec] | None
    #: Why it cannot be used; empty: it can.
    problem: str


def installed() -> Iterator[Found]:
    """All entry points, by name; one that fails to load is among them, with the reason."""
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        codec, problem = None, ""
        try:
            codec = _loaded(point)
        except NotFound as error:
            problem = str(error)
        name, version = (point.dist.name, point.dist.version) if point.dist else ("", "")
        yield Found(point.name, point.value, name, version, codec, problem)


def codec_named(name: str) -> type[Codec]:
    """The codec with the name of an entry point, or of a class. Raises ``NotFound``."""
    if ":" in name:
        return _loaded(EntryPoint(name, name, GROUP))
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        there = f"there are {', '.join(sorted(points))}" if points else "there are none"
        raise NotFound(
            f"no installed package has an entry point {name!r} in the group {GROUP}; {there}. Install the plugin with "
            "pip, or name the class: package.module:Class"
        )
    return _loaded(points[name])


def _loaded(point: EntryPoint) -> type[Codec]:
    try:
        codec = point.load()
    except (Exception, SystemExit) as error:  # importing runs a stranger's code
        if ":" in point.name and isinstance(error, ModuleNotFoundError):
            here = f"; looked in {', '.join(path or '.' for path in sys.path[:3])} …"
            raise NotFound(f"{point.value}: {error}{here}") from error
        raise NotFound(f"{point.value} cannot be imported: {said(error)}") from error
    if texts := misfits(codec):
        raise NotFound(f"{point.value} is no codec: {'; '.join(texts)}")
    assert isinstance(codec, type)
    importlib.invalidate_caches()
    return codec
