"""Which path and method leads to which resource, written above the method that answers; the OpenAPI description is made
of the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from iot_mqtt.admin.call import PAGE, Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import method_not_allowed, not_found
from iot_mqtt.admin.schemas import Schemas

#: A value to answer as JSON, or None for "done, nothing to say".
Answer = object | None
Handler = Callable[[Call], Answer | Awaitable[Answer]]
Method = TypeVar("Method", bound=Callable[..., Any])
#: Which nodes answer a call, whichever was asked:
#:
#: * "here": the one that was asked, for every node would say the same;
#: * "one": the one that was asked, for it is about that one; ``?node=`` names another one, and ``*`` all;
#: * "merge": all, their lists as one;
#: * "find": the one that has what the path names;
#: * "each": all, each answer by itself;
#: * "combine": all, and the route makes one answer of theirs (``Route.combine``).
Spread = Literal["here", "one", "merge", "find", "each", "combine"]
#: In place of a node's name: all of them.
ALL_NODES = "*"
#: Answers of nodes, each with its ``node``, by name, and who did not answer and why → one.
Combine = Callable[[Sequence[Mapping[str, Any]], Mapping[str, str]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that is more than a value with status 200."""

    value: Answer
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Route:
    """One method of one path. ``path`` has its variable parts in braces; ``query`` names the parameters."""

    method: str
    path: str
    summary: str
    handler: Handler = lambda _: None
    query: tuple[str, ...] = ()
    #: Name of the answer's schema; None: 204 without a body.
    answer: str | None = None
    #: The answer is a page of such items.
    paged: bool = False
    #: The answer is a stream of such events.
    streamed: bool = False
    #: Name of the body's schema.
    body: str | None = None
    #: Who may call it.
    role: Role = Role.VIEWER
    #: "caller": it is about who calls himself, so his role and scope do not matter, nor whether he has to change his
    #: password. "anybody": nobody has to be known.
    asks: Literal["role", "caller", "anybody"] = "role"
    #: All but "here" take ``node`` in the query; see ``everywhere``.
    spread: Spread = "here"
    #: Of what is merged: the fields by which each node has sorted its items, with "-" for the largest first. None: a
    #: list that has no pages is put together by node, and pages go by their cursors.
    by: tuple[str, ...] = ()
    #: Of what is merged: items that are equal by all of these are one item that several nodes see.
    once: bool = False
    #: Of what is combined.
    combine: Combine = lambda answers, _: answers[0]
    #: Seconds for the answers of other nodes, where they may take longer than others.
    within: float | None = None

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.parts if part.startswith("{"))

    @property
    def takes_all_nodes(self) -> bool:
        """Whether ``node=*`` asks all nodes for what each says of itself."""
        return self.method == "GET" and self.spread == "one"

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The variable parts by name, or None if the path is another one."""
        parts = self.parts
        if len(parts) != len(segments):
            return None
        values = {}
        for part, segment in zip(parts, segments, strict=True):
            if part.startswith("{") and segment:
                values[part[1:-1]] = segment
            elif part != segment:
                return None
        return values


class _Details(TypedDict, total=False):
    """What most routes leave as it is; see ``Route``."""

    streamed: bool
    role: Role
    spread: Spread
    by: tuple[str, ...]
    once: bool
    asks: Literal["role", "caller", "anybody"]
    within: float


def _route(
    method: str,
    path: str,
    summary: str,
    answer: str | None = None,
    body: str | None = None,
    query: tuple[str, ...] = (),
    paged: bool = False,
    combine: Combine | None = None,
    **details: Unpack[_Details],
) -> Callable[[Method], Method]:
    """The method answers calls of this route. ``combine``: for its node, and this makes one answer of all."""
    route = Route(method, path, summary, query=query, answer=answer, body=body, paged=paged, **details)
    if combine is not None:
        route = replace(route, spread="combine", combine=combine)

    def mark(method: Method) -> Method:
        vars(method)["route"] = route
        return method

    return mark


get = partial(_route, "GET")
post = partial(_route, "POST", role=Role.OPERATOR)
patch = partial(_route, "PATCH", role=Role.OPERATOR)
#: It mostly has nothing to say.
delete = partial(_route, "DELETE", role=Role.OPERATOR)
#: Of whoever is known, about himself; the HTTP method comes first.
own = partial(_route, asks="caller")
#: Of anybody.
unknown = partial(_route, "POST", asks="anybody")


def combined(
    path: str,
    summary: str,
    answer: str,
    combine: Combine,
    query: tuple[str, ...] = (),
    **details: Unpack[_Details],
) -> Callable[[Method], Method]:
    """The method answers GET for its node, and ``combine`` makes one answer of all."""
    return get(path, summary, answer, query=query, combine=combine, **details)


def listing(path: str, summary: str, item: str, *query: str, **details: Unpack[_Details]) -> Callable[[Method], Method]:
    """The method answers GET with as many items as were asked for."""
    return get(path, summary, item, query=(*query, *PAGE), paged=True, **details)


class Resource:
    """What belongs together; its methods say which calls they answer."""

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table, in the order in which it is written."""
        marked = ((name, vars(method).get("route")) for name, method in vars(type(self)).items() if callable(method))
        return tuple(replace(route, handler=getattr(self, name)) for name, route in marked if route is not None)

    def schemas(self) -> Schemas:
        """What its routes name as answers and bodies, for the description of the API."""
        return {}

    def among(self, table: Table) -> None:
        """Told once which routes there are."""


class Table:
    """All routes; those that a path may lead to are found by its first part and its length."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = tuple(routes)
        self._near: dict[tuple[str, int], list[Route]] = {}
        for route in self._routes:
            self._near.setdefault((route.parts[0], len(route.parts)), []).append(route)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def begins(self, path: str) -> bool:
        """Whether the first part of a path is that of a route."""
        first = path.partition("/")[0]
        return any(route.parts[0] == first for route in self._routes)

    def near(self, segments: Sequence[str]) -> Sequence[Route]:
        """No path begins with a variable part."""
        return self._near.get((segments[0], len(segments)), ()) if segments else ()


def find(routes: Table, method: str, segments: Sequence[str]) -> tuple[Route, dict[str, str]]:
    """The route of a call; raises 404 for an unknown path and 405 for a method it does not have. A path that is named
    as it is comes before one with a variable part.
    """
    matches = [(route, values) for route in routes.near(segments) if (values := route.match(segments)) is not None]
    if not matches:
        raise not_found("there is no such resource; /api/v1/openapi.json lists them")
    plainest = min(len(values) for _, values in matches)
    matches = [(route, values) for route, values in matches if len(values) == plainest]
    wanted = "GET" if method == "HEAD" else method
    for route, values in matches:
        if route.method == wanted:
            return route, values
    raise method_not_allowed(method, ", ".join(sorted({route.method for route, _ in matches})))
