#!/usr/bin/env python3
"""Checks that the documentation points at things that exist: relative links, headings, make targets, file paths, tests.
Each line of what an acknowledgement means names a test, or says that there is none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)\s]+)\)")
TARGET = re.compile(r"`make ([a-z][a-z-]*)")
#: `folder/file.ext` in backticks, where the folder is one of ours.
PATH = re.compile(
    r"`((?:iot_mqtt|tests|docs|scripts|benchmarks|examples|changes|requirements)/[\w./-]+\.\w+)(?:::?\w+)?`"
)
#: `tests/folder/file.py::test_name` in backticks.
TEST = re.compile(r"`(tests/[\w./-]+\.py)::(\w+)`")
#: The page each of whose lines is shown by a test.
SHOWN = ROOT / "docs" / "acknowledgements.md"
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def documents() -> list[Path]:
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "changes" / "README.md"]
    return sorted(path for path in places if path.exists())


def anchors(path: Path) -> set[str]:
    """The names that headings get when they are rendered."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def bad_link(document: Path, link: str) -> str | None:
    """Why a link leads nowhere, or None."""
    name, _, anchor = link.partition("#")
    path = document.parent / name if name else document
    if not path.exists():
        return f"links to {name}, which does not exist"
    if anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"links to {link}, but there is no such heading"
    return None


def complaints(document: Path, targets: set[str]) -> Iterator[str]:
    text = document.read_text(encoding="utf-8")
    for match in LINK.finditer(text):
        problem = bad_link(document, match[1])
        if problem:
            yield problem
    for match in TARGET.finditer(text):
        if match[1] not in targets:
            yield f"speaks of `make {match[1]}`, which is no target"
    for match in PATH.finditer(text):
        if not (ROOT / match[1]).exists():
            yield f"speaks of {match[1]}, which does not exist"
    for path, name in TEST.findall(text):
        if not is_test(path, name):
            yield f"names {path}::{name}, which is no test"
    if document == SHOWN:
        yield from unproven(text)


def is_test(path: str, name: str) -> bool:
    """Whether a file has a function of that name."""
    file = ROOT / path
    return (
        file.exists()
        and re.search(rf"^ *(async )?def {name}\(", file.read_text(encoding="utf-8"), re.MULTILINE) is not None
    )


def unproven(text: str) -> Iterator[str]:
    """Lines of tables that name no test."""
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    for row in rows:
        last = row.rstrip(" |").rpartition(" | ")[2]
        if last != "shown by" and not TEST.search(last):
            yield f"has a line without a test: {row[:80]}"


def main() -> int:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    found = [f"{path.relative_to(ROOT)} {text}" for path in documents() for text in complaints(path, targets)]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
