"""One fault: what is replaced by what in one file, and which tests must fail then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Stale(Exception):
    """The table does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A row of the table. ``tests`` are what pytest is given: the narrowest ones that a promise of ours needs."""

    name: str
    #: Below the root of the tree.
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    #: What a user would see of it.
    why: str
    #: Why nobody can tell it from what is right; then it must survive.
    harmless: str = ""

    def apply(self, source: str) -> str:
        """The file with the fault. Raises ``Stale``: what was to be replaced must be there once."""
        count = source.count(self.old)
        if count != 1:
            raise Stale(f"{self.name}: {self.file} has its old text {count} times")
        if self.old == self.new:
            raise Stale(f"{self.name}: it changes nothing")
        return source.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """Raise ``Stale`` unless it can be applied to this tree, and all its tests are there."""
        path = root / self.file
        if not path.is_file():
            raise Stale(f"{self.name}: there is no {self.file}")
        try:
            compile(self.apply(path.read_text(encoding="utf-8")), self.file, "exec")
        except SyntaxError as error:
            raise Stale(f"{self.name}: it is no Python: {error}") from None
        if not self.tests:
            raise Stale(f"{self.name}: no test is to find it")
        for test in self.tests:
            file, _, function = test.partition("::")
            there = root / file
            if not there.is_file():
                raise Stale(f"{self.name}: there is no {file}")
            name = function.rpartition("::")[2]
            text = there.read_text(encoding="utf-8")
            if name and f"def {name}(" not in text and f"{name} =" not in text and f"class {name}" not in text:
                raise Stale(f"{self.name}: {file} has no {name}")
