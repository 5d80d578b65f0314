"""What operators do with rules: see them, try them on traffic that was recorded, and change them. As values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Messages that a dry run tries if nothing is said, and at most.
TRIED = 1000
MAX_TRIED = 50_000
#: Messages that are shown of a rule, or of what no rule took.
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """One rule in force."""

    number: int
    filter: str
    gateway: str | None
    device: str | None
    codec: str | None
    when: str | None
    qos: int
    to: str
    mode: str
    key: str
    #: Messages that came to it, and those of them that it sent up, since it is in force.
    matched: int
    sent: int


@dataclass(frozen=True, slots=True)
class RulesInfo:
    """All of them."""

    items: tuple[RuleInfo, ...]
    #: Sets of earlier rules that messages still wait under.
    earlier: int
    #: Topics of the platform that templates have made, and records that went to a topic "other" instead.
    names: int
    turned_away: int


@dataclass(frozen=True, slots=True)
class ReloadInfo:
    """What a reload has changed."""

    changed: bool
    rules: int
    #: As they are written.
    added: tuple[str, ...]
    removed: tuple[str, ...]
    reordered: bool
    #: Messages that go by earlier rules, because they were recorded under them.
    waiting: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """A message, and where it would go."""

    topic: str
    client: str
    qos: int
    #: Cut.
    payload: str
    to: str
    key: str


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """What one rule would do."""

    number: int
    #: As it is written.
    rule: str
    matched: int
    sent: int
    #: Messages by topic of the platform; if there are many, the others together under "...".
    to: dict[str, int]
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Messages with another way than now."""

    now: str
    then: str
    messages: int
    example: Example


@dataclass(frozen=True, slots=True)
class TrialInfo:
    """What rules would do with traffic that was recorded."""

    messages: int
    #: When the first and the last of them came, in seconds since 1970.
    first_at: float | None
    last_at: float | None
    rules: tuple[RuleTrial, ...]
    #: Messages that would not go up.
    unmatched: int
    unmatched_examples: tuple[Example, ...]
    #: What would be different from now; None: it was not compared.
    changed: int | None
    differences: tuple[Difference, ...]
    #: Messages with the same way as now and another key.
    other_keys: int
    notes: tuple[str, ...]


class RulesRefused(Exception):
    """Rules cannot be used, and why; nothing was changed."""


class UplinkDesk(Protocol):
    """The rules of one node."""

    def rules(self) -> RulesInfo: ...

    async def reload(self) -> ReloadInfo:
        """Read ``uplink.rules`` from the configuration anew. Raises ``RulesRefused``."""
        ...

    async def test(
        self, rules: Sequence[Mapping[str, object]] | None, messages: int, minutes: float | None
    ) -> TrialInfo:
        """Try rules (None: those in force) on the last messages of the log. Raises ``RulesRefused``."""
        ...
