"""The shortest story of a seed that still fails: acts are left out as long as the same promise is broken.

Every act has dice of its own, so the others stay as they were. Blocks of acts are left out, from half of the story
down to one act, until nothing more can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.plan import Act

#: Runs a story of these acts; what is broken in it, or None.
Judge = Callable[[Sequence[Act]], "str | None"]
#: Runs at most: the shortest story so far is a good one, too.
ATTEMPTS = 600


def kind_of(failure: str) -> str:
    """The promise: what stands in front of the colon."""
    return failure.partition(":")[0]


def shrink(acts: Sequence[Act], failure: str, judge: Judge, attempts: int = ATTEMPTS) -> tuple[list[Act], str]:
    """The acts that are left, and what is broken by them."""
    kept, kind = list(acts), kind_of(failure)
    size = max(1, len(kept) // 2)
    while True:
        at, shorter = 0, False
        while at < len(kept):
            if not attempts:
                return kept, failure
            attempts -= 1
            fewer = kept[:at] + kept[at + size :]
            found = judge(fewer)
            if found is not None and kind_of(found) == kind:
                kept, failure, shorter = fewer, found, True
            else:
                at += size
        if size > 1:
            size = max(1, size // 2)
        elif not shorter:
            return kept, failure
