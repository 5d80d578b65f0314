"""What is filed under a filter, and what a topic's matching filters add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Generic

from iot_mqtt.topics.route import R, Route, combined
from iot_mqtt.topics.shared import SharedGroup

_NOBODY = object()
#: What a merged route costs in memory beside a pointer to one that exists anyway.
_MERGED_WEIGHT = 24


class SharedRoute(Generic[R]):
    """That one member of a group gets the topic; one per matching group and filter."""

    __slots__ = ("group",)

    def __init__(self, group: SharedGroup[R]) -> None:
        self.group = group


class Match(Generic[R]):
    """Who gets a topic: each of ``plain``, and one member of each of ``shared``. Treat as frozen: it is memoised.

    ``weight`` is its memory in pointers, roughly. ``alone``: the only receiver, if there is only one, or what stands
    for nobody; what others get has no order with what it gets. ``steps``: what there is to do with its topics besides,
    as who made the routes says. ``above`` is the class (``Routes.classes``) of its messages above QoS 0, ``retained``
    of those with RETAIN, where that is another than itself: None, unless somebody is to see that flag. (A match that
    pointed to itself would be a cycle, and memory until everything is searched for cycles.)
    """

    __slots__ = ("above", "alone", "plain", "retained", "shared", "steps", "weight")

    def __init__(
        self,
        plain: tuple[Route[R], ...] = (),
        shared: tuple[SharedRoute[R], ...] = (),
        merged_count: int = 0,
        steps: tuple[Any, ...] = (),
    ) -> None:
        self.plain = plain
        self.shared = shared
        self.steps = steps
        self.above: Mixed | None = None
        self.retained: Mixed | None = MIXED if any(route.retain_as_published for route in plain) else None
        self.alone: object = None
        if not shared and len(plain) < 2:
            self.alone = plain[0].receiver if plain else _NOBODY
        self.weight = 1 + len(plain) + len(shared) + merged_count * _MERGED_WEIGHT

    def __repr__(self) -> str:
        return f"<Match {self.plain} {self.shared}>"


class Mixed:
    """What stands for topics of different matches that are served together all the same, one by one."""

    __slots__ = ()

    #: As of a match: it has an order with everything, and is its own class.
    alone: Final = None
    above: Final = None
    retained: Final = None


MIXED: Final = Mixed()


def class_of(_topic: bytes, match: Match[R]) -> Match[R] | Mixed | None:
    """The class of a topic of which nothing but the match need be known."""
    return MIXED if match.shared else match


class Entry(Generic[R]):
    """All receivers and groups of one filter. A filter with one plain receiver is filed as its bare route instead."""

    __slots__ = ("routes", "groups")

    def __init__(self) -> None:
        self.routes: dict[R, Route[R]] = {}
        self.groups: dict[str, SharedRoute[R]] | None = None

    @property
    def unused(self) -> bool:
        return not self.routes and not self.groups


def gather(filed: Sequence[Route[R] | Entry[R]], steps: tuple[Any, ...] = ()) -> Match[R]:
    """The match that the entries of all matching filters add up to."""
    if len(filed) == 1:
        only = filed[0]
        if isinstance(only, Route):
            return Match((only,), steps=steps)
        return Match(tuple(only.routes.values()), tuple((only.groups or {}).values()), steps=steps)
    routes: dict[R, Route[R]] = {}
    overlaps: dict[R, list[Route[R]]] = {}
    shared: list[SharedRoute[R]] = []
    for entry in filed:
        if isinstance(entry, Route):
            known = routes.setdefault(entry.receiver, entry)
            if known is not entry:
                overlaps.setdefault(entry.receiver, [known]).append(entry)
            continue
        found = entry.routes
        if entry.groups:
            shared += entry.groups.values()
        if not routes.keys().isdisjoint(found):
            for receiver in routes.keys() & found.keys():
                overlaps.setdefault(receiver, [routes[receiver]]).append(found[receiver])
        routes |= found
    for receiver, several in overlaps.items():
        several.sort(key=lambda route: route.order)
        routes[receiver] = combined([route.subscription for route in several], receiver)
    return Match(tuple(routes.values()), tuple(shared), len(overlaps), steps)
