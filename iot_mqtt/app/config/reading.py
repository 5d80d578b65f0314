"""Five layers in, a frozen ``Config`` out, and the memory of where each value came from.

Every layer is checked, also where a higher one wins, and everything that is wrong is reported at once.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iot_mqtt.app.config import schema
from iot_mqtt.app.config.changed import changed_settings
from iot_mqtt.app.config.errors import DEFAULT, ConfigError, Layer, Origin, Problem
from iot_mqtt.app.config.layers import (
    Setting,
    command_settings,
    content_of,
    data_dir_of,
    environment_settings,
    expanded,
    file_settings,
    look_alikes,
    misspelled,
)
from iot_mqtt.app.config.limits import KEYS, complaint, pattern_of
from iot_mqtt.app.config.maps import gathered
from iot_mqtt.app.config.plugins import folded
from iot_mqtt.app.config.secret_files import with_secrets
from iot_mqtt.app.config.sections import Config, ListenerConfig, known_listeners
from iot_mqtt.app.config.values import IllTyped, read
from iot_mqtt.secrecy import is_secret, secrets_in, without

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Section = TypeVar("Section", bound=DataclassInstance)


@dataclass(frozen=True, slots=True)
class Layers:
    """What was written, as it was written, the lowest layer first."""

    file: tuple[Setting, ...]
    changed: tuple[Setting, ...]
    environment: tuple[Setting, ...]
    command: tuple[Setting, ...]
    path: str | None = None
    #: Variables that look like keys, and are read by nobody.
    unread: tuple[Problem, ...] = ()

    def __iter__(self) -> Iterator[tuple[Setting, ...]]:
        return iter((self.file, self.changed, self.environment, self.command))


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration with its layers: for each key that was written, every setting of it, the winner last."""

    config: Config
    written: Mapping[str, tuple[Setting, ...]]
    #: Defaults that follow from other keys, with the reason as their origin.
    derived: Mapping[str, Setting]
    layers: Layers

    @property
    def file(self) -> str | None:
        """The configuration file, if there is one."""
        return self.layers.path

    def value(self, key: str) -> object:
        """The effective value of an existing key."""
        value: object = self.config
        for name in key.split("."):
            value = value[name] if isinstance(value, Mapping) else getattr(value, name)
        return value

    def origin(self, key: str) -> Origin:
        """Where the effective value was written."""
        if key in self.written:
            return self.written[key][-1].origin
        return self.derived[key].origin if key in self.derived else DEFAULT


#: The whole configuration once more, in the layers of the start. Raises ``ConfigError``.
Reread = Callable[[], LoadedConfig]


def read_config(
    path: str | None,
    sets: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    *,
    had_content: bool = False,
) -> LoadedConfig:
    """The layers, each key known and well-typed; whether a node could serve with them is not asked yet.

    A file that ``had_content`` when it was read before must not be empty.
    """
    problems: list[Problem] = []
    file = () if path is None else tuple(file_settings(path, problems, had_content=had_content))
    variables = os.environ if environ is None else environ
    environment = tuple(environment_settings(variables))
    unread = tuple(look_alikes(variables, schema.keys(known_listeners())))
    problems.extend(misspelled(variables))
    command = tuple(command_settings(sets, problems))
    data_dir = data_dir_of((file, environment, command), str(default_of("node.data_dir")))
    changed = tuple(changed_settings(data_dir, problems))
    return assembled(Layers(file, changed, environment, command, path, unread), problems)


class Rereading:
    """Reads a configuration again that a node runs with; a ``Reread``, in any thread."""

    def __init__(
        self, loaded: LoadedConfig, sets: Iterable[str] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        self._path = loaded.file
        self._sets = tuple(sets)
        self._environ = environ
        self._had_content = bool(loaded.layers.file)

    def __call__(self) -> LoadedConfig:
        loaded = read_config(self._path, self._sets, self._environ, had_content=self._had_content)
        self._had_content = bool(loaded.layers.file)
        return loaded


def assembled(layers: Layers, problems: Iterable[Problem] = ()) -> LoadedConfig:
    """The configuration that layers come to; ``problems``: what was wrong with them already."""
    problems = list(problems)
    leaves = (leaf for layer in layers for setting in layer for leaf in expanded(setting))
    settings = gathered(folded(with_secrets(leaves, problems)))
    names = schema.listener_names(setting.key for setting in settings)
    written: dict[str, tuple[Setting, ...]] = {}
    for setting in settings:
        if (checked := _checked(setting, names, problems)) is not None:
            written[setting.key] = (*written.get(setting.key, ()), checked)
    if problems:
        raise ConfigError(hidden(problems, settings))
    derived = _derived(written, names)
    winners = {key: setting.value for key, setting in derived.items()}
    winners.update((key, said[-1].value) for key, said in written.items())
    return LoadedConfig(_build(Config(), "", winners, names), written, derived, layers)


def hidden(problems: Iterable[Problem], settings: Iterable[Setting]) -> list[Problem]:
    """The problems without what stands under the name of a secret in any of the settings."""
    secrets = {secret for setting in settings for secret in secrets_in(pattern_of(setting.key), content_of(setting))}
    return [dataclasses.replace(problem, text=without(problem.text, secrets)) for problem in problems]


@cache
def _unsaid() -> Config:
    """What there is where nobody says anything; it never changes, and is looked at once for each key of a list."""
    return Config()


def default_of(key: str) -> object:
    """The default of an existing key, no other key considered."""
    value: object = _unsaid()
    for name in key.split("."):
        value = value.get(name, ListenerConfig()) if isinstance(value, Mapping) else getattr(value, name)
    return value


def _checked(setting: Setting, names: list[str], problems: list[Problem]) -> Setting | None:
    """The setting with its value read as the key's type; None if it sets nothing or is wrong."""
    hint = schema.find(setting.key, names)
    if hint is None:
        problems.append(Problem(setting.origin, setting.key, schema.unknown(setting.key, names)))
        return None
    if schema.is_section(hint):
        if setting.value not in (None, {}, ""):
            problems.append(Problem(setting.origin, setting.key, "is a section: its keys go below it"))
        return None
    try:
        value = read(hint, setting.value, is_text=setting.is_text)
    except IllTyped as error:
        wrong = str(error).partition(", not ")[0] if is_secret(pattern_of(setting.key)) else str(error)
        problems.append(Problem(setting.origin, setting.key, wrong))
        return None
    if (text := complaint(setting.key, value)) is not None:
        problems.append(Problem(setting.origin, setting.key, text))
        return None
    if is_path := KEYS[pattern_of(setting.key)].is_path:
        if isinstance(value, str) and "\0" in value:
            problems.append(Problem(setting.origin, setting.key, "must be a path, which has no NUL in it"))
            return None
        value = _located(value, setting.origin.directory, is_path if isinstance(is_path, tuple) else ())
    return Setting(setting.key, value, setting.origin)


def _located(value: object, directory: str, names: tuple[str, ...] = ()) -> object:
    """Paths seen from a directory: one, or those of a list, or of a list of mappings; ``names``: only these of it."""
    if isinstance(value, str):
        # Not resolved: a certificate may be replaced by turning a link.
        return str((Path(directory) / Path(value).expanduser()).absolute())
    if isinstance(value, tuple):
        return tuple(_located(one, directory, names) for one in value)
    if isinstance(value, Mapping):
        return {name: _located(one, directory) if name in (names or value) else one for name, one in value.items()}
    return value


def _derived(written: Mapping[str, tuple[Setting, ...]], names: list[str]) -> dict[str, Setting]:
    """Defaults that depend on other keys, for keys that nobody wrote."""

    def is_set(key: str) -> bool:
        return key in written and written[key][-1].value is not None

    rules: list[tuple[str, object, str]] = [("auth.allow_anonymous", False, "auth.users_file")]
    for name in names:
        if name in known_listeners():
            rules.append((f"listeners.{name}.enabled", True, f"listeners.{name}.tls.cert"))
        else:
            rules.append((f"listeners.{name}.protocol", "frames", f"listeners.{name}.codec"))
    derived = {
        key: Setting(key, value, Origin(Layer.DEFAULT, f"default, because {cause} is set"))
        for key, value, cause in rules
        if is_set(cause) and key not in written and value != default_of(key)
    }
    data_dir = str(Path(str(default_of("node.data_dir"))).absolute())
    derived["node.data_dir"] = Setting("node.data_dir", data_dir, DEFAULT)
    return derived


def _build(default: Section, prefix: str, values: Mapping[str, object], names: list[str]) -> Section:
    """The section with the values put in; sections below it likewise."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(default):
        key = f"{prefix}{field.name}"
        current = getattr(default, field.name)
        if key == schema.LISTENERS:
            known = known_listeners()
            changes[field.name] = {
                name: _build(known.get(name, ListenerConfig()), f"{key}.{name}.", values, names) for name in names
            }
        elif dataclasses.is_dataclass(current) and not isinstance(current, type):
            changes[field.name] = _build(current, f"{key}.", values, names)
        elif key in values:
            changes[field.name] = values[key]
    return dataclasses.replace(default, **changes)
