"""Our broker and mosquitto, side by side, for many scripts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType

from tests.fuzz.differential.comparing import Verdict, compare, read_table
from tests.fuzz.differential.explaining import EXPLANATIONS
from tests.fuzz.differential.playing import Note, Player
from tests.fuzz.differential.script import Step
from tests.wire import brokers

#: Seconds between two looks: what differs when there is no time has to differ when there is some, and then much.
PAUSES = (0.002, 0.02, 0.15)


class Match:
    """Starts both; ``play`` as often as one likes. Each script has names of its own."""

    def __enter__(self) -> Match:
        self._started = ExitStack()
        self._brokers: list[brokers.Running] = []
        with ExitStack() as started:
            for name in ("iot-mqtt", "mosquitto"):
                self._brokers.append(broker := brokers.start(name, "default"))
                started.callback(broker.stop)
            self._started = started.pop_all()
        self._numbers = itertools.count()
        #: How many plays at each pace found something, and what the first ones were.
        self.again: Counter[float] = Counter()
        #: Scripts, and entries of the table that were needed.
        self.counts: Counter[str] = Counter()
        self._table = read_table(EXPLANATIONS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._started.close()

    def play(self, script: Sequence[Step]) -> Verdict:
        """Quickly at first; what differs then is played once more, with time for everything to arrive."""
        verdict = Verdict()
        for pause in PAUSES:
            verdict = compare(script, *self._notes(script, pause), self._table)
            if verdict.unexplained is None:
                break
            self.again[pause] += 1
        return verdict

    def _notes(self, script: Sequence[Step], pause: float) -> tuple[list[Note], list[Note]]:
        prefix = f"d{next(self._numbers)}"
        ours, theirs = (Player(one.host, one.port, prefix, pause).play(script) for one in self._brokers)
        return ours, theirs
