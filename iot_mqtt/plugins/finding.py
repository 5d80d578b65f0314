"""Where codecs are: entry points of the group ``iot_mqtt.codecs``, in what is installed and in folders of our own."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path

from iot_mqtt.plugins.place import Place

log = logging.getLogger(__name__)

#: It stands in keys of the configuration, in commands, labels of metrics and on pages.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
GROUP = "iot_mqtt.codecs"
#: What the bundled protocols belong to.
OURS = "iot-mqtt"


def installed(bundled: Mapping[str, str], version: str) -> dict[str, tuple[Place, Distribution | None]]:
    """What can be imported now. The bundled ones cannot be replaced by others of their name."""
    importlib.invalidate_caches()
    found: dict[str, tuple[Place, Distribution | None]] = {}
    for distribution in distributions(sys.path):
        for place in _read(distribution, None):
            found.setdefault(place.name, (place, distribution))
    for name, target in bundled.items():
        found[name] = (Place(name, target, OURS, version, ("iot_mqtt",), None, version, bundled=True), None)
    return found


def in_folder(folder: Path) -> list[Place]:
    """The codecs of the distributions in a folder that pip installed into."""
    importlib.invalidate_caches()
    return [place for distribution in distributions([str(folder)]) for place in _read(distribution, folder)]


def wrong_name(name: str) -> str | None:
    """What is wrong with what a codec is called, in words."""
    if _NAME.fullmatch(name):
        return None
    return f"a codec of it is called {name!r}: a name is made of up to 64 letters, digits, points, - and _"


def distributions(path: Sequence[str]) -> Iterable[Distribution]:
    """By Python's own finder: ``sys.meta_path`` is no list to walk through here, for the finders of codecs that are
    being imported come and go there in another thread.
    """
    return PathFinder.find_distributions(DistributionFinder.Context(path=[*path]))


def _read(distribution: Distribution, folder: Path | None) -> list[Place]:
    """Metadata are files that anybody may have written: those that cannot be read stop nothing."""
    try:
        found = list(of_distribution(distribution, folder))
        for place in found:
            if wrong := wrong_name(place.name):
                log.warning("%s is left out: %s", place.distribution, wrong)
        return [place for place in found if wrong_name(place.name) is None]
    except Exception as error:  # noqa: BLE001 - whatever it is: a node must boot with it
        log.warning("the metadata of %s cannot be read: %s", getattr(distribution, "_path", "a distribution"), error)
        return []


def of_distribution(distribution: Distribution, folder: Path | None = None) -> Iterator[Place]:
    # Nearly all that is installed has nothing for us; the rest is read with care, which takes its time.
    if GROUP not in (distribution.read_text("entry_points.txt") or ""):
        return
    metadata = distribution.metadata
    name, version = metadata["Name"] or "?", metadata["Version"]
    tops = tuple(_tops(distribution))
    where, label = (None, version) if folder is None else (str(folder), folder.name)
    for point in distribution.entry_points:
        if point.group == GROUP:
            top = point.value.partition(":")[0].strip().partition(".")[0]
            place = Place(point.name, point.value, name, version, tuple(sorted({top, *tops})), where, label)
            yield replace(place, bundled=place.is_of(OURS))


def is_editable(distribution: Distribution) -> bool:
    """Installed by reference to a project's directory: its files are not with it."""
    url = distribution.read_text("direct_url.json") or ""
    return '"editable": true' in url or not any(True for _ in files(distribution))


def files(distribution: Distribution) -> Iterator[tuple[str, Path]]:
    """Its own modules and metadata: relative and absolute path. Scripts lie elsewhere and are left out."""
    for path in distribution.files or ():
        if ".." in path.parts or "__pycache__" in path.parts or path.is_absolute():
            continue
        if path.suffix == ".pth" or path.parts[0].startswith("__editable__"):
            continue
        if path.suffix in (".py", ".so") or len(path.parts) > 1:
            yield str(path), Path(str(path.locate()))


def _tops(distribution: Distribution) -> Iterator[str]:
    for path, _ in files(distribution):
        first, _, rest = path.partition("/")
        if not first.endswith((".dist-info", ".egg-info", ".data")):
            top = first if rest else first.partition(".")[0]
            if top.isidentifier():
                yield top
