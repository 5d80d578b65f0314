"""The score card: one line for each check, and a verdict for CI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["PASS", "FAIL", "-"]
_MAX_COMPLAINTS = 5


@dataclass(slots=True)
class Outcome:
    """What a check has to say. It fails if it has complaints, and does not count if it does not apply."""

    figure: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    applies: bool = True

    def complain(self, text: str) -> None:
        """Found something; only the first few are kept."""
        if len(self.complaints) < _MAX_COMPLAINTS:
            self.complaints.append(text)

    @classmethod
    def not_for(cls, why: str) -> Outcome:
        """There is nothing to check here."""
        return cls(figure=why, applies=False)


@dataclass(frozen=True, slots=True)
class Score:
    """One line of the card."""

    name: str
    verdict: Verdict
    figure: str
    figures: Mapping[str, float]
    complaints: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        lines = [f"{self.name:<16}{self.verdict:<6}{self.figure}".rstrip()]
        return "\n".join([*lines, *(f"{'':<22}! {text}" for text in self.complaints)])


@dataclass(frozen=True, slots=True)
class ScoreCard:
    """All of a codec."""

    codec: str
    version: str
    scores: tuple[Score, ...]

    @property
    def ok(self) -> bool:
        """Nothing failed."""
        return all(score.verdict != "FAIL" for score in self.scores)

    @property
    def verdict(self) -> str:
        """In one line."""
        failed = sum(score.verdict == "FAIL" for score in self.scores)
        passed = sum(score.verdict == "PASS" for score in self.scores)
        return f"PASS: {passed} checks" if self.ok else f"FAIL: {failed} of {passed + failed} checks"

    def __str__(self) -> str:
        return "\n".join([f"{self.codec} {self.version}", "", *map(str, self.scores), "", self.verdict])

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "codec": self.codec,
            "version": self.version,
            "ok": self.ok,
            "checks": [
                {
                    "name": score.name,
                    "verdict": {"PASS": "pass", "FAIL": "fail", "-": "none"}[score.verdict],
                    "figure": score.figure,
                    "figures": dict(score.figures),
                    "complaints": list(score.complaints),
                    "seconds": round(score.seconds, 3),
                }
                for score in self.scores
            ],
        }
