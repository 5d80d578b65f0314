"""Everything that is tried at its full size, one after the other, and a page that says what came of it; takes hours.

    python -m tests.campaign [--share 1.0] [--only NAME ...] [--page docs/campaign.md]

Bounds are not doubled, as they are where other tests run beside them (``CLUSTER_PATIENCE=1``, ``TEST_AIR=2``), so
nothing else should run on the machine. ``--share`` makes searches so much smaller: a share of 0.01 shows that the
command works. What a part prints last goes into the page, with its exit code; of a part that was not run, what it came
to before stays there (it is kept beside the page, as JSON). Ends with 1 if one of them failed; the others run all the
same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "campaign.md"
#: Not doubled; what tests give on top of a broker's own times.
BOUNDS: Final = {"CLUSTER_PATIENCE": "1", "TEST_AIR": "2", "IOT_MQTT_NATIVE": "require", "TEST_FORKING": "off"}
#: Subscribers and messages a second that the cluster is meant for.
MEANT_FOR: Final = (("CLUSTER_SUBSCRIBERS", "300"), ("CLUSTER_RATE", "1500"))
#: Of what a part prints, the last lines go into the page.
LINES: Final = 4
LONG: Final = 200
#: To the test that runs the commands of all pages.
NOT_RUN: Final = "<!-- not run: what a program has printed -->"


class Part(NamedTuple):
    """One of them: a module, its arguments, and the one that its size is in."""

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    #: (option, full size); the option takes whole numbers.
    size: tuple[str, int] | None = None
    #: The same in the environment.
    sizes: tuple[tuple[str, int], ...] = ()
    #: What else is in the environment, whatever the share.
    always: tuple[tuple[str, str], ...] = ()

    def command(self, share: float) -> list[str]:
        sized = [] if self.size is None else [self.size[0], str(scaled(self.size[1], share))]
        return [sys.executable, "-m", self.module, *self.arguments, *sized]

    def environment(self, share: float) -> dict[str, str]:
        return BOUNDS | dict(self.always) | {name: str(scaled(full, share)) for name, full in self.sizes}

    def size_of(self, share: float) -> str:
        """In words."""
        sizes = [*((self.size,) if self.size else ()), *self.sizes]
        return ", ".join(f"{name.removeprefix('--')} {scaled(full, share):,}" for name, full in sizes) or "whole"


class Result(NamedTuple):
    """What came of it, where, and when."""

    name: str
    size: str
    code: int
    seconds: float
    said: Sequence[str]
    when: str
    commit: str
    machine: str


PARTS: Final = (
    Part("simulation", "tests.simulation", ("--keep-going",), ("--seeds", 20_000)),
    Part(
        "models",
        "pytest",
        ("-q", "tests/property/test_session_machine.py", "tests/property/test_group_machine.py", "--timeout=7200"),
        sizes=(("SESSION_STEPS", 2_000_000), ("GROUP_STEPS", 500_000)),
    ),
    Part("mutants", "tests.mutants", (), ("--sample", 1_000)),
    Part("powercut", "tests.powercut", (), ("--points", 20_000)),
    Part("fuzz", "tests.fuzz", (), ("--minutes", 120)),
    Part("abuse", "tests.abuse", ("--seconds", "10")),
    Part("full", "pytest", ("-q", "tests/cluster/test_full.py", "--timeout=3600"), sizes=(("FULL_FILLS", 10),)),
    Part(
        "rounds",
        "pytest",
        ("-q", "-s", "tests/cluster/test_nodes_rounds.py"),
        sizes=(("CLUSTER_ROUNDS", 60),),
        always=(*MEANT_FOR, ("CLUSTER_GRID", "disk")),
    ),
    Part(
        "splits",
        "pytest",
        ("-q", "-s", "tests/cluster/test_nodes_split.py"),
        sizes=(("CLUSTER_ROUNDS", 60),),
        always=MEANT_FOR,
    ),
    Part(
        "engines",
        "pytest",
        ("-q", "-s", "tests/cluster/test_engines_killed.py", "--timeout=7200"),
        sizes=(("CLUSTER_ROUNDS", 60),),
        always=(*MEANT_FOR, ("CLUSTER_IGNITES", "3")),
    ),
    Part(
        "drivers",
        "pytest",
        ("-q", "tests/spark", "tests/system/test_whole_way.py", "-k", "killed or ledger", "--timeout=7200"),
        sizes=(("SPARK_KILLS", 20), ("WAY_DRIVER_KILLS", 10)),
        always=(("WAY_READINGS", "200000"), ("WAY_RATE", "2000")),
    ),
    Part("system", "pytest", ("-q", "tests/system")),
    Part("cluster", "pytest", ("-q", "tests/cluster")),
)


def scaled(full: int, share: float) -> int:
    """One at least."""
    return max(1, round(full * share))


def attempt(part: Part, share: float) -> Result:
    """Run one; its words appear as they come."""
    when, began = datetime.now(UTC), time.monotonic()
    last: deque[str] = deque(maxlen=LINES)
    process = subprocess.Popen(
        part.command(share),
        cwd=ROOT,
        env={**os.environ, **part.environment(share)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{part.name} │ {line}", end="", flush=True)
        if line.strip():
            last.append(line.strip()[:LONG])
    code, seconds = process.wait(), round(time.monotonic() - began)
    return Result(
        part.name, part.size_of(share), code, seconds, list(last), f"{when:%Y-%m-%d %H:%M}", commit(), machine()
    )


def page(results: Sequence[Result]) -> str:
    """What is said of them."""
    lines = [
        "# The last campaign",
        "",
        "`make campaign` runs what is tried at its full size, for hours, and writes this page. CI runs the same at a",
        "size that it has time for.",
        "",
        "A part that was not run anew has what it came to before. "
        + ", ".join(f"`{name}={value}`" for name, value in BOUNDS.items() if name != "IOT_MQTT_NATIVE")
        + "; "
        + " and ".join(sorted({one.machine for one in results}))
        + ".",
        "",
        "| part | size | result | seconds | when (UTC) | commit |",
        "|---|---|---|---|---|---|",
    ]
    for one in results:
        came = "passed" if one.code == 0 else f"**failed** ({one.code})"
        lines.append(f"| {one.name} | {one.size} | {came} | {one.seconds:.0f} | {one.when} | `{one.commit}` |")
    for one in results:
        # One block for each, which no Markdown in what a program says can end.
        lines += ["", f"What `{one.name}` said last:", "", NOT_RUN, "", *(f"    {line}" for line in one.said)]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """What it ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    processors = f"{os.cpu_count()} processors ({platform.machine()})"
    return f"{processors}, {memory:.0f} GB, {platform.system()}, Python {platform.python_version()}"


def commit() -> str:
    """The commit, and whether there are changes on top of it."""
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--only", nargs="+", choices=[part.name for part in PARTS], help="these parts")
    parser.add_argument("--page", type=Path, default=PAGE, help="where to write what came of it")
    options = parser.parse_args()
    if options.share <= 0:
        parser.error("--share is more than 0")
    beside = options.page.with_suffix(".json")
    kept = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else []
    found = {result.name: result for result in (Result(**one) for one in kept)}
    code = 0
    for part in PARTS:
        if options.only is not None and part.name not in options.only:
            continue
        found[part.name] = result = attempt(part, options.share)
        code = code or int(result.code != 0)
        # After each: whoever stops it has what there is.
        results = [found[one.name] for one in PARTS if one.name in found]
        beside.write_text(json.dumps([one._asdict() for one in results], indent=1) + "\n", encoding="utf-8")
        options.page.write_text(page(results), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
