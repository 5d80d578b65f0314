r"""The corpus: for each target a file of inputs that are worth keeping, one a line, as text where that is readable.

    # what was wrong with the next one, if anything was
    "text with \\x00 and other escapes"

It is made by the coverage-guided search (``python -m tests.fuzz --keep``): the smallest inputs that reach together what
all inputs reach. What once was a fault is kept whatever it reaches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz.target import Target

FOLDER: Final = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    """The inputs of a target's file."""
    return [data for data, _ in rows(name)]


def rows(name: str) -> list[tuple[bytes, str]]:
    """The same, with what is said of each; what is said of one was a fault."""
    path = FOLDER / f"{name}.txt"
    found: list[tuple[bytes, str]] = []
    said: list[str] = []
    for line in path.read_text(encoding="ascii").splitlines() if path.exists() else ():
        if line.startswith("#"):
            said.append(line[1:].strip())
        elif line:
            found.append((ast.literal_eval("b" + line), " ".join(said)))
            said = []
    return found


def write(name: str, told: Iterable[tuple[bytes, str]]) -> None:
    """Replace a target's file."""
    FOLDER.mkdir(exist_ok=True)
    lines: list[str] = []
    for data, said in told:
        lines += [f"# {said}"] if said else []
        lines.append(repr(data)[1:])
    if lines:
        (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")


def beginnings(target: Target) -> list[bytes]:
    """Where a search begins."""
    return list(dict.fromkeys(data[: target.longest] for data in (*target.seeds(), *kept(target.name))))
