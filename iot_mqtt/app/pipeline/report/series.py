"""What is drawn of one tag: how values went in each stretch of time, and where there are none.

A stretch (bucket) keeps its first, last, least and greatest value with the times of the first and last, so that a spike
of one reading among a million is on the chart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

#: A silence so many times the usual time between two readings is a gap.
GAP_FACTOR = 4.0


class Bucket(NamedTuple):
    """The readings of one stretch; times in ms."""

    begin: int
    end: int
    number: int
    low: float
    high: float
    first: float
    last: float


class Gap(NamedTuple):
    """Nothing came from ``begin`` to ``end``."""

    begin: int
    end: int


def usual_interval(buckets: Sequence[Bucket]) -> float | None:
    """The ordinary time between two readings, in ms; None if that cannot be known of so few."""
    within = [(one.end - one.begin) / (one.number - 1) for one in buckets if one.number > 1]
    between = [float(after.begin - before.end) for before, after in pairwise(buckets)]
    # Where most stretches have one reading, the time between two of them is between the stretches.
    known = within if len(within) * 2 > len(buckets) else within + between
    return median(known) if len(known) > 1 else None


def gaps_of(buckets: Sequence[Bucket], width: int, end: int) -> list[Gap]:
    """Where nothing came for far longer than usual, up to ``end``.

    What is shorter than a stretch of ``width`` ms cannot be seen.
    """
    usual = usual_interval(buckets)
    if usual is None:
        return []
    least = max(GAP_FACTOR * usual, 1.5 * width)
    silences = [Gap(before.end, after.begin) for before, after in pairwise(buckets)]
    silences.append(Gap(buckets[-1].end, end))
    return [gap for gap in silences if gap.end - gap.begin > least]


def drawn(buckets: Sequence[Bucket], gaps: Sequence[Gap]) -> list[list[Bucket]]:
    """The runs that a line may connect."""
    ends = {gap.begin for gap in gaps}
    runs: list[list[Bucket]] = [[]]
    for one in buckets:
        runs[-1].append(one)
        if one.end in ends:
            runs.append([])
    return [run for run in runs if run]
