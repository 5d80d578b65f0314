"""Taking a vendor's wheel or project in: pip in a child process, without network, into a folder of the shelf."""

from __future__ import annotations

import importlib
import shutil
import sys
from functools import partial
from pathlib import Path

from iot_mqtt.plugins.finding import OURS, distributions, in_folder
from iot_mqtt.plugins.info import PluginError
from iot_mqtt.plugins.process.bridge import CommandFailed, Reactor, run_command
from iot_mqtt.plugins.shelf import Shelf
from iot_mqtt.plugins.stock import Stock

#: Dependencies are the operator's to install: what a broker runs is not for a plugin's metadata to decide.
_FLAGS = (
    "--no-deps",
    "--no-index",
    "--no-build-isolation",
    "--no-compile",
    "--disable-pip-version-check",
    "--no-warn-script-location",
)
#: What lies in a project and is no source; setuptools would take modules from ``build`` that were deleted since.
_GIT, _BUILD = ".git", "build"
_NO_SOURCE = frozenset((_GIT, "__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", "node_modules"))
_WITHIN = 300.0
_TAIL = 1500


async def install(reactor: Reactor, shelf: Shelf, stock: Stock, path: str) -> list[str]:
    """The names of the codecs that it brought. Raises ``PluginError``."""
    source = _checked(path)
    try:
        workplace = shelf.workplace()
    except OSError as error:
        raise PluginError("refused", f"{shelf.folder} cannot be written: {error}") from error
    try:
        clean = await stock.aside(partial(_clean, source, workplace), lambda found: found)
        arguments = [sys.executable, "-m", "pip", "install", "--target", str(workplace), *_FLAGS, str(clean)]
        await run_command(reactor, arguments, shelf.folder, _WITHIN)
        return await stock.aside(partial(_take_in, shelf, workplace, source), partial(_arrived, shelf))
    except CommandFailed as error:
        raise PluginError("refused", f"pip could not install {source}: {str(error)[-_TAIL:]}") from error
    except OSError as error:
        raise PluginError("refused", f"{source} could not be installed: {error}") from error
    finally:
        for left in (workplace, _copy_of(workplace)):
            if left.exists():
                shelf.discard(left)


def _checked(path: str) -> Path:
    source = Path(path)
    if not source.is_absolute():
        raise PluginError("refused", f"{path} is not an absolute path on the node's machine")
    if source.is_dir():
        if not any((source / name).is_file() for name in ("pyproject.toml", "setup.py")):
            raise PluginError("refused", f"{path} has no pyproject.toml: it is not a project's directory")
    elif not source.is_file():
        raise PluginError("refused", f"there is no {path} on the node's machine")
    elif source.suffix != ".whl":
        raise PluginError("refused", f"{path} is neither a wheel nor a project's directory")
    return source


def _clean(source: Path, workplace: Path) -> Path:
    """The wheel, or a copy of the project without what earlier builds have left in it. On a thread."""
    if source.is_file():
        return source
    copy = _copy_of(workplace)

    def left_out(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if name in _NO_SOURCE or name.endswith(".egg-info")}
        built = Path(folder) / _BUILD
        if any(built.glob("lib*")) or any(built.glob("bdist.*")):
            found.add(_BUILD)
        return found

    shutil.copytree(source, copy, ignore=left_out, ignore_dangling_symlinks=True)
    if (source / _GIT).exists():  # a version may be made of it
        (copy / _GIT).symlink_to(source / _GIT)
    return copy


def _copy_of(workplace: Path) -> Path:
    return workplace.with_name(f"{workplace.name}-source")


def _take_in(shelf: Shelf, workplace: Path, source: Path) -> tuple[list[str], str]:
    """Names and label. On a thread."""
    places = in_folder(workplace)
    found = list(distributions([str(workplace)]))
    if len(found) != 1 or not places:
        raise PluginError("refused", f"{source} has no entry point in the group iot_mqtt.codecs")
    if any("iot_mqtt" in place.tops or place.distribution == OURS for place in places):
        raise PluginError("refused", f"{source} brings modules of iot_mqtt's own name")
    label = shelf.take_in(workplace, found[0])
    importlib.invalidate_caches()
    return sorted(place.name for place in places), label


def _arrived(shelf: Shelf, brought: tuple[list[str], str]) -> list[str]:
    names, label = brought
    for name in names:
        shelf.arrive(name, label)
    return names
