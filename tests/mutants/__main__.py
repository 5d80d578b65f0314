"""Put faults into the core, one at a time, and see that tests find them; ends with 1 if one is not found.

    python -m tests.mutants [NAME ...] [--sample 10] [--seed N] [--jobs 2]

``NAME`` chooses those that begin with it. With ``--sample``, so many are drawn by the seed, another one each day.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from tests.mutants.mutation import Stale
from tests.mutants.running import Verdict, try_all
from tests.mutants.table import MUTATIONS

ROOT: Final = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="those that begin with it")
    parser.add_argument("--sample", type=int, help="try only so many")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86_400), help="what a sample is drawn by")
    parser.add_argument("--jobs", type=int, default=2, help="so many at a time")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if not options.names or one.name.startswith(tuple(options.names))]
    if options.sample is not None:
        chosen = Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
        print(f"seed {options.seed}")
    try:
        for mutation in chosen:
            mutation.check(ROOT)
    except Stale as error:
        print(error)
        return 1
    began, verdicts, bad = time.monotonic(), Counter[Verdict](), 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for result in try_all(chosen, ROOT, Path(folder), options.jobs):
            verdicts[result.verdict] += 1
            bad += not result.good
            said = result.mutation.harmless or result.detail
            print(f"{result.verdict:8} {result.mutation.name:44} {result.seconds:5.1f} s  {said}", flush=True)
    figures = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())) or "none"
    print(f"{len(chosen)} of {len(MUTATIONS)} mutations: {figures}; {time.monotonic() - began:.0f} s")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
