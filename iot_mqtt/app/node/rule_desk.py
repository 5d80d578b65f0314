"""``uplink.desk.UplinkDesk`` on a running node: its rules, its log, and its configuration read anew."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from iot_mqtt.app.config.checks import uplink_rule_problems
from iot_mqtt.app.config.errors import ConfigError
from iot_mqtt.app.config.reading import LoadedConfig
from iot_mqtt.broker.driving import breath
from iot_mqtt.broker.turn import Turn
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.log import Log, LogRun
from iot_mqtt.ports.status import UplinkInfo
from iot_mqtt.uplink.desk import ReloadInfo, RuleInfo, RulesInfo, RulesRefused, TrialInfo
from iot_mqtt.uplink.rulebook import RuleBook
from iot_mqtt.uplink.rules import Rule, rules_of
from iot_mqtt.uplink.trial import Trial, messages_of, written

logger = logging.getLogger(__name__)

#: The whole configuration once more, in the layers of the start. Raises ``ConfigError``, or ``Unavailable``.
Read = Callable[[], Awaitable[LoadedConfig]]
Entries = Sequence[Mapping[str, object]]

#: What one read of the log brings at most, about.
READ_MESSAGES = 1000
READ_BYTES = 512 * 1024
#: What a dry run looks through, and what it holds, at most.
MAX_SCANNED = 500_000
MAX_HELD_BYTES = 64 * 1024 * 1024
#: Messages that are tried without letting others have their turn.
TRIED_AT_ONCE = 100
#: Seconds of the log that are looked at first, and how much more each time that this is not enough.
FIRST_SPAN = 1.0
WIDER = 8


class Status(Protocol):
    """The uplink that goes by the rules."""

    def info(self) -> UplinkInfo: ...


class RuleDesk:
    """One per node with an uplink."""

    def __init__(
        self,
        book: RuleBook,
        uplink: Status,
        log: Log,
        turn: Turn,
        clock: Clock,
        read: Read | None,
        *,
        kind: str,
        reserved: Sequence[str],
    ) -> None:
        self._book = book
        self._uplink = uplink
        self._log = log
        self._turn = turn
        self._clock = clock
        self._read = read
        self._kind = kind
        self._reserved = reserved
        self._testing = False

    def rules(self) -> RulesInfo:
        rules = self._book.rules
        items = tuple(_info(number, rule) for number, rule in enumerate(rules.rules, start=1))
        return RulesInfo(items, self._book.earlier, len(rules.names), rules.names.turned_away)

    async def reload(self) -> ReloadInfo:
        if self._read is None:
            raise RulesRefused("this node was not started from a configuration that can be read again")
        try:
            loaded = await self._read()
        except ConfigError as error:
            raise RulesRefused(str(error)) from error
        return await self.use(loaded)

    async def use(self, loaded: LoadedConfig) -> ReloadInfo:
        """Go by the rules of this configuration from now on. Raises ``RulesRefused``."""
        told = loaded.config.uplink
        problems = [str(problem) for problem in uplink_rule_problems(loaded)]
        if problems:
            raise RulesRefused("\n".join(problems))
        try:
            change = self._book.change(rules_of(told.rules)[0], self._log.end)
        except ValueError as error:
            raise RulesRefused(str(error)) from error
        if change:
            # The history of the rules leaves with the batch that has the first message under the new ones.
            self._turn.reserve()
            await self._turn.settled()
            logger.info("the rules of the uplink were changed", extra={"rules": len(told.rules)})
        notes = [] if told.kind == self._kind else [f"uplink.kind is {self._kind} until the node is restarted"]
        if change:
            notes.append("what was recorded before goes by the rules that were in force then")
        return ReloadInfo(
            changed=bool(change),
            rules=len(self._book.rules.rules),
            added=tuple(map(written, change.added)),
            removed=tuple(map(written, change.removed)),
            reordered=change.reordered,
            waiting=self._uplink.info().lag_messages if self._book.earlier else 0,
            notes=tuple(notes),
        )

    async def test(self, rules: Entries | None, messages: int, minutes: float | None) -> TrialInfo:
        now = self._book.rules.rules
        then: Sequence[Rule] = now
        if rules is not None:
            then, wrong = rules_of(rules)
            if wrong:
                raise RulesRefused("\n".join(wrong))
        if self._testing:
            raise RulesRefused("another dry run is under way on this node; try again")
        self._testing = True
        try:
            return await self._try(Trial(then, now, self._reserved), messages, minutes)
        finally:
            self._testing = False

    async def _try(self, trial: Trial, messages: int, minutes: float | None) -> TrialInfo:
        span = None if minutes is None else minutes * 60
        call_soon = self._turn.call_soon
        found = await recent(self._log, self._clock.wall(), messages, span, lambda: breath(call_soon))
        tried, left = 0, messages
        skip = max(0, found.messages - messages)
        for run in found.runs:
            for message in messages_of(run):
                if skip:
                    skip -= 1
                    continue
                if not left:
                    break
                left -= 1
                trial.add(message)
                tried += 1
                if tried % TRIED_AT_ONCE == 0:
                    await breath(call_soon)
        notes = ["only what is in the log was tried: what a rule in force, a durable session or log.record has kept"]
        if not found.complete:
            notes.append("the log has more than a dry run looks through: these are not the very last messages")
        return trial.result(*notes)


class Recent(NamedTuple):
    """The end of a log, or of a part of it."""

    runs: Sequence[LogRun]
    #: In these runs; the first one may have more than was asked for.
    messages: int
    #: They are the last ones that there are.
    complete: bool


async def recent(
    log: Log, wall: float, messages: int, seconds: float | None, rest: Callable[[], Awaitable[None]]
) -> Recent:
    """The last so many messages, of the last so many ``seconds`` if given: looked for in spans that get wider."""
    span = FIRST_SPAN if seconds is None else min(FIRST_SPAN, seconds)
    scanned = 0
    while True:
        oldest = min((one.began_at for one in log.generations()), default=wall)
        runs, count, size, cut = deque[LogRun](), 0, 0, False
        position = await log.position_at(wall - span)
        while True:
            reading = await log.read(("#",), position, READ_MESSAGES, READ_BYTES, all_up=True)
            for run in reading.runs:
                runs.append(run)
                count += run.reference.length
                size += len(run.run.wire)
            scanned += sum(run.reference.length for run in reading.runs)
            while runs and (count - runs[0].reference.length >= messages or size > MAX_HELD_BYTES):
                gone, cut = runs.popleft(), True
                count -= gone.reference.length
                size -= len(gone.run.wire)
            if scanned >= MAX_SCANNED:
                return Recent(runs, count, reading.at_end)
            if reading.at_end or reading.position <= position:
                break
            position = reading.position
            await rest()
        if cut or count >= messages or wall - span <= oldest or (seconds is not None and span >= seconds):
            return Recent(runs, count, complete=True)
        span = span * WIDER if seconds is None else min(span * WIDER, seconds)


def _info(number: int, rule: Rule) -> RuleInfo:
    return made_of(RuleInfo, rule, rule.figures, number=number, mode=rule.mode.value)
