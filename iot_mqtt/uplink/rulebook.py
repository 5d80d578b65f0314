"""The rules in force, and those before them for as long as something that was recorded under them waits.

Rules may change while messages wait in the log: by a reload, or between two lives of a node. What a message goes by was
settled when it was recorded, for that is when it was decided that it is kept for the platform and who else gets it. So
the history of the rules is kept beside the uplink's place, as *stretches* of the log:

    position   0 ············ 5033164800 ············ 5872025600 ············▶
    rules      the first      after a reload          in force

A stretch is written with the batch that has the first message of it, so no message is without its rules, whatever is
killed when. It is dropped when the sink has everything before the next one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.grid import CacheName, Grid, WriteBatch
from iot_mqtt.ports.log import LogRun
from iot_mqtt.ports.uplink import Mode, Record
from iot_mqtt.uplink.records import RulePlan
from iot_mqtt.uplink.rules import Rule, Rules, rule_of

log = logging.getLogger(__name__)

VERSION = 1
#: More changes than that are refused while the sink takes nothing.
MAX_STRETCHES = 64

Entry = Mapping[str, object]


class Stretch(NamedTuple):
    """Rules, and where what was recorded under them begins."""

    since: int
    plan: RulePlan


class Change(NamedTuple):
    """What a change of the rules came to."""

    added: list[Rule]
    removed: list[Rule]
    #: The same rules, but not all in the same order.
    reordered: bool

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.reordered)


class RuleBook:
    """``ports.uplink.Plan`` and a participant in commits. ``load`` it before anything is published."""

    def __init__(self, grid: Grid, writer: int, node: str, reserved: Collection[str] = ()) -> None:
        self._grid = grid
        self._key = b"uplink/%d/rules" % writer
        self._node = node
        self._reserved = frozenset(reserved)
        self._stretches: list[Stretch] = []
        self._changed = False
        #: How far the sink has everything; set by who has both.
        self.safe: Callable[[], int] = _nowhere
        #: Told of every change: what was found for topics before says no more whether they go up.
        self.changed: Callable[[], None] = _nothing

    async def load(self, rules: Sequence[Rule], end: int) -> None:
        """Begin with these rules at the log's ``end``, and with what is kept of those before them."""
        self._stretches = [
            # A log that has lost its end has nothing behind it that older rules were in force for.
            Stretch(min(since, end), self._plan_of(self._readable(entries, rules)))
            for since, entries in await self._kept()
        ]
        if not self._stretches:
            self._stretches = [Stretch(0, self._plan_of(rules))]
            self._changed = True
        elif self.rules.rules != tuple(rules):
            self._begin(rules, end)

    async def _kept(self) -> list[tuple[int, list[Entry]]]:
        record = await self._grid.get(CacheName.META, self._key)
        if record is None:
            return []
        try:
            fields = json.loads(record)
            version = fields["v"]
            if type(version) is int and version > VERSION:
                raise Unavailable(
                    f"the uplink's rules were kept by a later version (format {version}; this one reads 1)"
                )
            if version != VERSION:
                raise ValueError(f"version {version!r}")
            return [(int(one["since"]), list(one["rules"])) for one in fields["stretches"]]
        except (ValueError, TypeError, KeyError) as error:
            log.error("the uplink's earlier rules are unreadable; what waits goes by those in force: %s", error)
            return []

    def _readable(self, entries: Sequence[Entry], otherwise: Sequence[Rule]) -> Sequence[Rule]:
        try:
            return [rule_of(entry) for entry in entries]
        except (ValueError, TypeError, AttributeError) as error:
            log.error("earlier rules of the uplink are not of this version; the present ones stand in: %s", error)
            return otherwise

    def _plan_of(self, rules: Sequence[Rule]) -> RulePlan:
        return RulePlan(Rules(rules, self._reserved), self._node)

    # The store's batches.

    def contribute(self, batch: WriteBatch, ticket: int) -> None:
        """Keep the history, if it is another one."""
        if self._changed:
            self._changed = False
            stretches = [
                {"since": one.since, "rules": [rule.entry() for rule in one.plan.rules.rules]}
                for one in self._stretches
            ]
            batch.put(CacheName.META, self._key, json.dumps({"v": VERSION, "stretches": stretches}).encode())

    def committed(self, ticket: int) -> None:
        """Nothing waits for it here."""

    # The plan.

    @property
    def rules(self) -> Rules:
        """Those in force."""
        return self._stretches[-1].plan.rules

    @property
    def earlier(self) -> int:
        """How many sets of earlier rules something may still go by."""
        self._forget()
        return len(self._stretches) - 1

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What an operator has to know."""
        return tuple(Alarm(AlarmKind.OTHER, note) for note in self.rules.notes())

    @property
    def filters(self) -> list[str]:
        self._forget()
        if len(self._stretches) == 1:
            return self.rules.filters
        return list(dict.fromkeys(filter for one in self._stretches for filter in one.plan.filters))

    def _forget(self) -> None:
        """Drop rules that nothing goes by any more. The record shrinks with the next change."""
        while len(self._stretches) > 1 and self._stretches[1].since <= self.safe():
            del self._stretches[0]

    def mode(self, topic: bytes, qos: int) -> Mode | None:
        return self._stretches[-1].plan.mode(topic, qos)

    def goes_up(self, run: LogRun) -> bool:
        return self._at(run.position).goes_up(run)

    def records(self, run: LogRun, spool: str) -> list[Record]:
        return self._at(run.position).records(run, spool)

    def _at(self, position: int) -> RulePlan:
        """A run was recorded in one go, so one stretch has all of it."""
        stretches = self._stretches
        for stretch in reversed(stretches):
            if stretch.since <= position:
                return stretch.plan
        return stretches[0].plan

    # Changing them.

    def change(self, rules: Sequence[Rule], end: int) -> Change:
        """What is recorded from now on, at ``end`` of the log, goes by these. ``ValueError`` if that can't be. The
        caller sees to it that a batch is made.
        """
        before = self.rules.rules
        found = difference(before, rules)
        if found:
            self._forget()
            if len(self._stretches) >= MAX_STRETCHES and self._stretches[-1].since != end:
                raise ValueError(
                    f"messages wait that were recorded under {MAX_STRETCHES} different sets of rules; "
                    "let the sink take them first: iot-mqtt ctl uplink status"
                )
            self._begin(_with_figures(rules, before), end)
            self.changed()
        return found

    def _begin(self, rules: Sequence[Rule], end: int) -> None:
        while self._stretches and self._stretches[-1].since >= end:
            # Nothing was recorded under them.
            del self._stretches[-1]
        self._stretches.append(Stretch(end if self._stretches else 0, self._plan_of(rules)))
        self._changed = True


def difference(before: Sequence[Rule], after: Sequence[Rule]) -> Change:
    """What makes one list of rules another one."""
    old, new = list(before), list(after)
    added = [rule for rule in new if not _taken(rule, old)]
    removed = old
    kept_before = [rule for rule in before if rule in after]
    kept_after = [rule for rule in after if rule in before]
    return Change(added, removed, kept_before != kept_after)


def _taken(rule: Rule, rules: list[Rule]) -> bool:
    if rule in rules:
        rules.remove(rule)
        return True
    return False


def _with_figures(rules: Sequence[Rule], before: Sequence[Rule]) -> list[Rule]:
    """The same, with rules that stay as they were going on counting."""
    old, found = list(before), []
    for rule in rules:
        if rule in old:
            same = old.pop(old.index(rule))
            found.append(same)
        else:
            found.append(rule)
    return found


def _nothing() -> None:
    pass


def _nowhere() -> int:
    return 0
