"""``admin.configuration.ConfigDesk`` on a running node: what is in force, what is written, and changing it.

::

    files ─▶ LoadedConfig (written) ─▶ checks ─▶ differs from what is in force?  live key ─▶ in force now
                    ▲                   │                                        listener ─▶ opened, closed
    changed.yaml ───┘                   └─▶ refused: nothing has changed         any other ─▶ named, after a restart
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from twisted.internet.defer import DeferredLock

from iot_mqtt.admin.configuration import (
    Changed,
    ChangesInfo,
    ConfigRefused,
    InTheWay,
    KeyDetail,
    KeyInfo,
    LayerInfo,
    ListenerInfo,
)
from iot_mqtt.app.config import schema
from iot_mqtt.app.config.changed import changed_now, file_of, write_changed
from iot_mqtt.app.config.checks import serving_problems
from iot_mqtt.app.config.comparing import ABSENT, differing, value_of, with_keys
from iot_mqtt.app.config.effects import notes
from iot_mqtt.app.config.errors import ConfigError, Layer, Problem
from iot_mqtt.app.config.layers import data_dir_of
from iot_mqtt.app.config.limits import KEYS, LISTENER_NAME, is_live, pattern_of
from iot_mqtt.app.config.plugin_checks import CODECS, plugin_problems
from iot_mqtt.app.config.plugin_entries import plugin_settings
from iot_mqtt.app.config.reading import LoadedConfig, assembled, default_of
from iot_mqtt.app.config.sections import Config, known_listeners
from iot_mqtt.app.config.text import document
from iot_mqtt.app.node.live_keys import LiveKeys
from iot_mqtt.errors import Unavailable
from iot_mqtt.plugins.settings import PluginSettings
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.secrecy import masked_key
from iot_mqtt.uplink.desk import RulesRefused

log = logging.getLogger(__name__)

#: Reads the configuration again, in a thread. Raises ``Unavailable``.
Read = Callable[[], Awaitable[LoadedConfig]]
Answer = TypeVar("Answer")
#: Seconds between two looks at files that a reload has refused.
LOOK_SECONDS = 5.0

_WORDS = {one: one.name.lower() for one in Layer}
_RULES = "uplink.rules"


class Run(Protocol):
    """Does something with files, in a thread. Raises ``Unavailable``."""

    def __call__(self, call: Callable[[], Answer], /) -> Awaitable[Answer]: ...


class Ports(Protocol):
    """``RunningListeners``."""

    async def prepare(self, name: str, config: Config) -> None: ...

    def open(self, name: str, config: Config) -> None: ...

    def close(self, name: str) -> None: ...

    def infos(self, config: Config, layer_of: Callable[[str], str]) -> list[ListenerInfo]: ...


class Codecs(Protocol):
    """``Plugins``."""

    def differing(self, written: Mapping[str, PluginSettings]) -> Iterable[str]: ...

    def settle(self, written: Mapping[str, PluginSettings]) -> None: ...


class Rules(Protocol):
    """``RuleDesk``."""

    async def use(self, loaded: LoadedConfig) -> object: ...


@dataclass(frozen=True, slots=True)
class _Step:
    """What there is to be done."""

    #: In force when it is done.
    config: Config
    changed: tuple[str, ...]
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    restart: tuple[str, ...]


class Configuration:
    """Of one life of a node. One change at a time."""

    def __init__(self, loaded: LoadedConfig | None, live: LiveKeys, run: Run) -> None:
        """``loaded``: None if the configuration came from nowhere; then nothing can be changed."""
        self.loaded = loaded
        self.read: Read | None = None
        #: Set when the node serves.
        self.ports: Ports | None = None
        self.codecs: Codecs | None = None
        self.rules: Rules | None = None
        #: Why the last reload was refused; empty: it was not, or there is nothing left of that.
        self._refused = ""
        self._live = live
        self._run = run
        self._lock = DeferredLock()

    # What is there.

    def all_keys(self) -> Sequence[KeyInfo]:
        return [self._info(key) for key in sorted(schema.keys(self._live.config.listeners))]

    def key(self, key: str) -> KeyDetail | None:
        names = self._live.config.listeners
        hint = schema.find(key, names)
        if hint is None or schema.is_section(hint):
            return None
        layers = [LayerInfo("default", "default", masked_key(key, default_of(key)))]
        if self.loaded is not None:
            layers += [
                LayerInfo(_WORDS[one.origin.layer], str(one.origin), masked_key(key, one.value))
                for one in self.loaded.written.get(key, ())
            ]
        return KeyDetail(self._info(key), document(key), layers)

    def listeners(self) -> Sequence[ListenerInfo]:
        return [] if self.ports is None else self.ports.infos(self._live.config, self._layer_of)

    def _info(self, key: str) -> KeyInfo:
        value = written = value_of(self._live.config, key)
        layer, where = "default", "default"
        if self.loaded is not None:
            written = value_of(self.loaded.config, key)
            written = value if written is ABSENT else written
            origin = self.loaded.origin(key)
            layer, where = _WORDS[origin.layer], str(origin)
        restart = written != value and not (key.endswith(".port") and written == 0)
        shown, there, default = (masked_key(key, one) for one in (value, written, default_of(key)))
        return KeyInfo(key, shown, layer, where, is_live(key), restart, there, default)

    def _layer_of(self, listener: str) -> str:
        """The highest that has a key of it."""
        loaded = self.loaded
        layers = () if loaded is None else (loaded.origin(key).layer for key in loaded.written if _is_of(key, listener))
        return _WORDS[max(layers, default=Layer.DEFAULT)]

    # Changes.

    async def reload(self, *, dry_run: bool = False) -> ChangesInfo:
        if self.read is None:
            raise ConfigRefused("this node was not started from a configuration that can be read again")
        read = self.read

        async def change() -> ChangesInfo:
            try:
                loaded = await self._run(partial(_loadable, await read()))
            except ConfigError as error:
                raise ConfigRefused(str(error)) from error
            return await self._take(loaded, dry_run=dry_run)

        try:
            told = await self._alone(change)
        except (ConfigRefused, Unavailable) as error:
            if not dry_run:
                self._refused = str(error)
            raise
        if not dry_run:
            self._refused = ""
        return told

    async def look(self) -> None:
        """After a reload that was refused: the files may be as they were."""
        if not self._refused or self.read is None or self.loaded is None:
            return
        with suppress(ConfigError, Unavailable):
            loaded = await self._run(partial(_loadable, await self.read()))
            if loaded.config == self.loaded.config:
                self._refused = ""

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator should do something about: the next start reads these files."""
        if not self._refused:
            return ()
        why = "; ".join(self._refused.splitlines())
        text = f"the configuration was not reloaded, and may keep the node from its next start: {why}"
        return (Alarm(AlarmKind.CONFIGURATION, text, why),)

    async def change(self, values: Mapping[str, object], unset: Sequence[str]) -> ChangesInfo:
        async def change() -> ChangesInfo:
            self._check_keys([*values, *unset])
            return await self._write({**self._without(unset), **values})

        return await self._alone(change)

    async def open_listener(self, name: str, told: Mapping[str, object]) -> ListenerInfo:
        async def change() -> ListenerInfo:
            if not LISTENER_NAME.fullmatch(name):
                raise ConfigRefused("the name of a listener has letters (a to z), digits, '-' and '_', 32 at most")
            if name in self._live.config.enabled_listeners:
                raise InTheWay(f"the listener {name} is open already; close it first")
            values = dict(_flat(f"listeners.{name}", told))
            _check_paths(values)
            await self._write({**self._kept, **values, f"listeners.{name}.enabled": True})
            return next(one for one in self.listeners() if one.name == name)

        return await self._alone(change)

    async def close_listener(self, name: str) -> bool:
        async def change() -> bool:
            if name not in self._live.config.enabled_listeners:
                return False
            kept = self._without([key for key in self._kept if _is_of(key, name)])
            if name in known_listeners() or self._is_written_elsewhere(name):
                kept = {**self._kept, f"listeners.{name}.enabled": False}
            await self._write(kept)
            return True

        return await self._alone(change)

    async def _alone(self, change: Callable[[], Awaitable[Answer]]) -> Answer:
        await self._lock.acquire()
        try:
            return await change()
        finally:
            self._lock.release()

    @property
    def _kept(self) -> dict[str, object]:
        """The changed layer."""
        return {} if self.loaded is None else {one.key: one.value for one in self.loaded.layers.changed}

    def _without(self, keys: Sequence[str]) -> dict[str, object]:
        kept = self._kept
        for key in keys:
            if key not in kept:
                raise ConfigRefused(f"{key}: was not changed at run time, so there is nothing to take back")
        return {key: value for key, value in kept.items() if key not in keys}

    def _check_keys(self, keys: Sequence[str]) -> None:
        """Whether these are keys that may change."""
        names = self._live.config.listeners
        wrong = []
        for key in keys:
            hint = schema.find(key, names)
            if hint is None:
                wrong.append(f"{key}: {schema.unknown(key, names)}")
            elif schema.is_section(hint):
                wrong.append(f"{key}: is a section: name its keys")
            elif not is_live(key):
                wrong.append(f"{key}: changes with a restart only: write it into the configuration file")
        if wrong:
            raise ConfigRefused("\n".join(wrong))

    def _is_written_elsewhere(self, name: str) -> bool:
        assert self.loaded is not None
        layers = self.loaded.layers
        return any(
            _is_of(one.key, name) for layer in (layers.file, layers.environment, layers.command) for one in layer
        )

    async def _write(self, values: Mapping[str, object]) -> ChangesInfo:
        """Have this as the changed layer, in force and on the disk; or nothing of it."""
        before = self.loaded
        if before is None:
            raise ConfigRefused("this node was not started from a configuration that can be changed")
        layers, kept = before.layers, self._kept
        data_dir = data_dir_of((layers.file, layers.environment, layers.command), str(default_of("node.data_dir")))
        try:
            loaded = await self._run(
                lambda: _checked(assembled(replace(layers, changed=tuple(changed_now(data_dir, values)))))
            )
        except ConfigError as error:
            # Where in that file is no help to whoever has not written it.
            raise ConfigRefused(str(error).replace(f"{file_of(data_dir)}: ", "")) from error
        above = [
            f"{key}: {loaded.origin(key)} says {value_of(loaded.config, key)!r}, and counts above changes at run time"
            for key in values
            if kept.get(key, ABSENT) != values[key] and loaded.origin(key).layer > Layer.CHANGED
        ]
        if above:
            raise ConfigRefused("\n".join(above))
        await self._store(data_dir, values)
        try:
            return await self._take(loaded)
        except BaseException:
            await self._store(data_dir, kept)
            raise

    async def _store(self, data_dir: str, values: Mapping[str, object]) -> None:
        try:
            await self._run(partial(write_changed, data_dir, values))
        except OSError as error:
            raise Unavailable(f"{file_of(data_dir)} cannot be written: {error.strerror}") from error

    async def _take(self, loaded: LoadedConfig, *, dry_run: bool = False) -> ChangesInfo:
        """Have in force what is written, as far as it can be. Raises ``ConfigRefused``; then nothing has changed."""
        before = self._live.config
        step = self._with_codecs(_step(before, loaded.config), loaded)
        told = ChangesInfo(
            [_change(key, before, step.config) for key in step.changed],
            step.opens,
            step.closes,
            step.restart,
            [str(note) for note in notes(loaded)],
        )
        if dry_run:
            return told
        await self._open(step)
        try:
            if _RULES in step.changed and self.rules is not None:
                await self.rules.use(loaded)
        except RulesRefused as error:
            self._close(step.opens)
            raise ConfigRefused(f"{_RULES}: {error}") from error
        self.loaded = loaded
        self._live.change(step.config)
        self._close(step.closes)
        if self.codecs is not None:
            self.codecs.settle(plugin_settings(loaded.config))
        if step.changed or step.opens or step.closes or step.restart:
            extra = {
                "changed": ", ".join((*step.changed, *step.opens, *step.closes)),
                "restart": ", ".join(step.restart),
            }
            log.warning("the configuration was changed", extra=extra)
        return told

    def _with_codecs(self, step: _Step, loaded: LoadedConfig) -> _Step:
        """With the keys that codecs have not taken over: ``plugins.NAME.config``, as the file has them."""
        if self.codecs is None:
            return step
        codecs = sorted(self.codecs.differing(plugin_settings(loaded.config)), key=lambda key: key.partition(".")[0])
        others = (key for key in step.restart if key != CODECS)
        return replace(step, restart=(*others, *(f"plugins.{key}" for key in codecs)))

    async def _open(self, step: _Step) -> None:
        """All of them, or none."""
        if not step.opens:
            return
        ports = self.ports
        if ports is None:
            raise InTheWay("this node does not serve yet: no port can be opened")
        for name in step.opens:
            await ports.prepare(name, step.config)
        opened: list[str] = []
        try:
            for name in step.opens:
                ports.open(name, step.config)
                opened.append(name)
        except ConfigRefused:
            self._close(opened)
            raise

    def _close(self, names: Iterable[str]) -> None:
        for name in names:
            if self.ports is not None:
                self.ports.close(name)


def _checked(loaded: LoadedConfig) -> LoadedConfig:
    """What a node could serve with. Raises ``ConfigError``."""
    if problems := serving_problems(loaded):
        raise ConfigError(problems)
    return loaded


def _loadable(loaded: LoadedConfig) -> LoadedConfig:
    """The same, with the bundled codecs. Raises ``ConfigError``."""
    if problems := plugin_problems(_checked(loaded)):
        raise ConfigError(problems)
    return loaded


def _step(before: Config, written: Config) -> _Step:
    """From what is in force to what is written."""
    opens = tuple(name for name in written.enabled_listeners if name not in before.enabled_listeners)
    closes = tuple(name for name in before.enabled_listeners if name not in written.enabled_listeners)
    stay = [name for name in before.enabled_listeners if name in written.enabled_listeners]
    listeners = {**written.listeners, **{name: before.listeners[name] for name in stay}}
    config = replace(before, listeners=listeners)
    others = [key for key in differing(config, written) if not _is_chosen(key, written)]
    changed = tuple(key for key in others if is_live(key))
    restart = tuple(key for key in others if not is_live(key))
    return _Step(with_keys(config, changed, written), changed, opens, closes, restart)


def _is_chosen(key: str, written: Config) -> bool:
    """A port that the system has chosen, which a later life of the node keeps."""
    return key.endswith(".port") and value_of(written, key) == 0


def _change(key: str, before: Config, now: Config) -> Changed:
    return Changed(key, masked_key(key, value_of(before, key)), masked_key(key, value_of(now, key)))


def _is_of(key: str, listener: str) -> bool:
    return f"{key}.".startswith(f"listeners.{listener}.")


def _flat(prefix: str, told: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for name, value in told.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}.{name}", value)
        else:
            yield f"{prefix}.{name}", value


def _check_paths(values: Mapping[str, object]) -> None:
    """Whoever calls has another working directory than the node."""
    for key, value in values.items():
        known = KEYS.get(pattern_of(key))
        paths = value if isinstance(value, list) else [value]
        if known is not None and known.is_path and not all(_is_absolute(one) for one in paths):
            raise ConfigRefused(str(Problem(None, key, "must be an absolute path here")))


def _is_absolute(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_absolute(one) for one in value.values())
    return not isinstance(value, str) or Path(value).is_absolute()
