"""``python -m tests.simulation --seeds 1000``, and ``--seed 17 --trace`` to see one of them."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import traceback
from collections import Counter

from tests.simulation.plants import planted
from tests.simulation.story import STEPS, Story


def main() -> int:
    """Run seeds until one fails; says how to see it again."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--also", type=int, nargs="*", default=[], help="these before them")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--steps", type=int, default=STEPS, help="length of the storm")
    parser.add_argument("--trace", action="store_true", help="print all that happens")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--plant", choices=("acknowledge-early",), help="put a bug in; it has to be found")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO if options.trace else logging.CRITICAL, stream=sys.stdout, format="           %(message)s"
    )
    many = [*options.also, *range(options.first, options.first + options.seeds)]
    seeds = many if options.seed is None else [options.seed]
    begun = time.monotonic()
    failed = 0
    figures: Counter[str] = Counter()
    with planted(options.plant):
        for seed in seeds:
            story = Story(seed, print if options.trace else None, options.steps)
            try:
                story.run()
            except Exception as error:
                failed += 1
                print(f"seed {seed}: {type(error).__name__}: {error}")
                if options.seed is not None and not isinstance(error, AssertionError):
                    traceback.print_exc(file=sys.stdout)
                again = " ".join(
                    filter(
                        None,
                        (
                            options.plant and f"--plant {options.plant}",
                            options.steps != STEPS and f"--steps {options.steps}",
                        ),
                    )
                )
                print(f"  python -m tests.simulation --seed {seed} --trace {again}".rstrip())
                if not options.keep_going:
                    break
            figures.update(story.figures())
    seconds = time.monotonic() - begun
    print(", ".join(f"{count} {name}" for name, count in sorted(figures.items())))
    print(f"{failed} failed; {seconds:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of what happens.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
