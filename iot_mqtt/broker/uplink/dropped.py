"""What retention has dropped from the log and is not lost yet, because memory or the sink still has it.

::

    dropped ──▶ in memory ──(handed over)──▶ with the sink ──▶ safe
                    │ no room                     │ fails
                    ▼                             ▼
                  lost                          lost
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from iot_mqtt.ports.log import LogRun


class Loss(NamedTuple):
    """Messages with consecutive positions."""

    begin: int
    end: int
    size: int


class Dropped:
    """Of one uplink."""

    def __init__(self) -> None:
        #: What the log does not have any more, or is about to drop: generations, and where each ends.
        self.generations: dict[int, int] = {}
        self._with_sink: list[Loss] = []

    def add(self, generation: int, end: int, kept: Container[int], in_memory: int) -> None:
        """A generation goes. Others that went before are forgotten if the log does not have them (``kept``), nor
        memory, which begins at ``in_memory``.
        """
        known = self.generations.items()
        self.generations = {one: its_end for one, its_end in known if one in kept or its_end > in_memory}
        self.generations[generation] = end

    def handed_over(self, run: LogRun) -> None:
        """The sink has it, and nobody else."""
        self._with_sink.append(Loss(run.position, run.end, len(run.run.wire)))

    def sort_out(self, runs: Iterable[Loss], safe: int, read: int) -> list[Loss]:
        """Of what was in the log: what is neither safe, up to there, nor read and so with the sink, is lost."""
        lost = []
        for one in runs:
            if one.begin >= read:
                lost.append(one)
            elif one.end > safe:
                self._with_sink.append(one)
        self._with_sink = [one for one in self._with_sink if one.end > safe]
        return lost

    def failed(self, safe: int) -> list[Loss]:
        """The sink has forgotten what is not before this position: lost."""
        lost, self._with_sink = [one for one in self._with_sink if one.end > safe], []
        return lost
