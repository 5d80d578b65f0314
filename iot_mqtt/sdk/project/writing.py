"""Writes the files of ``template/`` with the names put in. Nothing that exists is written over."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Final

_TEMPLATE: Final = Path(__file__).with_name("template")
_SUFFIX: Final = ".tmpl"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME: Final = 40


class BadName(Exception):
    """A plugin cannot be called so."""


class Exists(Exception):
    """There is something already."""


def write_project(name: str, folder: Path) -> list[Path]:
    """Write the project into a folder that is not there yet, or is empty; returns the files.

    Raises ``BadName``, ``Exists`` and ``OSError``.
    """
    words = _words(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Exists(f"{folder} exists already, and is not empty: name another directory with --dir")
    written = []
    for source in _sources():
        place = source.relative_to(_TEMPLATE)
        parts = [words["package"] if part == "package" else part for part in place.parts]
        target = folder.joinpath(*parts).with_name(parts[-1].removesuffix(_SUFFIX))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
        written.append(target)
    return written


def _sources() -> Iterator[Path]:
    return (path for path in sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")) if path.is_file())


def _words(name: str) -> dict[str, str]:
    """What is put into the templates. Raises ``BadName``."""
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise BadName(
            f"{name!r}: a plugin's name is lower-case words joined by hyphens, such as acme-meter, {_MAX_NAME} "
            "characters at most"
        )
    package = name.replace("-", "_")
    if keyword.iskeyword(package) or package in ("iot_mqtt", "test", "tests"):
        raise BadName(f"{name!r} cannot be a Python package's name: choose another one")
    words = name.split("-")
    return {
        "name": name,
        "package": package,
        "cls": "".join(word.capitalize() for word in words),
        "title": " ".join(word.capitalize() for word in words),
    }
