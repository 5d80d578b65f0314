"""Runs tests against copies of the tree that have one fault each.

A copy is made for each process, not for each fault: the faulty file is written, and what was there is put back. All of
it runs as Python (``IOT_MQTT_NATIVE=off``), because a fault in what is compiled would have to be compiled to be one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.mutants.mutation import Mutation

#: What the tests need of a tree. Everything else, such as ``.venv``, is used where it is.
PARTS: Final = ("iot_mqtt", "tests", "scripts", "spark", "docs", "web", "cluster", "pyproject.toml", "application.yaml")
_LEFT_OUT: Final = shutil.ignore_patterns("*.so", "__pycache__", "node_modules", "target", "static", "compiled.digests")
#: A fault may make a test wait for ever.
TEST_SECONDS: Final = 60
ALL_SECONDS: Final = 240
#: For the tests of all faults, without any of them.
SOUND_SECONDS: Final = 1200
_PASSED, _FAILED = 0, 1
_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Verdict(StrEnum):
    """What came of one."""

    FOUND = "found"
    SURVIVED = "survived"
    HARMLESS = "harmless"
    #: The tests did not run, or fail without the fault, too.
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Result:
    """Of one mutation."""

    mutation: Mutation
    verdict: Verdict
    seconds: float
    #: The first test that failed, or what went wrong.
    detail: str

    @property
    def good(self) -> bool:
        return self.verdict is (Verdict.HARMLESS if self.mutation.harmless else Verdict.FOUND)


class Tree:
    """A copy that faults are put into, one after the other."""

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder
        for part in PARTS:
            source = root / part
            if source.is_dir():
                shutil.copytree(source, folder / part, ignore=_LEFT_OUT)
            elif source.exists():
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder / part)

    def run(self, tests: Sequence[str], within: int = ALL_SECONDS) -> tuple[int, str]:
        """pytest's exit code, and the first test that failed or the end of what it said."""
        environment = {
            **os.environ,
            "IOT_MQTT_NATIVE": "off",
            "PYTHONPATH": str(self._folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            # A fault that one run in two finds is found by luck.
            "TEST_SEED": os.environ.get("TEST_SEED", "1"),
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, f"--timeout={TEST_SECONDS}", *tests],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=within,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _FAILED, "it never ends"
        failure = _FAILURE.search(done.stdout)
        return done.returncode, failure[1] if failure else (done.stdout + done.stderr)[-400:].strip()

    @contextmanager
    def faulty(self, mutation: Mutation) -> Iterator[None]:
        """The tree has the fault meanwhile."""
        path = self._folder / mutation.file
        before = path.read_text(encoding="utf-8")
        path.write_text(mutation.apply(before), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")

    def judge(self, mutation: Mutation) -> Result:
        """Whether its tests find it."""
        began = time.monotonic()
        with self.faulty(mutation):
            code, detail = self.run(mutation.tests)
        if code == _FAILED:
            verdict = Verdict.FOUND
        elif code == _PASSED:
            verdict, detail = (Verdict.HARMLESS if mutation.harmless else Verdict.SURVIVED), ""
        else:
            verdict = Verdict.BROKEN
        return Result(mutation, verdict, time.monotonic() - began, detail)


def try_all(mutations: Sequence[Mutation], root: Path, folder: Path, jobs: int) -> Iterator[Result]:
    """Judge them, so many at a time; the tests of all have to pass without a fault first."""
    trees: SimpleQueue[Tree] = SimpleQueue()
    for number in range(jobs):
        trees.put(Tree(root, folder / str(number)))

    def judge(mutation: Mutation) -> Result:
        tree = trees.get()
        try:
            return tree.judge(mutation)
        finally:
            trees.put(tree)

    tests = sorted({test for mutation in mutations for test in mutation.tests})
    shares = [tests[number::jobs] for number in range(jobs)]

    def passes(share: list[str]) -> tuple[int, str]:
        tree = trees.get()
        try:
            return tree.run(share, SOUND_SECONDS) if share else (_PASSED, "")
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for code, detail in pool.map(passes, shares):
            if code != _PASSED:
                yield from (Result(one, Verdict.BROKEN, 0.0, f"fails without a fault: {detail}") for one in mutations)
                return
        yield from pool.map(judge, mutations)
