"""One answer of all nodes: a call of the API goes on, as it is, to the other nodes, whose own resources answer it.

::

    caller ─▶ one node ─ "api.call" ─▶ every other member that the call is about
                 │            │   its own answer: no node asks further
                 └── merged ◀─┘   by ``Route.spread``

The node that was called checks the rights and writes the change down; the others trust the link. Every item and answer
names its ``node``, and who did not answer is named in ``missing``, with the reason. Questions and answers are bounded
in size, in time, and in how many are under way at once.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol

from iot_mqtt.admin.audit_everywhere import Missing
from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Caller, role_of
from iot_mqtt.admin.errors import ApiError, bad_request, not_found, of_broker
from iot_mqtt.admin.merging import Item, Part, merged, place_of, put_together, read_cursor, write_cursor
from iot_mqtt.admin.routes import Answer, Answered, Route
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.errors import MqttError

QUESTION = "api.call"
#: Seconds for an answer: of what only looks, and of what changes something.
LOOK_WITHIN, CHANGE_WITHIN = 5.0, 20.0
#: Bytes of the items of one node's page, about, and of any other answer.
PAGE_BYTES, ANSWER_BYTES = 1024 * 1024, 4 * 1024 * 1024
#: Calls that go on to other nodes at once, and those of others that are answered at once.
MOST = 256
#: In place of a node's name: all of them.
ALL = "*"


class Asking(Protocol):
    """How to ask the other nodes; ``cluster.questions`` is one."""

    #: Name → what makes the answer of a question's body, in time.
    later: dict[str, Callable[[bytes], Awaitable[bytes]]]

    def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Awaitable[Mapping[int, bytes | str]]:
        """Answers by number, or why there is none, in words."""
        ...


@dataclass(frozen=True, slots=True)
class Said:
    """What one node answered. ``cursors``: of the items, where it is a page."""

    node: str
    value: Any = None
    cursors: Sequence[str] | None = None
    error: ApiError | None = None


class Everywhere:
    """Of one node; without ``asking`` it is the only one."""

    def __init__(
        self, node: str, members: Callable[[], Iterable[MemberInfo]] = tuple, asking: Asking | None = None
    ) -> None:
        self._node = node
        self._members = members
        self._asking = asking
        self._own: dict[tuple[str, str], Route] = {}
        #: Calls that are on their way to others, and those of others.
        self._sent = self._taken = 0

    def spread(self, routes: Sequence[Route]) -> tuple[Route, ...]:
        """The same routes, answering for all nodes; called once."""
        self._own = {(one.method, one.path): one for one in routes if one.spread != "here"}
        if self._asking is not None:
            self._asking.later[QUESTION] = self._take
        return tuple(one if one.spread == "here" else self._wider(one) for one in routes)

    def _wider(self, route: Route) -> Route:
        return replace(route, query=(*route.query, "node"), handler=partial(self._answer, route))

    async def _answer(self, route: Route, call: Call) -> Answer:
        node = call.query.get("node")
        call = replace(call, query=_without(call.query, "node"))
        if node == ALL and not (route.method == "GET" and route.spread == "one"):
            raise bad_request(f"node={ALL} is for what one node shows of itself")
        if node is not None and node != ALL and node not in self._names():
            raise not_found(f"no node is called {node!r}; the members of GET /api/v1/cluster are those there are")
        if route.spread == "merge":
            return await self._merge(route, call, node)
        if route.spread == "one" and route.paged:
            return await self._merge(route, call, None if node == ALL else node or self._node)
        if route.spread == "combine":
            return await self._combine(route, call, node)
        if route.spread == "each" or node == ALL:
            return await self._each(route, call, None if node == ALL else node)
        if route.spread == "find" and node is None:
            return await self._find(route, call)
        return await self._one(route, call, node or self._node)

    def _names(self) -> set[str]:
        return {self._node, *(one.node_id for one in self._members())}

    # What becomes of the answers.

    async def _one(self, route: Route, call: Call, node: str) -> Answer:
        said, missing = await self._all(route, call, node)
        if not said:
            raise _unheard(f"{node} did not answer", missing)
        return _told(said[0])

    async def _find(self, route: Route, call: Call) -> Answer:
        here = await self._here(route, call)
        if not _nowhere(here):
            return _told(here)
        others, missing = await self._others(route, call, None)
        found = [one for one in others if one.error is None]
        failed = [one for one in others if one.error is not None and not _nowhere(one)]
        if found or failed:
            return _told((found or failed)[0])
        if missing:
            raise _unheard(f"{here.error} at the nodes that answered", missing)
        return _told(here)

    async def _each(self, route: Route, call: Call, node: str | None) -> Answer:
        said, missing = _answers(*await self._all(route, call, node))
        return {"items": [_named(one.value, one.node) for one in said], "missing": missing}

    async def _combine(self, route: Route, call: Call, node: str | None) -> Answer:
        said, missing = _answers(*await self._all(route, call, node))
        if not said:
            raise _unheard("nobody answered", missing)
        answers, unheard = [_named(one.value, one.node) for one in said], {one.node: one.reason for one in missing}
        return {**route.combine(answers, unheard), "missing": missing}

    async def _merge(self, route: Route, call: Call, node: str | None) -> Answer:
        paged = "after" in route.query
        said, missing = _answers(*await self._all(route, call, node))
        parts = [_part(one) for one in said]
        if not paged:
            after = {"after": None} if route.paged else {}
            return {"items": put_together(parts, route.by), **after, "missing": missing}
        found = merged(parts, call.limit, route.by, self._places(call))
        return {"items": found.items, "after": self._cursor(found.places), "missing": missing}

    def _cursor(self, places: dict[str, str] | None) -> str | None:
        """By itself a node has no other's places to tell of."""
        if places is None:
            return None
        return places[""] if self._asking is None else write_cursor(places)

    def _places(self, call: Call) -> dict[str, str]:
        """Where each node's items begin."""
        if self._asking is None:
            return {} if call.after is None else {"": call.after}
        try:
            return read_cursor(call.after)
        except ValueError as error:
            raise bad_request("after must be what the page before gave") from error

    # Of this node.

    async def _here(self, route: Route, call: Call) -> Said:
        """Its own answer. What nobody expected is raised."""
        try:
            if "after" in route.query:
                place = place_of(self._node, self._places(call))
                call = replace(call, query=_without(call.query, "after") | ({} if place is None else {"after": place}))
            outcome = route.handler(call)
            value = await outcome if isinstance(outcome, Awaitable) else outcome
        except MqttError as error:
            return Said(self._node, error=of_broker(error))
        except ApiError as error:
            return Said(self._node, error=error)
        return Said(self._node, value, value.cursors if isinstance(value, Page) else None)

    async def _take(self, body: bytes) -> bytes:
        """Another node's call. Whatever is raised goes back as a refusal."""
        if self._taken >= MOST:
            raise ValueError(f"{MOST} calls of other nodes are being answered")
        asked = json.loads(body)
        route = self._own.get((asked["method"], asked["path"]))
        if route is None:
            raise ValueError("it has no such resource")
        caller = asked["caller"]
        who = None if caller is None else Caller(caller["name"], role_of(caller["role"]), tuple(caller["scope"]))
        call = Call(asked["values"], asked["query"], b64decode(asked["body"]), who, asked["address"])
        self._taken += 1
        try:
            answer = _written(await self._here(route, call))
        finally:
            self._taken -= 1
        if len(answer) > ANSWER_BYTES:
            raise ValueError(f"its answer has {len(answer)} bytes, more than {ANSWER_BYTES}")
        return answer

    # Of all.

    async def _all(self, route: Route, call: Call, node: str | None) -> tuple[list[Said], tuple[Missing, ...]]:
        """``node``: only its. What is wrong with the call itself is raised before anybody else is asked."""
        own = [await self._here(route, call)] if node in (None, self._node) else []
        if own and own[0].error is not None and own[0].error.status is HTTPStatus.BAD_REQUEST:
            raise own[0].error
        others, missing = await self._others(route, call, node)
        said = [*own, *others]
        if node is not None and said and said[0].error is not None:
            raise said[0].error
        return said, missing

    async def _others(self, route: Route, call: Call, node: str | None) -> tuple[list[Said], tuple[Missing, ...]]:
        if self._asking is None or node == self._node:
            return [], ()
        members = {one.number: one for one in self._members() if one.state != "self"}
        wanted = {number: one for number, one in members.items() if node in (None, one.node_id)}
        answers = await self._ask(self._asking, route, call, None if node is None else tuple(wanted))
        said: list[Said] = []
        missing: list[Missing] = []
        for number, answer in sorted(answers.items()):
            named = members[number].node_id if number in members else ""
            read = _read(named or f"number {number}", answer)
            if isinstance(read, Missing):
                missing.append(read)
            else:
                said.append(read)
        # Who has left is not asked; a node that is known by its number only has nothing to be missed.
        gone = (one for number, one in wanted.items() if number not in answers and one.node_id)
        missing += [Missing(one.node_id, f"it is {one.state}") for one in gone]
        return said, tuple(missing)

    async def _ask(
        self, asking: Asking, route: Route, call: Call, only: Collection[int] | None
    ) -> Mapping[int, bytes | str]:
        if self._sent >= MOST:
            detail = f"{MOST} calls are on their way to other nodes; try again"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, {"Retry-After": "1"})
        self._sent += 1
        try:
            within = LOOK_WITHIN if route.method == "GET" else CHANGE_WITHIN
            return await asking.ask_all(QUESTION, _question(route, call), within, only)
        finally:
            self._sent -= 1


def _question(route: Route, call: Call) -> bytes:
    who = call.caller
    asked = {
        "method": route.method,
        "path": route.path,
        "values": dict(call.path),
        "query": dict(call.query),
        "body": b64encode(call.body).decode(),
        "caller": None if who is None else {"name": who.name, "role": who.role.word, "scope": who.scope},
        "address": call.address,
    }
    return json.dumps(asked).encode()


def _written(said: Said) -> bytes:
    """One node's answer, for another one."""
    error = said.error
    if error is not None:
        return json.dumps({"status": error.status, "error": error.error, "detail": error.detail}).encode()
    value, cursors = said.value, said.cursors
    if isinstance(value, Page):
        texts: list[str] = []
        size = 0
        for item in value.shown:
            texts.append(json.dumps(item, default=fields_of))
            size += len(texts[-1])
            if size > PAGE_BYTES:
                break
        more = value.more or len(texts) < len(value.shown)
        of_page = json.dumps({"cursors": value.cursors[: len(texts)], "more": more})[:-1]
        return f'{of_page}, "items": [{", ".join(texts)}]}}'.encode()
    if isinstance(value, Answered):
        value = value.value
    return json.dumps({"value": value, "cursors": cursors}, default=fields_of).encode()


def _read(node: str, answer: bytes | str) -> Said | Missing:
    """What another node has answered."""
    if isinstance(answer, str):
        return Missing(node, answer)
    try:
        said = json.loads(answer)
        if "status" in said:
            return Said(node, error=ApiError(HTTPStatus(said["status"]), str(said["error"]), str(said["detail"])))
        if "items" not in said:
            return Said(node, said["value"])
        page = Page([dict(one) for one in said["items"]], list(map(str, said["cursors"])), more=bool(said["more"]))
    except (ValueError, KeyError, TypeError):
        return Missing(node, "its answer cannot be understood")
    return Said(node, page, page.cursors)


def _answers(said: list[Said], missing: tuple[Missing, ...]) -> tuple[list[Said], list[Missing]]:
    """Those that have something to show, by name; of the others why not."""
    found = sorted((one for one in said if one.error is None), key=lambda one: one.node)
    failed = [Missing(one.node, one.error.detail) for one in said if one.error is not None]
    return found, sorted((*missing, *failed), key=lambda one: one.node)


def _part(said: Said) -> Part:
    """A node's list, its items named."""
    value = said.value
    items = [_named(one, said.node) for one in fields_of(value)["items"]]
    return Part(said.node, items, said.cursors or (), more=isinstance(value, Page) and value.more)


def _nowhere(said: Said) -> bool:
    """Whether a node does not have what the path names; "not_found" in another word is an answer."""
    return said.error is not None and said.error.error == "not_found"


def _told(said: Said) -> Answer:
    """One node's answer, as it is, with its name."""
    if said.error is not None:
        raise said.error
    value = said.value
    if isinstance(value, Answered):
        return replace(value, value=None if value.value is None else _named(value.value, said.node))
    return None if value is None else _named(value, said.node)


def _named(value: Any, node: str) -> Item:
    return {**({} if value is None else fields_of(value)), "node": node}


def _without(query: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in query.items() if other != name}


def fields_of(value: Any) -> dict[str, Any]:
    """What is no JSON by itself."""
    return dict(value) if isinstance(value, Mapping) else asdict(value)


def _unheard(what: str, missing: Sequence[Missing]) -> ApiError:
    named = "; ".join(f"{one.node}: {one.reason}" for one in missing)
    more = {"missing": missing}
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", f"{what}; no answer of {named}", more=more)
