"""Which path and method leads to which resource: one table, from which also the OpenAPI description is made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import method_not_allowed, not_found

#: A value to answer as JSON, or None for "done, nothing to say".
Answer = object | None
Handler = Callable[[Call], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. ``path`` has its variable parts in braces; ``query`` names the parameters."""

    method: str
    path: str
    summary: str
    handler: Handler
    query: tuple[str, ...] = ()
    #: Name of the answer's schema; None: 204 without a body.
    answer: str | None = None
    #: The answer is a page of such items.
    paged: bool = False
    #: Name of the body's schema.
    body: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The variable parts by name, or None if the path is another one."""
        parts = self.path.split("/")
        if len(parts) != len(segments):
            return None
        values = {}
        for part, segment in zip(parts, segments, strict=True):
            if part.startswith("{") and segment:
                values[part[1:-1]] = segment
            elif part != segment:
                return None
        return values


def find(routes: Sequence[Route], method: str, segments: Sequence[str]) -> tuple[Route, dict[str, str]]:
    """The route of a call; raises 404 for an unknown path and 405 for a method it does not have."""
    matches = [(route, values) for route in routes if (values := route.match(segments)) is not None]
    if not matches:
        raise not_found("there is no such resource; /api/v1/openapi.json lists them")
    wanted = "GET" if method == "HEAD" else method
    for route, values in matches:
        if route.method == wanted:
            return route, values
    raise method_not_allowed(method, ", ".join(sorted({route.method for route, _ in matches})))
