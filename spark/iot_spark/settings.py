"""``settings.json``: what a job is told, read strictly into frozen values.

``iot-mqtt pipeline settings`` writes the file from ``application.yaml``. A key that is not known, a missing one or a
wrong type is an error that names the key, before Spark is started.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

KINDS = ("kafka", "files")


class BadSettings(ValueError):
    """What is wrong, with the key it is about."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: Kafka, or the files of the broker's file sink."""

    kind: str
    topics: tuple[str, ...] = ("iot.readings",)
    dir: Path | None = None
    bootstrap_servers: str | None = None
    #: Passed to Kafka as they are, such as ``kafka.security.protocol``.
    kafka_options: Mapping[str, str] = field(default_factory=dict)
    #: Records of one batch, of Kafka.
    max_records: int = 200_000
    #: Files of one batch.
    max_files: int = 100


@dataclass(frozen=True, slots=True)
class Clean:
    """``clean.*``; a topic that is null is not written."""

    topic: str | None = None
    invalid_topic: str | None = None
    #: A device's clock may be ahead of the arrival by so much.
    future_seconds: int = 3600


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``aggregate.*``."""

    window_seconds: int = 60
    lateness_seconds: int = 600


@dataclass(frozen=True, slots=True)
class Alarm:
    """``alarm.*``; a topic that is null is not written."""

    topic: str | None = None
    commands_topic: str | None = None


@dataclass(frozen=True, slots=True)
class RuleEntries:
    """The entries of the rules' YAML, not yet judged; see ``iot_spark.rules``."""

    clean: tuple[Mapping[str, Any], ...] = ()
    alarms: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything."""

    source: Source
    tables: Path
    checkpoints: Path
    status: Path
    trigger_seconds: float = 5.0
    #: Two records of one device and number that come within this are one.
    watermark_minutes: int = 60
    clean: Clean = field(default_factory=Clean)
    aggregate: Aggregate = field(default_factory=Aggregate)
    alarm: Alarm = field(default_factory=Alarm)
    rules: RuleEntries = field(default_factory=RuleEntries)
    master: str = "local[*]"

    def checkpoint(self, job: str) -> Path:
        """Where a job keeps how far it is."""
        return self.checkpoints / job


Read = TypeVar("Read")


def load(path: Path) -> Settings:
    """The settings in a file."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise BadSettings(f"{path}: {error.strerror}; make it with: iot-mqtt pipeline settings") from None
    except ValueError as error:
        raise BadSettings(f"{path} is not JSON: {error}") from None
    try:
        return settings_of(found)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from None


def settings_of(found: object) -> Settings:
    """The settings of a JSON object."""
    settings = _read(Settings, found, "")
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    source = settings.source
    if source.kind not in KINDS:
        raise BadSettings(f"source.kind must be one of {', '.join(KINDS)}, not {source.kind!r}")
    if source.kind == "files" and source.dir is None:
        raise BadSettings("source.dir is missing: the directory of the broker's files")
    if source.kind == "kafka" and not source.bootstrap_servers:
        raise BadSettings("source.bootstrap_servers is missing: host:port,host:port")
    if not source.topics:
        raise BadSettings("source.topics is empty")
    positive: dict[str, float] = {
        "source.max_records": source.max_records,
        "source.max_files": source.max_files,
        "trigger_seconds": settings.trigger_seconds,
        "watermark_minutes": settings.watermark_minutes,
        "aggregate.window_seconds": settings.aggregate.window_seconds,
    }
    for key, value in positive.items():
        if value <= 0:
            raise BadSettings(f"{key} must be more than 0, not {value}")
    for key, value in {
        "clean.future_seconds": settings.clean.future_seconds,
        "aggregate.lateness_seconds": settings.aggregate.lateness_seconds,
    }.items():
        if value < 0:
            raise BadSettings(f"{key} must not be negative: {value}")
    for key, path in {
        "tables": settings.tables,
        "checkpoints": settings.checkpoints,
        "status": settings.status,
    }.items():
        if not path.is_absolute():
            raise BadSettings(f"{key} must be an absolute path, not {str(path)!r}")


def _read(kind: type[Read], found: object, place: str) -> Read:
    """A dataclass from a JSON object."""
    if not isinstance(found, dict):
        raise BadSettings(f"{place or 'settings'} must be an object, not {found!r}")
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    prefix = f"{place}." if place else ""
    for key in found:
        if key not in known:
            raise BadSettings(f"{prefix}{key} is not known; there are {', '.join(known)}")
    values = {}
    for name, one in known.items():
        if name in found:
            values[name] = _value(hints[name], found[name], prefix + name)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise BadSettings(f"{prefix}{name} is missing")
    return kind(**values)


def _value(hint: Any, found: object, place: str) -> object:
    """A JSON value as the type that a field has."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        return None if found is None else _value(arguments[0], found, place)
    if origin is tuple:
        if not isinstance(found, list):
            raise BadSettings(f"{place} must be a list, not {found!r}")
        return tuple(_value(arguments[0], one, f"{place}[{index}]") for index, one in enumerate(found))
    if origin is Mapping:
        if not isinstance(found, dict):
            raise BadSettings(f"{place} must be an object, not {found!r}")
        return {key: _value(arguments[1], one, f"{place}.{key}") for key, one in found.items()}
    if hint is Any:
        return found
    if hint is Path:
        return Path(_plain(str, found, place))
    if hint in (str, int, float):
        return _plain(hint, found, place)
    return _read(hint, found, place)


_WORDS = {str: "a text", int: "a whole number", float: "a number"}


def _plain(kind: type[Any], found: object, place: str) -> Any:
    if kind is float and isinstance(found, int) and not isinstance(found, bool):
        return float(found)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise BadSettings(f"{place} must be {_WORDS[kind]}, not {found!r}")
    return found
