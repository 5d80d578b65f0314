"""The long search: coverage-guided, target after target, until the time is over.

    python -m tests.fuzz --minutes 60                  all targets, an hour in all
    python -m tests.fuzz --minutes 5 --only proxy      one of them
    python -m tests.fuzz --minutes 60 --keep           and put what it found into the corpus
    python -m tests.fuzz --try proxy 0950524f5859      one input, again

A fault is told with the command that repeats it, and the exit code is 1. What was found on the way stays in
``build/fuzz/<target>``, and the next search goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import subprocess
import sys
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.fuzz import corpus
from tests.fuzz.mutation import Mutator
from tests.fuzz.reach import smallest
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

ROOT: Final = Path(__file__).parents[2]
WORK: Final = ROOT / "build" / "fuzz"
#: Seconds that one input may take, and megabytes that a search may have, before that is a fault.
SECONDS, MEGABYTES = 10, 2048
_RUNS = re.compile(r"#(\d+)\s+(?:DONE|REDUCE|NEW|pulse|RELOAD|INITED)|stat::number_of_executed_units:\s*(\d+)")


def search(name: str, seconds: float) -> tuple[int, list[bytes]]:
    """One target for so long: how many inputs were tried, and those that found a fault."""
    return guided(name, seconds) if find_spec("atheris") else blind(TARGETS[name], seconds)


def blind(target: Target, seconds: float) -> tuple[int, list[bytes]]:
    """The same without coverage, where atheris is not to be had."""
    mutator = Mutator(random.Random(), corpus.beginnings(target), target.words, target.longest)
    tried, faults, end = 0, dict[str, bytes](), time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutator.next()
        tried += 1
        try:
            target.run(data)
        except Exception as error:
            place = repr((type(error), str(traceback.extract_tb(error.__traceback__)[-1])))
            if place not in faults:
                traceback.print_exc()
            faults.setdefault(place, data)
    return tried, list(faults.values())


def guided(name: str, seconds: float) -> tuple[int, list[bytes]]:
    """By atheris, in a process of its own, which ends with each fault and is started again."""
    target = TARGETS[name]
    folder, faults = WORK / name, WORK / f"{name}.faults"
    for each in (folder, faults):
        each.mkdir(parents=True, exist_ok=True)
    for data in corpus.beginnings(target):
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)
    dictionary = WORK / f"{name}.words"
    words = ["".join(f"\\x{byte:02x}" for byte in word) for word in target.words]
    dictionary.write_text("".join(f'"{word}"\n' for word in words))
    tried, end = 0, time.monotonic() + seconds
    before = {path.name for path in faults.iterdir()}
    while (left := int(end - time.monotonic())) > 0:
        done = subprocess.run(  # noqa: PLW1510 - its exit code says whether there was a fault
            [
                sys.executable,
                "-m",
                "tests.fuzz.guided",
                name,
                str(folder),
                f"-max_total_time={left}",
                f"-max_len={target.longest}",
                *([f"-dict={dictionary}"] if words else []),
                f"-artifact_prefix={faults}/",
                f"-timeout={SECONDS}",
                f"-rss_limit_mb={MEGABYTES}",
                "-print_final_stats=1",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            errors="replace",
        )
        found = _RUNS.findall(done.stderr)
        tried += max((int(one or other) for one, other in found), default=0)
        if done.returncode == 0:
            break
        print(done.stderr[-3000:] if not found else _gist(done.stderr), flush=True)
        if not found or len(list(faults.iterdir())) > 20:
            break
    return tried, [path.read_bytes() for path in sorted(faults.iterdir()) if path.name not in before]


def _gist(text: str) -> str:
    """The traceback of a failed search."""
    begin = text.find("=== Uncaught Python exception")
    return text[begin : begin + 2500] if begin >= 0 else text[-1500:]


def keep(name: str) -> None:
    """The smallest inputs that reach together what all that were found reach, into the corpus."""
    target = TARGETS[name]
    faults = [(data, said) for data, said in corpus.rows(name) if said]
    there = (WORK / name).iterdir() if (WORK / name).exists() else ()
    found = {path.read_bytes() for path in there} | set(corpus.kept(name))
    chosen = smallest(target, found, base=[data for data, _ in faults] + list(target.seeds()))
    corpus.write(name, [*faults, *((data, "") for data in chosen)])
    print(f"{name}: {len(chosen)} inputs of {len(found)} kept")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Coverage-guided search for faults.")
    parser.add_argument("--minutes", type=float, default=30.0, help="of all targets together")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), metavar="TARGET", help="; ".join(TARGETS))
    parser.add_argument("--keep", action="store_true", help="put what was found into the corpus")
    parser.add_argument("--try", nargs=2, metavar=("TARGET", "HEX"), dest="case", help="run one input")
    told = parser.parse_args()
    if told.case:
        TARGETS[told.case[0]].run(bytes.fromhex(told.case[1]))
        print("nothing is wrong with that")
        return 0
    names = told.only or list(TARGETS)
    failed, all_tried = 0, 0
    for name in names:
        tried, faults = search(name, told.minutes * 60 / len(names))
        all_tried += tried
        print(f"{name}: {tried} inputs, {len(faults)} faults", flush=True)
        for data in faults:
            print(f"    python -m tests.fuzz --try {name} {data.hex()}")
        failed += len(faults)
        if told.keep:
            keep(name)
    print(f"{all_tried} inputs, {failed} faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
