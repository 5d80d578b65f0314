"""Plugins as pip would leave them, a sink that remembers."""

from __future__ import annotations

import gc
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from iot_mqtt.plugins.catalog import Plugins
from iot_mqtt.plugins.info import PluginInfo
from iot_mqtt.plugins.running import Opened
from iot_mqtt.plugins.settings import PluginSettings
from iot_mqtt.sdk import Event, Readings
from tests.reactor import reactor, run, turn

T = TypeVar("T")

#: A codec whose frames are lines, and whose readings say which version read them.
PLAIN = """
from iot_mqtt.sdk import *
from {package}.tables import NAME

class Plain(Codec):
    framing = Line()
    version = "{version}"
    answers = True

    def opened(self):
        yield Login("g" + self.host.peer.partition(":")[0])

    def decode(self, frame):
        from {package}.lazy import value  # imported late, on purpose
        yield Readings("d1", {{"version": NAME, "frame": frame.decode("latin-1"), "lazy": value}})

    def encode(self, command):
        return f"{{command.device}}={{command.values['v']}}".encode()

    def welcome(self):
        return b"hello"
"""


def write_plugin(
    site: Path, name: str, version: str, source: str = PLAIN, *, target: str = "Plain", package: str | None = None
) -> None:
    """What pip leaves in ``site`` after it installed this; a version before it is replaced."""
    package = package or f"{name}_plugin"
    folder = site / package
    shutil.rmtree(folder, ignore_errors=True)
    for old in site.glob(f"{package}-*.dist-info"):
        shutil.rmtree(old)
    info = site / f"{package}-{version}.dist-info"
    files = {
        folder / "__init__.py": "",
        folder / "tables.py": f"NAME = {version!r}\n",
        folder / "lazy.py": f"value = {version!r}\n",
        folder / "codec.py": textwrap.dedent(source).format(package=package, version=version),
        info / "METADATA": f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {version}\n",
        info / "entry_points.txt": f"[iot_mqtt.codecs]\n{name} = {package}.codec:{target}\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    lines = [f"{path.relative_to(site)},," for path in files]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,", ""]))


class FakeSink:
    """``Sink`` that keeps what it is told."""

    def __init__(self) -> None:
        self.got: list[Event] = []
        self.told: list[tuple[Any, ...]] = []
        #: What was said of each failure of the codec.
        self.details: list[str] = []
        self.readies = 0

    @property
    def readings(self) -> list[Readings]:
        return [event for event in self.got if isinstance(event, Readings)]

    @property
    def failure(self) -> tuple[Any, ...] | None:
        return next((one for one in self.told if one[0] in ("bad_frame", "codec_failed")), None)

    def events(self, events: list[Event]) -> None:
        assert self.failure is None
        self.got += events

    def encoded(self, number: int, data: bytes) -> None:
        self.told.append(("encoded", number, data))

    def not_encoded(self, number: int, reason: str) -> None:
        self.told.append(("not_encoded", number, reason))

    def send(self, data: bytes) -> None:
        self.told.append(("send", data))

    def bad_frame(self, reason: str, detail: str) -> None:
        assert self.failure is None
        self.told.append(("bad_frame", reason, detail))

    def codec_failed(self, reason: str, detail: str = "") -> None:
        assert self.failure is None
        self.told.append(("codec_failed", reason))
        self.details.append(detail)

    def ready(self) -> None:
        self.readies += 1


class House:
    """A node's plugins, without the node."""

    def __init__(self, folder: Path) -> None:
        self.site = folder / "site"
        self.site.mkdir(exist_ok=True)
        self.folder = folder / "data" / "plugins"
        self.plugins: Plugins

    def start(self, **sections: PluginSettings) -> Plugins:
        return self.start_with(sections)

    def start_with(self, sections: Mapping[str, PluginSettings] | None = None, **options: Any) -> Plugins:
        self.plugins = Plugins(reactor, self.folder, sections or {}, bundled={}, version="1", **options)
        run(self.plugins.start())
        return self.plugins

    def connect(self, name: str, peer: str = "10.0.0.1:4000") -> tuple[Opened, FakeSink]:
        """A connection whose gateway is let in, whoever it is."""
        sink = FakeSink()
        opened = self.plugins.open(name, peer, sink)
        opened.runner.accepted = True  # type: ignore[attr-defined]
        opened.runner.opened()
        return opened, sink


def vendors(plugins: Plugins) -> list[PluginInfo]:
    """Without the bundled protocols, which are installed wherever the tests run."""
    return [one for one in plugins.info() if not one.bundled]


def info_of(plugins: Plugins, name: str) -> PluginInfo:
    """One plugin among those that are installed."""
    return next(one for one in plugins.info() if one.name == name)


@contextmanager
def house(folder: Path) -> Iterator[House]:
    one = House(folder)
    sys.path.insert(0, str(one.site))
    try:
        yield one
    finally:
        sys.path.remove(str(one.site))
        if hasattr(one, "plugins"):
            one.plugins.stop()
            for _ in range(5):
                turn()


def settings(isolation: str, config: Mapping[str, object] | None = None, **limits: Any) -> PluginSettings:
    from iot_mqtt.plugins.settings import Limits

    return PluginSettings(True, isolation, dict(config or {}), Limits(**limits))


def collect() -> None:
    for _ in range(3):
        gc.collect()
