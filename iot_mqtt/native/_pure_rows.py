"""The pure-Python twin of ``_rows.pyx``: what runs of the log that stand in a row have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: QoS 1, not retained; a repetition or not.
_HEADS = (0x32, 0x3A)


class RowReader:
    """Looks at runs as the log has them: ``logged`` and ``run`` are their classes, with slots."""

    def __init__(self, logged: type[Any], run: type[Any]) -> None:
        pass

    def survey(
        self, runs: Sequence[Any], start: int, stop: int, room: int, budget: int
    ) -> tuple[int, int, int, dict[bytes, int]]:
        """How far those from ``start`` on go that are of QoS 1, not retained, of one version and without properties;
        how many messages that is, the size of the largest packet, and the first run of each topic. It stops before
        there are more messages than ``room``, and behind the run that makes it ``budget`` bytes.
        """
        at, messages, size, longest, five = start, 0, 0, 0, None
        topics: dict[bytes, int] = {}
        while at < stop and size < budget:
            run, topic = runs[at].run, runs[at].topic
            five = run.five if five is None else five
            if run.head not in _HEADS or run.raw_properties or run.five is not five or messages + run.count > room:
                break
            messages += run.count
            size += len(run.wire)
            longest = max(longest, run.longest)
            topics.setdefault(topic, at)
            at += 1
        return at, messages, longest, topics

    def column(
        self, turns: dict[int, tuple[dict[Any, list[Any]], int]], stream: Any, numbers: Sequence[int]
    ) -> tuple[int, int, list[Any]]:
        """What a stream has in turns of these numbers, as far as they are there: the place of the first one that has
        something of it, that of the next one that has not, and the runs of those in between.
        """
        begin, found = len(numbers), []
        for at, number in enumerate(numbers):
            turn = turns.get(number)
            runs = None if turn is None else turn[0].get(stream)
            if runs is not None:
                begin = min(begin, at)
                found += runs
            elif begin < at:
                return begin, at, found
        return begin, len(numbers), found

    def described(self, written: dict[Any, list[Any]]) -> list[Any]:
        """Of what streams have in a turn: the runs with properties."""
        return [run for runs in written.values() for logged in runs if (run := logged.run).raw_properties]

    def outline(self, runs: Sequence[Any]) -> tuple[list[bytes], list[int]]:
        """Of runs that are in no log yet: the topic of each, and how many messages it is."""
        return [run.topic for run in runs], [run.count for run in runs]

    def sizes(self, runs: Sequence[Any]) -> tuple[int, int]:
        """How many messages they are, and bytes."""
        return sum([run.count for run in runs]), sum([len(run.wire) for run in runs])

    def totals(self, runs: Sequence[Any]) -> tuple[int, int]:
        """As ``sizes``, of runs that the log has."""
        return sum([one.run.count for one in runs]), sum([len(one.run.wire) for one in runs])
