"""Run all tests in four processes side by side; say at the end what failed and why, and what came of all in one line.

Most tests wait: for servers to start, for clients to be idle, for a disk. The parts share nothing: each starts its own
servers, in its own temporary directories, at ports of its own range. What computes and hardly looks at a clock is in
two parts with less of the processors than the others, which get what they want first: they fill the gaps that are
left. Tests that compare times are marked ``alone``; they run when everything else is over.

Random cases are drawn from the sources (``seed_of_tree``), unless ``TEST_SEED`` says from what.

The native modules have to be there, because the tests of both twins are left out without them; that the broker does
without them is a test of its own. Where a part that was not narrowed down by arguments collects nothing, something is
wrong with it, and where no part does, with the arguments.

    python scripts/run_tests.py [arguments for all]
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import IO, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
#: A word of pytest's last line, such as "3 passed".
_COUNT: Final = re.compile(r"(\d+) ([a-z]+)")
_ORDER: Final = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning", "error")
#: pytest's exit code when there was nothing to run.
_NOTHING: Final = 5
#: Whose text the random cases of a run are drawn from.
SOURCES: Final = ("iot_mqtt", "tests")
#: Above each part of pytest's report: "==== FAILURES ====".
_PART: Final = re.compile(r"={3,} (.+?) ={3,}")
#: Above each failure's traceback: "____ test_name ____", "____ ERROR at setup of test_name ____".
_FAILURE: Final = re.compile(r"_{3,} (.+?) _{3,}")
#: What a failure is told in again: its first lines, each to this length.
_LINES_OF_A_FAILURE: Final = 4
_LONG: Final = 400


class Part(NamedTuple):
    """What one process runs."""

    name: str
    folders: tuple[str, ...]
    #: Brokers and proxies of its tests listen from here on (``tests.ports``).
    ports_from: int
    #: How far it stands back behind the others, as of nice(1).
    nice: int = 0


#: As long as each other, about.
PARTS: Final = (
    Part("servers", ("tests/contract", "tests/cluster"), 8_000),
    Part("brokers", ("tests/system",), 14_000),
    Part("code", ("tests/unit", "tests/fuzz"), 20_000, nice=5),
    Part("jobs", ("tests/java", "tests/spark", "tests/property", "tests/simulation", "tests/wire"), 26_000, nice=5),
)


def alone() -> Part:
    """What is run then, one test after the other: the files that have such tests, not to collect all again."""
    files = (file for part in PARTS for folder in part.folders for file in sorted((ROOT / folder).rglob("test_*.py")))
    marked = [file for file in files if "pytest.mark.alone" in file.read_text(encoding="utf-8")]
    return Part("alone", tuple(str(file.relative_to(ROOT)) for file in marked), 8_000)


def seed_of_tree(root: Path = ROOT) -> int:
    """The number that all random cases are made of: the same sources have the same ones, and every change has others.

    So a run that failed fails again, and a change that passed does not fail where it is merged.
    """
    told = hashlib.sha256()
    for file in sorted(file for folder in SOURCES for file in (root / folder).rglob("*.py")):
        told.update(f"{file.relative_to(root)}\0".encode())
        told.update(hashlib.sha256(file.read_bytes()).digest())
    return int.from_bytes(told.digest()[:8], "big") % 1_000_000_000


class Failures:
    """The gist of each failure in pytest's output: its test, what was raised, and where."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._left = 0
        self._failing = False

    def hear(self, line: str) -> None:
        """Whatever pytest prints, line by line."""
        if part := _PART.fullmatch(line):
            self._failing = part[1] in ("FAILURES", "ERRORS")
        elif self._failing and (begun := _FAILURE.fullmatch(line)):
            self._told.append(begun[1])
            self._left = _LINES_OF_A_FAILURE
        elif line.startswith(("FAILED ", "ERROR ")):
            self._told.append(line[:_LONG])
        elif line.startswith("E  ") and self._left:
            self._told.append("    " + line.removeprefix("E").strip()[:_LONG])
            self._left -= 1

    def gist(self) -> list[str]:
        return self._told


class Running:
    """One part under way; its lines appear as they come, with its name in front."""

    def __init__(self, part: Part, arguments: list[str], seed: str) -> None:
        self._part = part
        self._last = ""
        self.failures = Failures()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--durations=12", "--durations-min=5", *arguments, *part.folders],
            cwd=ROOT,
            env={
                **os.environ,
                "TEST_PORTS_FROM": str(part.ports_from),
                "TEST_SEED": seed,
                "PYTHONUNBUFFERED": "1",
                "IOT_MQTT_NATIVE": "require",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # An interrupt comes to this process, which passes it on once: a second would cut short how tests clean up.
            process_group=0,
        )
        # What it starts stands back as it does.
        os.setpriority(os.PRIO_PROCESS, self._process.pid, os.getpriority(os.PRIO_PROCESS, 0) + part.nice)
        assert self._process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            print(f"{self._part.name} │ {line}", end="", flush=True)
            self.failures.hear(line.rstrip())
            if line.strip():
                self._last = line

    def wait(self) -> int:
        """Its exit code, when all it had to say has been said."""
        code = self._process.wait()
        # What it has started and not ended may hold its output open.
        self._reading.join(timeout=5)
        return code

    def interrupt(self) -> None:
        """End it as Ctrl-C does, if it is there still: what its tests have started ends with them."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def counts(self) -> Counter[str]:
        return counts_of(self._last)


def counts_of(line: str) -> Counter[str]:
    """How many of each kind pytest's last line has."""
    found: Counter[str] = Counter()
    for number, kind in _COUNT.findall(line):
        if kind.rstrip("s") in _ORDER or kind in _ORDER:
            found[kind if kind in _ORDER else kind.rstrip("s")] += int(number)
    return found


def closing_line(counts: Counter[str], seconds: float) -> str:
    """As pytest has it, of all parts."""
    words = ", ".join(f"{counts[kind]} {kind}" for kind in _ORDER if counts[kind])
    return f" {words or 'no tests ran'} in {seconds:.0f}s ".center(80, "=")


def verdict(codes: list[int], *, narrowed: bool) -> int:
    """The worst exit code of all parts. A part may have nothing to run where arguments chose what others have."""
    if narrowed and any(code != _NOTHING for code in codes):
        codes = [code for code in codes if code != _NOTHING]
    return max(codes, key=abs)


def main(arguments: list[str]) -> int:
    """The worst exit code of all parts."""
    began = time.monotonic()
    # Also where a shell in the background has made it ignore interrupts, which its children would do, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    seed = os.environ.get("TEST_SEED") or str(seed_of_tree())
    running: list[Running] = []
    codes: list[int] = []
    try:
        for part in PARTS:
            running.append(Running(part, [*arguments, "-m", "not alone"], seed))
        codes = [one.wait() for one in running]
        running.append(Running(alone(), [*arguments, "-m", "alone"], seed))
        codes.append(running[-1].wait())
    except KeyboardInterrupt:
        for one in running:
            one.interrupt()
        codes = [one.wait() for one in running] or [1]
    for one in running:
        for line in one.failures.gist():
            print(line)
    print(closing_line(sum((one.counts() for one in running), Counter()), time.monotonic() - began))
    return verdict(codes, narrowed=bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
