"""Where a filter with wildcards goes on in topics that are in byte order (``retained``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: The byte after "/": a prefix that ends with it instead of "/" is the first that is behind all its topics.
BEHIND_SLASH: Final = b"0"
#: The first topic behind all that begin with "$".
BEHIND_DOLLAR: Final = b"%"
#: What ``next_candidate`` answers when no later topic can match. No topic is empty.
NO_MORE: Final = b""


def next_candidate(levels: Sequence[bytes], topic: bytes) -> bytes | None:
    """None if the topic matches the levels of a filter; otherwise a later place, before which nothing matches.

    In byte order a topic's children do not directly follow it: ``a-b`` lies between ``a`` and ``a/b``. So the
    place is never further than where a prefix, slash included, ends.
    """
    if topic[:1] == b"$" and levels[0] in (b"+", b"#"):
        return BEHIND_DOLLAR
    have = topic.split(b"/")
    for depth, want in enumerate(levels):
        if want == b"#":
            return None
        if depth == len(have):
            # Too short. What shares all of its levels is behind the slash, but while the last of them was
            # found by "+", its neighbours in between may match as well.
            return topic + (b"\0" if levels[depth - 1] == b"+" else b"/")
        if want != b"+" and want != have[depth]:
            return _within(b"/".join([*have[:depth], b""]), levels, depth, topic)
    if len(have) > len(levels):
        return _behind(b"/".join([*have[: len(levels)], b""]))
    return None


def _within(prefix: bytes, levels: Sequence[bytes], depth: int, topic: bytes) -> bytes:
    """The least place after ``topic`` that begins with ``prefix`` (its ``depth`` good levels) and goes on well."""
    exact = prefix + levels[depth]
    if exact > topic:
        return exact
    if depth + 1 < len(levels) and exact + b"/" > topic:
        return exact + b"/"
    return _behind(prefix)


def _behind(prefix: bytes) -> bytes:
    """The first place that does not begin with ``prefix``, which ends with a slash (or is empty)."""
    return prefix[:-1] + BEHIND_SLASH if prefix else NO_MORE
