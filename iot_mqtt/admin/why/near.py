"""Which filter just misses a topic, and by what: upper case, a slash, a letter, a level, a form of Unicode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple
from unicodedata import normalize

from iot_mqtt.admin.why.letters import one_letter, written
from iot_mqtt.topics import matches, parse_replay, parse_shared

#: Filters and levels that are compared.
MOST, LEVELS = 1_000, 32


class Near(NamedTuple):
    """A filter that does not match, and the one difference that it has to one that does."""

    filter: str
    difference: str
    #: What would match.
    instead: str | None


@lru_cache(4 * MOST)
def _words(filter: str) -> tuple[str, frozenset[str]]:
    """What topics are held against, and its levels that are no wildcards."""
    plain = plain_filter(filter)
    return plain, frozenset(map(_bare, _names(plain.split("/"))))


def _names(levels: list[str]) -> list[str]:
    """Those that are no wildcards, and not empty."""
    return [level for level in levels if level not in ("+", "#", "")]


def _bare(level: str) -> str:
    return normalize("NFC", level).strip().casefold()


def plain_filter(filter: str) -> str:
    """What topics are held against: without ``$share/…`` and ``$replay/…``."""
    found = parse_shared(filter) or parse_replay(filter)
    return filter if found is None else found[1]


def other_forms(name: str) -> Iterator[str]:
    """What looks like a name, and is another one to the broker: its letters are put together, or taken apart."""
    return (form for form in (normalize("NFC", name), normalize("NFD", name)) if form != name)


def nearest(filters: Iterable[str], topic: str, *, certain: bool = False) -> Near | None:
    """Of filters that do not match, the one that comes closest; ``certain``: only where a mistake is likely. One that
    names levels has at least one of the topic's.
    """
    best: tuple[int, Near] | None = None
    levels = frozenset(map(_bare, topic.split("/")))
    for filter, _ in zip(filters, range(MOST), strict=False):
        plain, words = _words(filter)
        # One level may be another one, or too many. Most filters are farther away, and looked at no closer.
        far = topic[:1] != "$" and _is_far(words, levels) if words else certain
        if far:
            continue
        found = _compared(filter, plain, topic)
        if found is not None and (best is None or found[0] < best[0]) and not (certain and found[0] > _LEVEL):
            best = found
    return None if best is None else best[1]


_FORM, _CASE, _SLASH, _SPACE, _DOLLAR, _LETTER, _LEVEL, _WORD = range(8)


def _is_far(words: frozenset[str], levels: frozenset[str]) -> bool:
    if not words.isdisjoint(levels):
        return len(words - levels) > 1
    return len(words) > 1 or not any(one_letter(word, level) for word in words for level in levels)


def _compared(filter: str, plain: str, topic: str) -> tuple[int, Near] | None:
    if matches(normalize("NFC", plain), normalize("NFC", topic)):
        difference = f"they look alike, but are {plain!a} and {topic!a} (normalized as NFC, they are equal)"
        return _FORM, Near(filter, difference, _spelled(plain, topic))
    if matches(plain.casefold(), topic.casefold()):
        return _CASE, Near(filter, "upper and lower case are different letters", _spelled(plain, topic))
    for one, difference in (
        (f"/{plain}", "the topic begins with a slash, the filter does not"),
        (plain.removeprefix("/"), "the filter begins with a slash, the topic does not"),
        (f"{plain}/", "the topic ends with a slash, the filter does not"),
        (plain.removesuffix("/"), "the filter ends with a slash, the topic does not"),
    ):
        if one and one != plain and matches(one, topic):
            return _SLASH, Near(filter, difference, one)
    if matches(plain.strip(), topic.strip()):
        return _SPACE, Near(filter, "one of the two has a space at its end", plain.strip())
    if topic[:1] == "$" and plain[:1] in ("+", "#") and matches(plain, f"_{topic[1:]}"):
        return _DOLLAR, Near(filter, "wildcards at the beginning do not match what begins with $", None)
    return _by_levels(filter, plain.split("/"), topic.split("/"))


def _by_levels(filter: str, wanted: list[str], levels: list[str]) -> tuple[int, Near] | None:
    topic, longest = "/".join(levels), max(len(wanted), len(levels))
    if longest > LEVELS or (wanted[0] in ("+", "#") and len(wanted) == 1):
        return (_LEVEL, Near(filter, "+ is one level only", "#")) if wanted == ["+"] else None
    wrong = _wrong(wanted, levels)
    if wrong is not None and one_letter(wanted[wrong], levels[wrong]):
        instead = "/".join([*wanted[:wrong], levels[wrong], *wanted[wrong + 1 :]])
        return _LETTER, Near(filter, f"{_other(wrong, wanted, levels)}: one letter is different", instead)
    for at in range(len(wanted) + 1):
        deeper = "/".join([*wanted[:at], "+", *wanted[at:]])
        if wanted[-1:] != ["#"] and len(levels) == len(wanted) + 1 and matches(deeper, topic):
            instead = "/".join([*wanted[:-1], "#"]) if at >= len(wanted) - 1 and wanted[-1] == "+" else deeper
            return _LEVEL, Near(filter, "the topic has one level more than the filter", instead)
    for at in sorted(range(len(wanted)), key=lambda at: wanted[at] != "+"):
        rest = [*wanted[:at], *wanted[at + 1 :]]
        # A wildcard behind the level would match what stands in its place: that is another word.
        if wanted[at] != "+" and (not _names(rest) or rest[at : at + 1] in (["+"], ["#"])):
            continue
        shorter = "/".join(rest)
        if shorter and len(levels) == len(wanted) - 1 and matches(shorter, topic):
            return _LEVEL, Near(filter, "the topic has one level less than the filter", shorter)
    if wrong is not None and wanted[-1] != "#" and _names([*wanted[:wrong], *wanted[wrong + 1 :]]):
        return _WORD, Near(filter, _other(wrong, wanted, levels), None)
    return None


def _wrong(wanted: list[str], levels: list[str]) -> int | None:
    """The only level that is another one; None: there are more, or none, or one of the two has more levels."""
    if wanted[-1] == "#":
        wanted, levels = wanted[:-1], levels[: len(wanted) - 1]
    if len(levels) != len(wanted):
        return None
    wrong = [at for at, (want, level) in enumerate(zip(wanted, levels, strict=True)) if want not in ("+", level)]
    return wrong[0] if len(wrong) == 1 else None


def _other(at: int, wanted: list[str], levels: list[str]) -> str:
    return f"level {at + 1} is {written(wanted[at])} there, and {written(levels[at])} in the topic"


def _spelled(plain: str, topic: str) -> str:
    """The filter, with the letters of the topic."""
    levels = topic.split("/")
    wanted = plain.split("/")
    return "/".join(want if want in ("+", "#") or at >= len(levels) else levels[at] for at, want in enumerate(wanted))
