"""Taking a vendor's wheel in: pip in a child process, without network, into a folder of the shelf.

Only wheels, and only those whose hash an operator has named: pip unpacks a wheel and runs nothing of it, while it would
run a project's own code to build one, with all rights of the broker. ``iot-mqtt ctl plugins install`` builds the
wheel of a project where the operator is.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import zipfile
from collections.abc import Collection
from functools import partial
from pathlib import Path

from iot_mqtt.plugins.finding import distributions, in_folder, of_distribution, wrong_name
from iot_mqtt.plugins.info import PluginError
from iot_mqtt.plugins.process.bridge import CommandFailed, Reactor, run_command
from iot_mqtt.plugins.shelf import Shelf
from iot_mqtt.plugins.stock import Stock

_FLAGS = (
    "--no-index",
    "--only-binary=:all:",
    "--no-compile",
    "--disable-pip-version-check",
    "--no-warn-script-location",
)
_WITHIN = 300.0
_TAIL = 1500
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Bytes of a wheel, and of what is in it.
_LARGEST, _LARGEST_UNPACKED = 256 * 1024 * 1024, 1024 * 1024 * 1024


async def install(
    reactor: Reactor, shelf: Shelf, stock: Stock, path: str, sha256: str, allowed: Collection[str] = ()
) -> list[str]:
    """The names of the codecs that it brought. ``allowed``: hashes, of which it must be one if there are any.

    Raises ``PluginError``.
    """
    source = _checked(path)
    expected = sha256.lower().removeprefix("sha256:")
    if not _SHA256.fullmatch(expected):
        raise PluginError("refused", "sha256 must be the 64 hexadecimal digits of the wheel's SHA-256")
    if allowed and expected not in allowed:
        raise PluginError("refused", f"plugins.allowed_wheels does not name {expected}, the hash of {source.name}")
    try:
        workplace = shelf.workplace()
    except OSError as error:
        raise PluginError("refused", f"{shelf.folder} cannot be written: {error}") from error
    copies = workplace.with_name(f"{workplace.name}-wheel")
    try:
        # What is looked at is what is installed, whatever becomes of the file meanwhile.
        copy = await stock.aside(partial(_copied, source, copies, expected), lambda found: found)
        pip = [sys.executable, "-I", "-m", "pip", "install", *_FLAGS, str(copy)]
        # Dependencies are the operator's to install: what a broker runs is not for a plugin's metadata to decide.
        await run_command(reactor, [*pip, "--no-deps", "--target", str(workplace)], shelf.folder, _WITHIN)
        await _need(reactor, shelf, [*pip, "--dry-run"], source)
        return await stock.aside(partial(_take_in, shelf, stock, workplace, source), partial(_arrived, shelf))
    except CommandFailed as error:
        raise PluginError("refused", f"pip could not install {source}: {str(error)[-_TAIL:]}") from error
    except OSError as error:
        raise PluginError("refused", f"{source} could not be installed: {error}") from error
    finally:
        for left in (workplace, copies):
            if left.exists():
                shelf.discard(left)


async def _need(reactor: Reactor, shelf: Shelf, arguments: list[str], source: Path) -> None:
    """Without an index pip finds what is installed, and says what is not: by versions, extras and markers."""
    try:
        await run_command(reactor, arguments, shelf.folder, _WITHIN)
    except CommandFailed as error:
        told = f"{source.name} depends on what is not installed beside the broker"
        raise PluginError("refused", f"{told}: {str(error)[-_TAIL:]}") from error


def _checked(path: str) -> Path:
    source = Path(path)
    if not source.is_absolute():
        raise PluginError("refused", f"{path} is not an absolute path on the node's machine")
    if source.is_dir():
        raise PluginError("refused", f"{path} is a directory; `ctl plugins install` builds a project's wheel")
    if not source.is_file():
        raise PluginError("refused", f"there is no {path} on the node's machine")
    if source.suffix != ".whl":
        raise PluginError("refused", f"{path} is no wheel")
    return source


def _copied(source: Path, folder: Path, expected: str) -> Path:
    """A copy of our own with that hash. On a thread."""
    folder.mkdir(mode=0o700)
    copy = folder / source.name
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as file, copy.open("wb") as ours:
        while block := file.read(1024 * 1024):
            size += len(block)
            if size > _LARGEST:
                raise PluginError("refused", f"{source} has more than {_LARGEST} bytes")
            digest.update(block)
            ours.write(block)
    if digest.hexdigest() != expected:
        raise PluginError("refused", f"{source} has the hash {digest.hexdigest()}, not {expected}")
    try:
        with zipfile.ZipFile(copy) as inside:
            unpacked = sum(entry.file_size for entry in inside.infolist())
    except zipfile.BadZipFile as error:
        raise PluginError("refused", f"{source} is no wheel: {error}") from error
    if unpacked > _LARGEST_UNPACKED:
        raise PluginError("refused", f"{source} would take {unpacked} bytes, more than {_LARGEST_UNPACKED}")
    return copy


def _take_in(shelf: Shelf, stock: Stock, workplace: Path, source: Path) -> tuple[list[str], str]:
    """Names and label. On a thread."""
    places = in_folder(workplace)
    found = list(distributions([str(workplace)]))
    for place in (place for one in found for place in of_distribution(one, workplace)):
        if wrong := wrong_name(place.name):
            raise PluginError("refused", f"{source.name}: {wrong}")
    if len(found) != 1 or not places:
        raise PluginError("refused", f"{source} has no entry point in the group iot_mqtt.codecs")
    if any("iot_mqtt" in place.tops or place.bundled for place in places):
        raise PluginError("refused", f"{source} brings modules of iot_mqtt's own name")
    known = stock.look().places
    for place in places:
        for other in known.get(place.name, {}).values():
            if not other.is_of(place.distribution):
                theirs = f"has a codec {place.name}, which is {other.distribution}'s"
                raise PluginError("refused", f"{source.name} is {place.distribution} and {theirs}")
    label = shelf.take_in(workplace, found[0])
    importlib.invalidate_caches()
    return sorted(place.name for place in places), label


def _arrived(shelf: Shelf, brought: tuple[list[str], str]) -> list[str]:
    names, label = brought
    for name in names:
        shelf.arrive(name, label)
    return names
