"""Power cuts of a real broker at thousands of points; prints figures.

    python -m tests.powercut [--points 5000] [--brokers 100] [--seed N] [--seconds 4]

Two loads are recorded, each over five lives of a broker of which two end with SIGKILL: one in the default
configuration, one with small buffers on a disk whose times have steps of two seconds. Then the power goes at random
points, and what is left is started: the grid of all, the whole broker of some. Ends with 1 if anything is missing.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path
from random import Random, SystemRandom

sys.path.insert(0, str(Path(__file__).parents[1] / "system"))

from tests.powercut.campaign import cut, draw, in_memory, record


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--points", type=int, default=5000, help="where grids are started, over both loads")
    parser.add_argument("--brokers", type=int, default=100, help="where whole brokers are started, besides")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000_000))
    parser.add_argument("--seconds", type=float, default=4.0, help="load in each of five lives")
    options = parser.parse_args()
    print(f"seed {options.seed} (it gives the points; what is recorded is different each time)", flush=True)
    logging.disable(logging.WARNING)  # every other start finds a torn batch, and says so
    faults = 0
    with in_memory() as place:
        for number, (what, small) in enumerate((("default", False), ("small", True))):
            folder, dice = place / what, Random(options.seed + number)
            recording = record(folder, what, [options.seconds] * 5, dice, small=small, coarse=small)
            print(f"{what}: {len(recording.steps):,} steps, {len(recording.books.acked):,} acknowledged", flush=True)
            began = time.monotonic()
            points = draw(recording, options.points // 2, options.brokers // 2, dice)
            result = cut(recording, points, folder / "cut", dice)
            result.faults[:0] = recording.books.faults
            print(f"{what}: {result}, {time.monotonic() - began:.0f} s", flush=True)
            print(*result.faults[:20], sep="\n", flush=True)
            faults += len(result.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
