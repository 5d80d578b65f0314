#!/usr/bin/env python3
"""Change fragments: ``check`` holds each against the rules of changes/README.md, ``assemble VERSION`` releases them."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "changes"
CHANGELOG = ROOT / "CHANGELOG.md"
#: The changelog's headings, in its order. ``misc`` is for what users cannot see and may be empty.
HEADINGS = {
    "removal": "Removed",
    "feature": "New",
    "perf": "Faster",
    "fix": "Fixed",
    "doc": "Documentation",
    "misc": None,
}
NAME = re.compile(rf"(?P<id>\d+|\+[a-z0-9-]+)\.(?P<type>{'|'.join(HEADINGS)})\.md")
MARK = "<!-- releases -->\n"


def fragments() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.name != "README.md" and not path.name.startswith("."))


def problems(path: Path) -> list[str]:
    """What is wrong with one fragment, each as a sentence."""
    name = NAME.fullmatch(path.name)
    if name is None:
        return [f"is not named <id>.<{'|'.join(HEADINGS)}>.md"]
    text = path.read_text(encoding="utf-8").strip()
    if not text:
        return [] if name["type"] == "misc" else ["is empty; it should tell the user what changed"]
    found = []
    if not (text[0].isupper() or text[0] in "`*"):
        found.append("does not begin like a sentence")
    if text[-1] not in ".!?`)" and not text.endswith("```"):
        found.append("does not end like a sentence")
    if re.search(r"^#", text, re.MULTILINE):
        found.append("has a heading; its type is its heading")
    return found


def check() -> int:
    """Print every problem; 1 if there is one."""
    complaints = [f"changes/{path.name} {problem}" for path in fragments() for problem in problems(path)]
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return bool(complaints)


def section(version: str, day: datetime.date, paths: list[Path]) -> str:
    """The changelog's section for a release."""
    parts = [f"## {version} ({day.isoformat()})\n"]
    for kind, heading in HEADINGS.items():
        texts = [path.read_text(encoding="utf-8").strip() for path in paths if path.name.endswith(f".{kind}.md")]
        if heading and texts:
            bullets = ["- " + text.replace("\n", "\n  ") for text in texts]
            parts.append(f"### {heading}\n\n" + "\n".join(bullets) + "\n")
    return "\n".join(parts)


def assemble(version: str) -> int:
    """Move all fragments into CHANGELOG.md."""
    if check():
        return 1
    paths = fragments()
    before, mark, after = CHANGELOG.read_text(encoding="utf-8").partition(MARK)
    if not mark:
        print(f"CHANGELOG.md has lost its line {MARK.strip()}")
        return 1
    today = datetime.datetime.now(tz=datetime.UTC).date()
    CHANGELOG.write_text(f"{before}{mark}\n{section(version, today, paths)}{after}", encoding="utf-8")
    for path in paths:
        path.unlink()
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["check"]:
            return check()
        case ["assemble", version]:
            return assemble(version)
    print("usage: changes.py check | assemble VERSION")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
