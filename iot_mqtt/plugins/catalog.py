"""The plugins of a node: which there are, which version takes new connections, and changing that while it runs.

A plugin that cannot be loaded is a state and a reason, never an exception of ``start``: the node boots without it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList

from iot_mqtt.plugins import installing
from iot_mqtt.plugins.examining import examine
from iot_mqtt.plugins.info import CheckReport, PluginError, PluginInfo, VersionInfo
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.plugin import Plugin
from iot_mqtt.plugins.process.bridge import Reactor
from iot_mqtt.plugins.process.version import ProcessVersion
from iot_mqtt.plugins.running import NotAvailable, Opened, Sink
from iot_mqtt.plugins.settings import PluginSettings
from iot_mqtt.plugins.shelf import Decided, Shelf
from iot_mqtt.plugins.stock import Found, Stock
from iot_mqtt.plugins.telling import Counts, Quiet, logger_of
from iot_mqtt.plugins.versions import Common, InlineVersion, Version
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.sdk.schema import conflict

log = logging.getLogger(__name__)

#: The sections ``plugins.<name>`` as they are written now. Raises ``PluginError``.
Reread = Callable[[], Awaitable[Mapping[str, PluginSettings]]]

ISOLATIONS = ("inline", "process")
_WHEEL = re.compile(r"[A-Za-z0-9._+-]{1,200}\.whl")
#: Of those that are held off, in ``PluginInfo``.
_SHOWN = 64
#: Seconds between two connections that are asked to close.
_DRAIN_EVERY = 0.02


class Plugins:
    """``PluginPart`` of a node.

    ``sections`` are ``plugins.<name>``; ``bundled``: targets by name; ``allowed``: hashes of the wheels that may be
    installed, none for any that an operator names.
    """

    def __init__(
        self,
        reactor: Reactor,
        folder: Path,
        sections: Mapping[str, PluginSettings],
        *,
        bundled: Mapping[str, str],
        version: str = "0",
        reread: Reread | None = None,
        allowed: Collection[str] = (),
    ) -> None:
        self._reactor = reactor
        self._sections = dict(sections)
        self._reread = reread
        self._allowed = {one.lower().removeprefix("sha256:") for one in allowed}
        self._shelf = Shelf(folder)
        self._stock = Stock(reactor, self._shelf, bundled, version)
        self._plugins: dict[str, Plugin] = {}
        self._stopped = False
        #: One version at a time is held against the kit.
        self._examining = False

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """For ``/health``: what a person should look at."""
        found = [] if self._shelf.trouble is None else [Alarm(AlarmKind.OTHER, self._shelf.trouble)]
        for plugin in self._plugins.values():
            if plugin.state in ("refused", "quarantined"):
                reason = plugin.trouble if plugin.current is None else plugin.current.reason
                found.append(
                    Alarm(AlarmKind.CODEC, f"codec {plugin.name} takes no connections: {reason}", reason or "")
                )
        return tuple(found)

    def start(self) -> Deferred[None]:
        """Load what is enabled. Fires when each of them is ready or is known not to be; never fails."""
        # Nobody is served yet who could be held up.
        self._note(self._stock.look())
        waiting = []
        for plugin in self._plugins.values():
            plugin.enabled = self._wanted(plugin, self._sections)
            if plugin.enabled:
                waiting.append(self._begin(plugin))
        with self._told():
            self._shelf.keeping(self._labels_at_work())()
        done: Deferred[Any] = DeferredList(waiting)
        return done.addCallback(lambda _: None)

    def stop(self) -> None:
        """End all workers; nobody is told."""
        self._stopped = True
        for plugin in self._plugins.values():
            for version in plugin.versions:
                version.stop()

    def open(self, name: str, peer: str, sink: Sink) -> Opened:
        """A codec for a new connection, of the newest version. Raises ``NotAvailable``."""
        plugin = self._plugins.get(name)
        if plugin is None:
            raise NotAvailable("unknown", f"there is no codec {name!r}; `ctl plugins list` shows those that are there")
        try:
            if not plugin.enabled:
                raise NotAvailable("disabled", f"{name} is disabled; `ctl plugins enable {name}` changes that")
            if plugin.current is None:
                raise NotAvailable("refused", plugin.trouble or f"{name} is not loaded")
            return plugin.current.open(peer, sink)
        except NotAvailable as error:
            plugin.turned_away[error.reason] += 1
            raise

    # ``PluginPart``.

    def differing(self, written: Mapping[str, PluginSettings]) -> Iterator[str]:
        """The keys below ``plugins`` that say something else than what runs."""
        yield from (name for name in written if name not in self._plugins)
        for name, plugin in self._plugins.items():
            told = written.get(name, PluginSettings(enabled=False))
            yield from (f"{name}.{key}" for key in plugin.differing(told))
            if self._wanted(plugin, written) != self._wanted(plugin, self._sections):
                yield f"{name}.enabled"

    def settle(self, written: Mapping[str, PluginSettings]) -> None:
        """What runs is written again: a reload that was refused for something else is over."""
        for name, plugin in self._plugins.items():
            if plugin.misconfigured and not any(plugin.differing(written.get(name, PluginSettings(enabled=False)))):
                plugin.trouble, plugin.misconfigured = None, False

    def info(self) -> list[PluginInfo]:
        return [self._info(plugin) for _, plugin in sorted(self._plugins.items())]

    async def install(self, path: str, sha256: str) -> list[PluginInfo]:
        names = await installing.install(self._reactor, self._shelf, self._stock, path, sha256, self._allowed)
        await self._scan()
        await self._save()
        brought = [self._plugins[name] for name in names]
        for plugin in brought:
            if plugin.enabled and plugin.current is None:
                plugin.trouble = f"{plugin.name} has arrived; `ctl plugins enable {plugin.name}` loads it"
        return list(map(self._info, brought))

    async def take_in(self, wheel: bytes, filename: str, sha256: str) -> list[PluginInfo]:
        def kept() -> Path:
            folder = self._shelf.workplace()
            (folder / filename).write_bytes(wheel)
            return folder

        if not _WHEEL.fullmatch(filename):
            raise PluginError("refused", f"{filename!r} is not what a wheel is called")
        try:
            folder = await self._stock.aside(kept, lambda found: found)
        except OSError as error:
            raise PluginError("refused", f"{filename} could not be kept: {error}") from error
        try:
            return await self.install(str(folder / filename), sha256)
        finally:
            self._shelf.discard(folder)

    async def check(self, name: str, label: str | None = None) -> CheckReport:
        plugin = await self._get(name)
        place = self._newest(plugin) if label is None else plugin.places.get(label)
        if place is None:
            raise PluginError(
                "unknown", f"there is no version {label!r} of {name}" if label else f"{name} is not there"
            )
        if self._examining:
            raise PluginError("busy", "another version is being checked")
        self._examining = True
        try:
            settings = await self._settings(plugin)
            return await examine(self._reactor, place, settings, self._shelf.folder)
        finally:
            self._examining = False

    async def enable(self, name: str, isolation: str | None = None) -> PluginInfo:
        if isolation is not None and isolation not in ISOLATIONS:
            raise PluginError("refused", f"isolation is {' or '.join(ISOLATIONS)}, not {isolation!r}")
        plugin = await self._get(name)
        decided = self._shelf.of(name)
        decided.enabled, decided.isolation = True, isolation or decided.isolation
        plugin.enabled = True
        state = "" if plugin.current is None else plugin.current.state
        if state == "ready" and plugin.isolation == self._isolation(plugin):
            await self._save()
            return self._info(plugin)

        async def change() -> str | None:
            place = self._target(plugin)
            if plugin.current is None:
                # Nothing is at work that its data could contradict.
                place = self._newest(plugin)
                if place is not None:
                    self._remember(plugin, place.label)
            # Decided, whatever comes of it.
            await self._save()
            return await self._use(plugin, place)

        return await self._change(plugin, change)

    async def disable(self, name: str) -> PluginInfo:
        plugin = await self._get(name)
        if plugin.busy:
            raise _busy(plugin)
        self._shelf.of(name).enabled = False
        plugin.enabled = False
        self._retire(plugin)
        self._drain(plugin)
        await self._save()
        return self._info(plugin)

    async def reload(self, name: str, *, drain: bool = False) -> PluginInfo:
        plugin = await self._get(name)
        if not plugin.enabled:
            raise PluginError("refused", f"{name} is disabled; `ctl plugins enable {name}` loads it")

        async def change() -> str | None:
            try:
                settings = await self._settings(plugin)
            except PluginError as error:
                return error.detail
            await self._scan()
            return await self._use(plugin, self._newest(plugin), settings)

        return await self._change(plugin, change, drain)

    async def rollback(self, name: str, *, drain: bool = False) -> PluginInfo:
        plugin = await self._get(name)
        label = self._shelf.of(name).previous
        if label is None or label not in plugin.places:
            raise PluginError("refused", f"no version of {name} from before is kept")
        if not plugin.enabled:
            raise PluginError("refused", f"{name} is disabled; `ctl plugins enable {name}` loads it")
        return await self._change(plugin, lambda: self._use(plugin, plugin.places[label], back=True), drain)

    # Finding.

    async def _scan(self) -> None:
        """Look at what is installed and kept. New plugins are known after that, and nothing else changes."""
        await self._stock.aside(self._stock.look, self._note)

    def _note(self, found: Found) -> None:
        for name, label in found.site.items():
            decided = self._shelf.of(name)
            if decided.site != label or label not in decided.arrived:
                decided.site = label
                self._shelf.arrive(name, label)
        for name in {*found.places, *self._sections}:
            plugin = self._plugins.get(name)
            if plugin is None:
                plugin = self._plugins[name] = Plugin(name, self._sections.get(name, PluginSettings(enabled=False)))
                plugin.common = self._common(plugin)
            plugin.places = found.places.get(name, {})

    def _common(self, plugin: Plugin) -> Common:
        settings = plugin.settings

        def over(version: Version) -> None:
            if version in plugin.old:
                plugin.old.remove(version)

        def faulty(kind: str) -> None:
            plugin.faults[kind] += 1

        def turned_away(reason: str) -> None:
            plugin.turned_away[reason] += 1

        name, log, now = plugin.name, logger_of(plugin.name), self._reactor.seconds
        ours = Counts(), Quiet(log, now), Quiet(log.getChild("output"), now), over, faulty, turned_away
        return Common(name, settings.config, settings.limits, settings.sandbox, self._reactor, *ours)

    async def _settings(self, plugin: Plugin) -> PluginSettings:
        """As they are written now. Raises ``PluginError``."""
        if self._reread is None:
            return plugin.settings
        return (await self._reread()).get(plugin.name, PluginSettings(enabled=False))

    def _wanted(self, plugin: Plugin, sections: Mapping[str, PluginSettings]) -> bool:
        decided = self._shelf.of(plugin.name).enabled
        if decided is not None:
            return decided
        return sections[plugin.name].enabled if plugin.name in sections else plugin.bundled

    def _isolation(self, plugin: Plugin, settings: PluginSettings | None = None) -> str:
        said = self._shelf.of(plugin.name).isolation or (settings or plugin.settings).isolation
        return said or ("inline" if plugin.bundled else "process")

    def _newest(self, plugin: Plugin) -> Place | None:
        for label in reversed(self._shelf.of(plugin.name).arrived):
            if label in plugin.places:
                return plugin.places[label]
        return next(iter(plugin.places.values()), None)

    def _target(self, plugin: Plugin) -> Place | None:
        """What was current, unless pip has installed something since."""
        decided = self._shelf.of(plugin.name)
        if decided.current in plugin.places and self._seen(decided):
            return plugin.places[decided.current]
        return self._newest(plugin)

    @staticmethod
    def _seen(decided: Decided) -> bool:
        """Nothing came after the current version, or it was chosen over what came."""
        last = decided.arrived[-1] if decided.arrived else None
        return last is None or last != decided.site or last in (decided.current, decided.previous)

    # Changing.

    def _begin(self, plugin: Plugin) -> Deferred[str | None]:
        return self._use(plugin, self._target(plugin))

    def _use(
        self, plugin: Plugin, place: Place | None, settings: PluginSettings | None = None, *, back: bool = False
    ) -> Deferred[str | None]:
        """Have a version take the new connections; fires with None, or with the reason why it does not.

        ``settings`` are new ones, which count if it does. ``back``: it was at work before, whatever its schema is.
        """
        done: Deferred[str | None] = Deferred()
        if place is None:
            plugin.trouble = (
                f"no codec {plugin.name!r} is installed; `ctl plugins install` takes a wheel or a directory"
            )
            done.callback(plugin.trouble)
            return done
        settings = settings or plugin.settings
        isolation = self._isolation(plugin, settings)
        common = plugin.common._replace(config=settings.config, limits=settings.limits, sandbox=settings.sandbox)
        version: Version
        if isolation == "process":
            version = ProcessVersion(place, common, self._reactor)
        else:
            version = InlineVersion(place, common)

        def then(reason: str | None) -> None:
            plugin.loading = False
            better = plugin.current is None or plugin.current.state in ("refused", "quarantined")
            if reason is None and not back and (reason := _conflict(plugin.current, version)) is not None:
                better = False
            plugin.trouble = reason
            plugin.misconfigured = reason is not None and settings != plugin.settings
            if self._stopped or (reason is not None and not (better and plugin.enabled)):
                version.retire()
            else:
                self._replace(plugin, version, isolation)
            if reason is None:
                plugin.settings, plugin.common = settings, common
                self._remember(plugin, place.label)
                if back:  # so that a reload keeps it, until another one arrives
                    self._shelf.arrive(plugin.name, place.label)
                log.info("codec %s is version %s, %s", plugin.name, place.label, isolation)
            else:
                log.error("codec %s, version %s: %s", plugin.name, place.label, reason)
            done.callback(reason)

        plugin.loading = True
        version.start(then)
        return done

    def _replace(self, plugin: Plugin, version: Version, isolation: str) -> None:
        self._retire(plugin)
        plugin.current, plugin.isolation = version, isolation

    def _retire(self, plugin: Plugin) -> None:
        before, plugin.current = plugin.current, None
        if before is not None:
            plugin.old.append(before)
            before.retire()

    def _remember(self, plugin: Plugin, label: str) -> None:
        decided = self._shelf.of(plugin.name)
        if decided.current != label:
            decided.previous, decided.current = decided.current, label

    async def _change(
        self, plugin: Plugin, change: Callable[[], Awaitable[str | None]], drain: bool = False
    ) -> PluginInfo:
        if plugin.busy:
            raise _busy(plugin)
        plugin.busy = True
        try:
            reason = await change()
        finally:
            plugin.busy = False
        if reason is not None:
            at_work = plugin.current is not None and plugin.current.state == "ready"
            stays = f"; version {plugin.current.place.label} stays" if at_work and plugin.current is not None else ""
            raise PluginError("refused", f"{plugin.name}: {reason}{stays}")
        if drain:
            self._drain(plugin)
        await self._save()
        return self._info(plugin)

    def _drain(self, plugin: Plugin) -> None:
        waiting = [opened for version in plugin.old for opened in version.connections]

        def next_one() -> None:
            while waiting and not self._stopped:
                opened = waiting.pop()
                if opened.on_drain is not None:
                    close, opened.on_drain = opened.on_drain, None
                    close()
                    self._reactor.callLater(_DRAIN_EVERY, next_one)
                    return

        next_one()

    async def _get(self, name: str) -> Plugin:
        plugin = self._plugins.get(name)
        if plugin is None:
            await self._scan()  # pip may have brought it a moment ago
            plugin = self._plugins.get(name)
        if plugin is None:
            raise PluginError("unknown", f"there is no plugin {name!r}")
        return plugin

    async def _save(self) -> None:
        with self._told():
            await self._stock.keep(self._labels_at_work)

    @staticmethod
    @contextmanager
    def _told() -> Iterator[None]:
        """What cannot be written is told; the decision holds until the node ends."""
        try:
            yield
        except OSError as error:
            log.error("what was decided about plugins cannot be written: %s", error)

    def _labels_at_work(self) -> set[str]:
        return {version.place.label for plugin in self._plugins.values() for version in plugin.versions}

    def _info(self, plugin: Plugin) -> PluginInfo:
        current = plugin.current
        at_work: dict[str, int] = {}
        for version in plugin.versions:  # the same one may be there twice, with another configuration
            at_work[version.place.label] = at_work.get(version.place.label, 0) + len(version.connections)
        versions = [
            VersionInfo(
                label,
                plugin.places[label].version if label in plugin.places else label,
                current is not None and current.place.label == label,
                label in at_work,
                at_work.get(label, 0),
            )
            for label in sorted({*plugin.places, *at_work})
        ]
        remaining = 0.0 if current is None else current.conduct.remaining
        return PluginInfo(
            name=plugin.name,
            state=plugin.state,
            reason=(None if current is None else current.reason) or plugin.trouble,
            isolation=plugin.isolation or self._isolation(plugin),
            bundled=plugin.bundled,
            version=None if current is None else current.version,
            schema_version=None if current is None or current.schema is None else current.schema.version,
            connections=sum(at_work.values()),
            versions=versions,
            faults={kind: count for kind, count in plugin.faults.items() if kind != "quarantined"},
            last_fault=None if current is None else current.conduct.last or None,
            quarantine=round(remaining, 1) if remaining else None,
            quarantines=plugin.faults["quarantined"],
            restarts=current.restarts if isinstance(current, ProcessVersion) else 0,
            pid=current.pid if isinstance(current, ProcessVersion) else None,
            unconfined={} if current is None else dict(current.unconfined),
            turned_away=dict(plugin.turned_away),
            slow={} if current is None else dict(current.conduct.slow),
            slow_frame=plugin.settings.limits.slow_frame,
            stall=plugin.settings.limits.stall,
            slowest=0.0 if current is None else round(current.conduct.slowest, 3),
            held_off=[] if current is None else list(islice(current.conduct.hold_offs.shown(), _SHOWN)),
            counters=dict(plugin.common.counts.totals),
        )


def _conflict(before: Version | None, after: Version) -> str | None:
    """Why the data of both must not stand on the same topics."""
    if before is None or before.schema is None or after.schema is None:
        return None
    found = conflict(before.schema, after.schema)
    return None if found is None else f"{found}; `disable` and `enable` take it all the same"


def _busy(plugin: Plugin) -> PluginError:
    return PluginError("busy", f"{plugin.name} is being changed already")
