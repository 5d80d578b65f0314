"""What retention takes from a log is owed to sessions of all nodes: each node counts for its own before it is gone.

::

    who drops ─ "log.write_off" ─▶ every other member:  nothing more is read of the generation there; what each of its
        │                                 │              sessions loses is counted
        └── drops it ◀──── done ──────────┘

Who drops is the log's own node, or, when that is dead, who looks after its log. A member that does not answer in time
is not waited for: what its sessions lose is counted by nobody, and that is said (``Counters.readers_uncounted``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from iot_mqtt.broker.losses import Cause
from iot_mqtt.broker.readers.census import Census
from iot_mqtt.broker.readers.logs import Logs
from iot_mqtt.ports.counters import Counters, Drop
from iot_mqtt.ports.log import writer_of
from iot_mqtt.ports.questions import AskingLater

log = logging.getLogger(__name__)

#: Questions by these names. Before the first, the second says of a generation that an operator drops it: nodes of a
#: version that does not know it take its retention for the cause.
WRITE_OFF, ORDERED = "log.write_off", "log.drop_ordered"
#: Seconds for all members to count: each reads what its sessions want of one generation.
WITHIN = 30.0


class SharedLosses:
    """An ``upkeep.Follower``: all nodes that read the log, as one."""

    def __init__(
        self, asking: AskingLater, logs: Logs, census: Census, counters: Counters, note: Callable[[Cause], None]
    ) -> None:
        """``note``: told before and after losses here why there are more of them."""
        self._asking = asking
        self._logs = logs
        self._census = census
        self._counters = counters
        self._note = note
        #: Generations of other nodes that an operator drops.
        self._ordered: set[int] = set()
        asking.later[WRITE_OFF] = self._answer
        asking.later[ORDERED] = self._order

    async def write_off(self, generation: int, cause: Cause = Cause.RETENTION) -> None:
        """Have it counted everywhere, but for this node's readers of its own log."""
        body = generation.to_bytes(4, "big")
        await self._here(generation, cause)
        if cause is Cause.OPERATOR:
            await self._asking.ask_all(ORDERED, body, WITHIN)
        answers = await self._asking.ask_all(WRITE_OFF, body, WITHIN)
        for number, answer in sorted(answers.items()):
            if isinstance(answer, str):
                self._counters.readers_uncounted += 1
                log.warning(
                    "what sessions of a node (number %d) lose by retention is not counted: %s",
                    number,
                    answer,
                    extra={"generation": generation},
                )

    def go_on(self) -> None:
        """What is given up stays given up."""

    async def _answer(self, body: bytes) -> bytes:
        generation = int.from_bytes(body, "big")
        await self._here(generation, Cause.OPERATOR if generation in self._ordered else Cause.RETENTION)
        self._ordered.discard(generation)
        return b""

    async def _order(self, body: bytes) -> bytes:
        self._ordered.add(int.from_bytes(body, "big"))
        return b""

    async def _here(self, generation: int, cause: Cause) -> None:
        reader = self._logs.of(writer_of(generation))
        if reader is None:
            return
        self._note(Cause.RETENTION)
        before = self._counters.dropped[Drop.RETENTION]
        await self._census.write_off_elsewhere(reader, generation)
        self._note(cause)
        if lost := self._counters.dropped[Drop.RETENTION] - before:
            text = "sessions here have lost messages: a generation of another node's log is dropped"
            log.warning(text, extra={"generation": generation, "lost": lost})
