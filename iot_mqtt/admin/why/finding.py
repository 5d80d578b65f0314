"""One answer to the question why: what is the matter, since when, on which node, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

#: Seconds for which what was dropped or refused counts as going on.
FRESH: Final = 3600.0


class Weight(IntEnum):
    """How much of what the client misses a finding explains."""

    #: Nothing reaches the client: it is not let in, or nothing is sent to it.
    STOPS = 100
    #: Some messages did not, or do not, reach it.
    LOSES = 80
    #: It is late, or may be.
    DELAYS = 60
    #: It was so, and is over as far as can be seen.
    WAS = 40
    #: How things are.
    SAYS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """The first one that is listed is the likeliest cause."""

    #: For programs; it stays what it is.
    code: str
    weight: int
    #: For people: with the topic, the user, the address, the rule that it is about.
    text: str
    #: Wall-clock seconds; None: nobody knows.
    since: float | None
    node: str
    #: A command, or a key of the configuration; None: nothing that an operator could do here.
    helps: str | None = None


def ordered(findings: list[Finding]) -> list[Finding]:
    """By weight; of the same weight the last one first."""
    return sorted(findings, key=lambda one: (-one.weight, -(one.since or 0.0)))
