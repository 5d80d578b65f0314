"""Which form of the modules in ``compiled.txt`` is imported: what mypyc made of them, or the Python that stands there.

All of them or none: compiled classes know the inside of one another. Python it is where nothing was compiled, where
``IOT_MQTT_NATIVE=off`` asks for it, and where a source is no longer what was compiled, so that an edit is never without
effect. Imports nothing of ours: the build runs this file by itself.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import source_hash, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

#: The environment says whether anything compiled is used (see ``native``).
SWITCH: Final = "IOT_MQTT_NATIVE"
#: The library that all of them are in; beside each module lies a small one that leads there.
LIBRARY: Final = "hot"
LIST: Final = "compiled.txt"
#: Written by the build: a line for each file that went in, with its digest, and the module's name if it was compiled.
DIGESTS: Final = "compiled.digests"


class Choice:
    """A finder in front of the others, which finds the Python of listed modules if that is what is to run."""

    def __init__(self, package: Path, *, off: bool) -> None:
        self._package = package
        self._lines = [line.split() for line in _read(package / DIGESTS).decode().splitlines()]
        # Also where nothing is compiled yet: what a build leaves while this process runs is not for it.
        self._modules = {words[2]: words[0] for words in self._lines if len(words) > 2} or _named(package)
        self._off = off
        self._use: bool | None = None

    @property
    def use(self) -> bool:
        """Whether what was compiled is imported. Looked at once, when it matters first."""
        if self._use is None:
            self._use = not self._off and bool(self._lines) and self._fresh()
        return self._use

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._modules or self.use:
            return None
        return spec_from_file_location(name, self._package.parent / self._modules[name])

    def _fresh(self) -> bool:
        library = self._package / f"{LIBRARY}__mypyc{EXTENSION_SUFFIXES[0]}"
        return library.exists() and all(
            digest(_read(self._package.parent / words[0])) == words[1] for words in self._lines
        )


def listed(package: Path) -> list[Path]:
    """The files that are to be compiled."""
    lines = _read(package / LIST).decode().splitlines()
    return [package.parent / line.split()[0] for line in lines if line and not line.startswith("#")]


def forget(package: Path) -> None:
    """Remove what was built before."""
    (package / DIGESTS).unlink(missing_ok=True)
    for library in package.rglob("*.so"):
        if library.parent.name != "native":
            library.unlink()


def noted(package: Path, sources: Sequence[Path]) -> str:
    """What ``DIGESTS`` is to say: what is compiled, and the files whose constants are compiled into it."""
    root = package.parent
    names = {source: _module(root, source) for source in sources}
    others = {other for source in sources for other in _imported(root, source)} - set(sources)
    lines = [f"{source.relative_to(root)} {digest(source.read_bytes())} {name}\n" for source, name in names.items()]
    lines += [f"{other.relative_to(root)} {digest(other.read_bytes())}\n" for other in sorted(others)]
    return "".join(lines)


def digest(source: bytes) -> str:
    """What Python itself takes to tell whether bytecode is up to date."""
    return source_hash(source).hex()


def _module(root: Path, source: Path) -> str:
    return ".".join(source.relative_to(root).with_suffix("").parts)


def _named(package: Path) -> dict[str, str]:
    root = package.parent
    return {_module(root, source): str(source.relative_to(root)) for source in listed(package)}


def _imported(root: Path, source: Path) -> Iterable[Path]:
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iot_mqtt."):
            path = root.joinpath(*(node.module or "").split("."))
            yield path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


#: That of this process.
CHOICE: Final = Choice(Path(__file__).parent, off=os.environ.get(SWITCH) == "off")


def install() -> None:
    """Let it decide, from the first import of ours on."""
    sys.meta_path.insert(0, CHOICE)
