"""Alarms of a node as operators see them: each with its begin, its end, and what would help."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlarmInfo:
    """One alarm."""

    #: What it is about, such as "disk"; "other" where nothing more is known.
    code: str
    #: In words, with the figures of its last second.
    text: str
    #: Seconds since 1970.
    since: float
    #: None: it goes on.
    until: float | None
    #: What an operator can do about it; None: the text says all there is.
    helps: str | None
