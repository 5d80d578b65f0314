"""Versions of one package beside one another in a process: each has its modules in a space of its own.

While a version is imported its modules stand in ``sys.modules`` under their ordinary names; afterwards they are taken
out again, and whatever was there is put back. What a plugin imports later, inside a function, finds its own version
because its modules have an ``__import__`` of their own. Nothing else refers to the modules, so they leave memory with
the version's last object.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import importlib.util
import logging
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from iot_mqtt.plugins.calling import RAISED, milliseconds, told
from iot_mqtt.plugins.place import Place
from iot_mqtt.sdk import Codec, Host
from iot_mqtt.sdk.fitting import DoesNotFit, check_codec, check_config

#: Released versions after which everything is collected: it holds the reactor up, by some 0.1 s for a million objects.
_COLLECT_EVERY: typing.Final = 16
#: Of the connection that a codec is tried with: an address of nobody.
_PEER: typing.Final = "192.0.2.1:40000"
_SILENT: typing.Final = logging.getLogger("iot_mqtt.plugins.tried")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class Space:
    """The modules of one version. To be used by one thread, the reactor's."""

    _released: typing.ClassVar[int] = 0

    def __init__(self, tops: Sequence[str], folder: str | None) -> None:
        self._tops = frozenset(tops)
        self._folder = folder
        self._finder = _Finder(self._tops, folder, {**vars(builtins), "__import__": self._import})
        self.modules: dict[str, ModuleType] = {}

    def load(self, target: str) -> object:
        """The object that an entry point names."""
        with self.present():
            return _object(target)

    @contextmanager
    def present(self) -> Iterator[None]:
        """The version's modules are what ``import`` finds."""
        hidden = self._take_out()
        sys.modules.update(self.modules)
        sys.meta_path.insert(0, self._finder)
        try:
            yield
        finally:
            sys.meta_path.remove(self._finder)
            self.modules = self._take_out()
            sys.modules.update(hidden)

    def release(self) -> None:
        """Nothing of it runs any more. A module and its functions refer to each other, so that only a full collection
        would free them, and a broker does next to none: what the modules hold is let go of here, and the classes that
        are left, which are small, are collected now and then.
        """
        for module in self.modules.values():
            module.__dict__.clear()
        self.modules = {}
        if self._folder is not None:
            sys.path_importer_cache.pop(self._folder, None)
        # The typing module remembers subscriptions such as Host[Config], and through them whole plugins.
        for forget in getattr(typing, "_cleanups", ()):
            forget()
        Space._released += 1
        if Space._released % _COLLECT_EVERY == 0:
            gc.collect()

    def _take_out(self) -> dict[str, ModuleType]:
        names = [name for name in sys.modules if name.partition(".")[0] in self._tops]
        return {name: sys.modules.pop(name) for name in names}

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """What an import statement in one of the modules calls."""
        full = name
        if level:
            package = (globals or {}).get("__package__") or ""
            full = importlib.util.resolve_name("." * level + name, package)
        if full.partition(".")[0] not in self._tops:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = self.modules.get(full)
        if module is not None and fromlist and all(hasattr(module, one) for one in fromlist):
            return module
        with self.present():
            return builtins.__import__(name, globals, locals, fromlist or (), level)


class _Finder(MetaPathFinder):
    """Finds the version's own modules, and makes them with the ``__import__`` of its space."""

    def __init__(self, tops: frozenset[str], folder: str | None, inner: dict[str, Any]) -> None:
        self._tops = tops
        self._folder = folder
        self._inner = inner

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self._tops:
            return None
        spec = self._search(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, self._inner)
        return spec

    def _search(self, fullname: str, path: Sequence[str] | None) -> ModuleSpec | None:
        if path is None and self._folder is not None:
            return PathFinder.find_spec(fullname, [self._folder])
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path)) is not None:
                return spec
        return None


class _Loader(SourceFileLoader):
    """Compiles from the source each time: a cached file of the same second and size may be of the version before."""

    def __init__(self, fullname: str, path: str, inner: dict[str, Any]) -> None:
        super().__init__(fullname, path)
        self._inner = inner

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._inner
        super().exec_module(module)


class Loaded(typing.NamedTuple):
    """A codec that fits, with its configuration. ``space`` is None for what can be there only once."""

    codec: type[Codec]
    config: Any
    version: str
    space: Space | None


def load_beside(place: Place, config: Mapping[str, object]) -> Loaded:
    """Load a version beside the others. Raises ``DoesNotFit``, whatever the plugin does but for ending the process."""
    if place.bundled:
        return load_alone(place, config)
    if "iot_mqtt" in place.tops:
        raise DoesNotFit(f"{place.distribution} brings modules of iot_mqtt's own name")
    space = Space(place.tops, place.folder)
    try:
        codec = check_codec(space.load(place.target))
        with space.present():  # annotations are looked up in sys.modules
            read = check_config(codec, config)
        _try(codec, read)
    except DoesNotFit:
        space.release()
        raise
    except RAISED as error:
        space.release()
        raise DoesNotFit(f"it cannot be imported: {told(error)}") from None
    return Loaded(codec, read, version_of(codec, place), space)


def load_alone(place: Place, config: Mapping[str, object]) -> Loaded:
    """Load the only version that this process will see, as Python does. Raises ``DoesNotFit``."""
    if place.folder is not None:
        sys.path.insert(0, place.folder)
    try:
        codec = check_codec(_object(place.target))
        read = check_config(codec, config)
        _try(codec, read)
        return Loaded(codec, read, version_of(codec, place), None)
    except DoesNotFit:
        raise
    except RAISED as error:
        raise DoesNotFit(f"it cannot be imported: {told(error)}") from None


def _try(codec: type[Codec], config: object) -> None:
    """Make one as for a connection, which nobody uses. Raises ``DoesNotFit``."""
    host = Host(config, peer=_PEER, log=_SILENT, count=lambda _name, _amount: None, now=milliseconds)
    try:
        codec(host)
    except RAISED as error:
        raise DoesNotFit(f"its constructor raised {told(error)}") from None


def _object(target: str) -> object:
    module, _, name = (part.strip() for part in target.partition(":"))
    found: object = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


def version_of(codec: type[Codec], place: Place) -> str:
    """What people call it: the codec's own word, else that of its distribution."""
    return codec.version if codec.version != "0" else place.version
