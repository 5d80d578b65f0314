"""Two notes of the same script: equal, different for a reason that the table has, or different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.fuzz.differential.playing import Event, Note
from tests.fuzz.differential.script import Connect, Leave, Step, Subscribe, Wrong
from tests.wire.packets import V5

TABLE: Final = Path(__file__).parent / "differences.yaml"
#: Places in a PUBLISH.
TOPIC, PAYLOAD, QOS, RETAIN, DUP, IDS, ABOUT = range(1, 8)


@dataclass
class Course:
    """What is known of a script so far."""

    script: Sequence[Step]
    place: int = 0
    #: Payloads that only one broker has: what they lead to says nothing.
    apart: set[str] = field(default_factory=set)
    #: Topics under which they retain different messages.
    topics: set[str] = field(default_factory=set)
    #: From here on the brokers are in different states, for a reason that is explained.
    over: bool = False

    @property
    def step(self) -> Step:
        return self.script[self.place]

    def version_of(self, who: str) -> int:
        connects = [s for s in self.script[: self.place + 1] if isinstance(s, Connect) and s.who == who]
        return connects[-1].version if connects else 0

    def version_at(self, asked: Subscribe) -> int:
        """Which version a SUBSCRIBE is sent in."""
        place = next(at for at, step in enumerate(self.script) if step is asked)
        connects = [s for s in self.script[:place] if isinstance(s, Connect) and s.who == asked.who]
        return connects[-1].version if connects else 0

    def asked(self) -> list[Subscribe]:
        """Every SUBSCRIBE so far."""
        return [step for step in self.script[: self.place + 1] if isinstance(step, Subscribe)]

    def is_slow(self, who: str) -> bool:
        """Whether a client is away, or does not acknowledge."""
        return self._is_slow_behind(self.place + 1, who)

    def was_slow(self, who: str) -> bool:
        """The same, before this step."""
        return self._is_slow_behind(self.place, who)

    def _is_slow_behind(self, end: int, who: str) -> bool:
        steps = [s for s in self.script[:end] if isinstance(s, Connect | Leave) and s.who == who]
        return not steps or not isinstance(steps[-1], Connect) or not steps[-1].acks

    def has_will_due(self, number: int) -> bool:
        """Whether the connection that begins with a step has ended otherwise than by DISCONNECT 0x00."""
        began = self.script[number]
        assert isinstance(began, Connect)
        behind = self.script[number + 1 : self.place + 1]
        end = next((s for s in behind if isinstance(s, Connect | Leave | Wrong) and s.who == began.who), None)
        if isinstance(end, Leave):
            return end.how == "drop" or (end.how == "will" and began.version == V5)
        return end is not None


Pair = tuple[Note, Note]
Explain = Callable[[Note, Note, Course], Pair]


def normal(note: Note, course: Course) -> Any:
    """What has to be equal: per client the answers, and per topic the messages in order."""
    found: dict[str, Any] = {}
    for who, events in note.items():
        answers = Counter(event for event in events if event[0] not in ("PUBLISH", "OLD PUBLISH"))
        topics: dict[str, list[Event]] = {}
        for event in events:
            if event[0] not in ("PUBLISH", "OLD PUBLISH") or event[PAYLOAD] in course.apart:
                continue
            if not (event[RETAIN] and event[TOPIC] in course.topics):
                topics.setdefault(event[TOPIC], []).append(event)
        if answers or topics:
            found[who] = answers, topics
    return found


@dataclass(frozen=True)
class Difference:
    """An entry of the table."""

    name: str
    kind: str
    why: str
    explain: Explain


def read_table(explanations: dict[str, Explain]) -> list[Difference]:
    """All entries, each with the function of its name, and no function without an entry."""
    entries = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    names = [entry["name"] for entry in entries]
    assert sorted(names) == sorted(explanations), set(names) ^ set(explanations)
    return [Difference(one["name"], one["kind"], one["why"], explanations[one["name"]]) for one in entries]


@dataclass
class Verdict:
    """What two players' notes came to."""

    #: Entries of the table that were needed.
    used: Counter[str] = field(default_factory=Counter)
    #: The first difference that has no explanation.
    unexplained: str | None = None


def compare(script: Sequence[Step], ours: list[Note], theirs: list[Note], table: Sequence[Difference]) -> Verdict:
    """Step by step, to the first difference that is not explained, or to where the states are apart."""
    verdict, course = Verdict(), Course(script)
    for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        course.place = place
        before = mine, other
        for difference in table:
            if normal(mine, course) == normal(other, course):
                break
            said = repr((normal(mine, course), normal(other, course)))
            mine, other = difference.explain(mine, other, course)
            if repr((normal(mine, course), normal(other, course))) != said or course.over:
                verdict.used[difference.name] += 1
            if course.over:
                return verdict
        if normal(mine, course) != normal(other, course):
            verdict.unexplained = told(script, place, before, (mine, other), course)
            return verdict
    return verdict


def told(script: Sequence[Step], place: int, before: Pair, after: Pair, course: Course) -> str:
    """A difference for a person."""
    lines = [f"{'→' if at == place else ' '} {at}: {step}" for at, step in enumerate(script[: place + 1])]
    for name, note, rest in zip(("ours", "theirs"), before, after, strict=True):
        lines.append(f"{name}:")
        for who in sorted(note):
            lines += [f"    {who}: {event}" for event in note[who]]
        lines.append(f"  what is left of it: {normal(rest, course)}")
    return "\n".join(lines)
