"""Reading: from the index of full blocks or from memory, pages of the wanted streams, in the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from operator import attrgetter
from typing import Protocol

from iot_mqtt.grid.log.catalogue import Catalogue
from iot_mqtt.grid.log.generation import Stream
from iot_mqtt.grid.log.index import BlockIndex
from iot_mqtt.grid.log.keys import turn_of
from iot_mqtt.grid.log.pages import Pages, Place
from iot_mqtt.grid.log.plan import Column, Plan
from iot_mqtt.grid.log.recent import Recent
from iot_mqtt.grid.log.selection import Selection
from iot_mqtt.ports.log import TURN_BITS, LogRun, Reading, Reference, totals

#: Pages of one request to the grid, at most; a single turn may have more.
MAX_PAGES = 256

_position = attrgetter("reference.position")


class Head(Protocol):
    """Where a log ends for its readers."""

    @property
    def end(self) -> int:
        """Behind everything that can be read now."""
        ...

    @property
    def turn(self) -> int:
        """The turn that gathers; nothing is known of any behind it."""
        ...


class Reader:
    """Reads what was written, committed or not. Holds no reader's state."""

    def __init__(self, catalogue: Catalogue, recent: Recent, index: BlockIndex, pages: Pages, head: Head) -> None:
        self._catalogue = catalogue
        self._recent = recent
        self._index = index
        self._pages = pages
        self._head = head

    async def read(self, selection: Selection, position: int, messages: int, budget: int) -> Reading:
        """See the port."""
        found: list[LogRun] = []
        # How many times the pages that should do are read at once: pages may hold little of what is wanted.
        reach = 1
        while True:
            turn = turn_of(position)
            if turn < self._recent.first_turn:
                plan, behind = await self._index.plan(selection, turn, self._recent.first_turn)
            else:
                plan, behind = self._recent.plan(selection, turn), 0
                if not plan:
                    return Reading(found, max(position, self._head.end), at_end=True)
            rows = self._some(plan, messages * reach, budget * reach)
            runs = await self._runs(rows, selection, position)
            whole = totals(runs)
            if runs and whole[0] < messages and whole[1] < budget:
                found += runs
                position, messages, budget, runs = runs[-1].end, messages - whole[0], budget - whole[1], []
            for number, run in enumerate(runs, 1):
                found.append(run)
                _, _, position, length = run.reference
                position += length
                messages -= length
                budget -= len(run.run.wire)
                if number < len(runs) and (messages <= 0 or budget <= 0):
                    return Reading(found, position, at_end=False)
            if rows and rows[-1][0] == self._head.turn:
                # It stood alone and was in memory, so nothing was waited for meanwhile.
                return Reading(found, self._head.end, at_end=True)
            following = behind if behind and len(rows) == len(plan) else rows[-1][0] + 1
            position = max(position, following << TURN_BITS)
            reach = min(2 * reach, MAX_PAGES)
            if messages <= 0 or budget <= 0:
                at_end = following >= self._recent.first_turn and not self._recent.plan(selection, following)
                return Reading(found, position, at_end)

    def _some(self, plan: Plan, messages: int, budget: int) -> Plan:
        """The first turns of a plan that should do, as far as the size of earlier pages tells.

        The turn that gathers stands alone: only then is it read at one moment.
        """
        if isinstance(plan, Column):
            return plan[: _pages_for(plan.stream, messages, budget)]
        pages = 0
        for count, (turn, streams) in enumerate(plan):
            pages += len(streams)
            for stream in streams:
                messages -= stream.messages // (stream.pages or 1)
                budget -= stream.bytes // (stream.pages or 1)
            if count and (turn == self._head.turn or pages > MAX_PAGES):
                return plan[:count]
            if messages <= 0 or budget <= 0:
                return plan[: count + 1]
        return plan

    async def _runs(self, rows: Plan, selection: Selection, position: int) -> list[LogRun]:
        """What of these pages is wanted, in order, the first one cut at the position."""
        matches = selection.matches
        if isinstance(rows, Column):
            found = await self._pages.column(rows.stream, rows.turns, selection.wanted)
            if not all(map(matches, {run.topic for run in found})):
                found = [run for run in found if matches(run.topic)]
        else:
            found = []
            places = [(stream, turn) for turn, streams in rows for stream in streams]
            loaded = await self._pages.load(places, selection.wanted)
            for turn, streams in rows:
                runs = [run for stream in streams for run in loaded[stream, turn] if matches(run.topic)]
                if len(runs) > 1 and len(streams) > 1:
                    runs.sort(key=_position)
                found += runs
        if not selection.all_up:
            found = [run for run in found if not run.origin.only_up]
        if rows and rows[0][0] << TURN_BITS < position:
            before = list(takewhile(lambda run: run.position < position, found))
            found[: len(before)] = [run.behind(position) for run in before if run.end > position]
        return found

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]:
        """See the port."""
        places: dict[Reference, Place] = {}
        for reference in references:
            stream = await self._catalogue.find(reference)
            if stream is not None:
                places[reference] = stream, turn_of(reference.position)
        loaded = await self._pages.load(list(dict.fromkeys(places.values())))
        return [_cut(loaded[places[reference]], reference) if reference in places else None for reference in references]


def _pages_for(stream: Stream, messages: int, budget: int) -> int:
    """How many pages of a stream should do, as far as the size of earlier ones tells."""
    pages = stream.pages or 1
    each, size = stream.messages // pages, stream.bytes // pages
    enough = min(-(-messages // each) if each else MAX_PAGES, -(-budget // size) if size else MAX_PAGES)
    return max(1, min(enough, MAX_PAGES))


def _cut(runs: Sequence[LogRun], reference: Reference) -> LogRun | None:
    position, end = reference.position, reference.position + reference.length
    for run in runs:
        if run.position <= position < run.end:
            if run.position == position and run.end == end:
                return run
            start = position - run.position
            stop = min(end, run.end) - run.position
            part = run.run.part(start, stop)
            return LogRun(run.reference.part(start, stop), part, run.topic, run.publisher, run.arrived, run.origin)
    return None
