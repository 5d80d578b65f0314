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

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any

from iot_mqtt.admin.between import Missing, Said, asked_in, question, read, written
from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.errors import ApiError, bad_cursor, bad_request, not_found, of_broker
from iot_mqtt.admin.json_text import as_json, fields_of, list_of, read_json
from iot_mqtt.admin.merging import Part, merged, place_of, put_together, read_cursor, write_cursor
from iot_mqtt.admin.routes import ALL_NODES, Answer, Answered, Route
from iot_mqtt.admin.turns import ITEMS, AtOnce, Turns
from iot_mqtt.broker.facade import MemberInfo
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.questions import AskingLater

QUESTION = "api.call"
#: Seconds for an answer: of what only looks, and of what changes something.
LOOK_WITHIN, CHANGE_WITHIN = 5.0, 20.0
#: Calls that go on to other nodes at once, and those of others that are answered at once.
MOST = 256


class Everywhere:
    """Of one node; without ``asking`` it is the only one."""

    def __init__(
        self,
        node: str,
        members: Callable[[], Iterable[MemberInfo]] = tuple,
        asking: AskingLater | None = None,
        turns: Turns | None = None,
    ) -> None:
        """``turns``: when the slices of long answers are made, and calls of other nodes answered."""
        self._node = node
        self._members = members
        self._asking = asking
        self._turns = turns or AtOnce()
        self._own: dict[tuple[str, str], Route] = {}
        #: Calls that are on their way to others, and those of others.
        self._sent = self._taken = 0

    def spread(self, routes: Sequence[Route]) -> tuple[Route, ...]:
        """The same routes, answering for all nodes, each in its turn; called once."""
        self._own = {(one.method, one.path): one for one in routes if one.spread != "here"}
        if self._asking is not None:
            self._asking.later[QUESTION] = self._take
        return tuple(map(self._wider, routes))

    def _wider(self, route: Route) -> Route:
        if route.streamed:
            return route
        if route.spread == "here":
            return replace(route, handler=partial(self._listed, route)) if route.paged else route
        return replace(route, query=(*route.query, "node"), handler=partial(self._answer, route))

    def _answer(self, route: Route, call: Call) -> Answer | Awaitable[Answer]:
        node = call.query.get("node")
        if node is not None:
            call = replace(call, query=_without(call.query, "node"))
            if node == ALL_NODES and not route.takes_all_nodes:
                raise bad_request(f"node={ALL_NODES} is for what one node shows of itself")
            if node not in (ALL_NODES, self._node) and node not in self._names():
                raise not_found(f"no node is called {node!r}; the members of GET /api/v1/cluster are those there are")
        if _is_list(route):
            own = node or (self._node if route.spread == "one" else None)
            return self._merge(route, call, None if node == ALL_NODES else own)
        if route.spread == "combine":
            return self._combine(route, call, node)
        if route.spread == "each" or node == ALL_NODES:
            return self._each(route, call, None if node == ALL_NODES else node)
        alone = node == self._node or (node is None and (route.spread == "one" or self._asking is None))
        if alone:
            return self._own_answer(route, call)
        if node is None:
            return self._find(route, call)
        return self._one(route, call, node)

    def _own_answer(self, route: Route, call: Call) -> Answer | Awaitable[Answer]:
        """What this node says is the answer: most calls, so nothing is made that is not needed."""
        outcome = route.handler(call)
        return self._named_later(outcome) if isinstance(outcome, Awaitable) else _told(Said(self._node, outcome))

    async def _named_later(self, outcome: Awaitable[Answer]) -> Answer:
        return _told(Said(self._node, await outcome))

    async def _listed(self, route: Route, call: Call) -> Answer:
        """A list that every node would answer alike."""
        outcome = route.handler(call)
        value = await outcome if isinstance(outcome, Awaitable) else outcome
        if not isinstance(value, Page):
            return value
        part = await self._part_of(value, (), None)
        return list_of(part.items, after=part.cursors[-1] if part.more else None)

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
        answered, unheard_of = await self._all(route, call, node)
        said, missing = _answers(answered, unheard_of)
        if not said:
            # One that all refuse is refused in the words of this node.
            raise next((one.error for one in answered if one.error), None) or _unheard("nobody answered", missing)
        # This node's own as the others' have come: all the way down what JSON has.
        answers = [_named(read_json(as_json(one.value)), one.node) for one in said]
        unheard = {one.node: one.reason for one in missing}
        return {**route.combine(answers, unheard), "missing": missing}

    async def _merge(self, route: Route, call: Call, node: str | None) -> Answer:
        answered, unheard_of = await self._all(route, call, node)
        said, missing = _answers(answered, unheard_of)
        parts: list[Part] = [one.value for one in said]
        if "after" not in route.query:
            items = put_together(parts, route.by)
            return list_of(items, after=None, missing=missing) if route.paged else list_of(items, missing=missing)
        if self._asking is None:
            # By itself a node has no other's places to tell of, nor anything where it refuses.
            if answered[0].error is not None:
                raise answered[0].error
            (part,) = parts
            return list_of(part.items, after=part.cursors[-1] if part.more else None, missing=missing)
        found = await merged(parts, call.limit, route.by, self._places(call), self._turns, once=route.once)
        after = None if found.places is None else write_cursor(found.places)
        return list_of(found.items, after=after, missing=missing)

    def _places(self, call: Call) -> dict[str, str]:
        """Where each node's items begin."""
        if self._asking is None:
            return {} if call.after is None else {"": call.after}
        try:
            return read_cursor(call.after)
        except ValueError as error:
            raise bad_cursor() from error

    # Of this node.

    async def _here(self, route: Route, call: Call) -> Said:
        """Its own answer. What nobody expected is raised."""
        try:
            paged = _is_list(route) and "after" in route.query
            if paged:
                place = place_of(self._node, self._places(call))
                call = replace(call, query=_without(call.query, "after") | ({} if place is None else {"after": place}))
            outcome = route.handler(call)
            value = await outcome if isinstance(outcome, Awaitable) else outcome
            if _is_list(route):
                part = await self._part_of(_page_of(value), route.by, self._node)
                value = part if paged else replace(part, cursors=())
        except MqttError as error:
            return Said(self._node, error=of_broker(error))
        except ApiError as error:
            return Said(self._node, error=error)
        return Said(self._node, value)

    async def _part_of(self, page: Page, by: Sequence[str], node: str | None) -> Part:
        """The items as texts, some in each turn; ``node``: named in each."""
        items: list[bytes] = []
        cursors: list[str] = []
        keys: list[list[object]] = []
        names = [name.removeprefix("-") for name in by]
        named = {} if node is None else {"node": node}
        for begin in range(0, len(page), ITEMS):
            if begin:
                await self._turns.next()
            for item, cursor in await page.part(begin, begin + ITEMS):
                shown = {**fields_of(item), **named}
                items.append(as_json(shown))
                cursors.append(cursor)
                if names:
                    keys.append([shown.get(name) for name in names])
        return Part(self._node, items, cursors, keys, more=page.more)

    async def _take(self, body: bytes) -> bytes:
        """Another node's call. Whatever is raised goes back as a refusal."""
        if self._taken >= MOST:
            raise ValueError(f"{MOST} calls of other nodes are being answered")
        method, path, call = asked_in(body)
        route = self._own.get((method, path))
        if route is None:
            raise ValueError("it has no such resource")
        self._taken += 1
        try:
            await self._turns.next()
            return written(await self._here(route, call))
        finally:
            self._taken -= 1

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
            found = read(named or f"number {number}", answer, listed=_is_list(route))
            if isinstance(found, Missing):
                missing.append(found)
            else:
                said.append(found)
        # Who has left is not asked, and missed only by whoever wants that very node once others have its sessions.
        gone = (one for number, one in wanted.items() if number not in answers and (node is not None or not one.away))
        missing += [Missing(one.node_id, f"it is {one.state}") for one in gone]
        return said, tuple(missing)

    async def _ask(
        self, asking: AskingLater, route: Route, call: Call, only: Collection[int] | None
    ) -> Mapping[int, bytes | str]:
        if self._sent >= MOST:
            detail = f"{MOST} calls are on their way to other nodes; try again"
            raise ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "busy", detail, {"Retry-After": "1"})
        self._sent += 1
        try:
            within = route.within or (LOOK_WITHIN if route.method == "GET" else CHANGE_WITHIN)
            return await asking.ask_all(QUESTION, question(route, call), within, only)
        finally:
            self._sent -= 1


def _is_list(route: Route) -> bool:
    """Whether what the nodes answer are parts of a list."""
    return route.spread == "merge" or (route.spread == "one" and route.paged)


def _page_of(value: Any) -> Page:
    """What a handler has answered; a list that has no pages is one."""
    if isinstance(value, Page):
        return value
    items = fields_of(value)["items"]
    return Page(items, len(items), lambda _: "")


def _answers(said: list[Said], missing: tuple[Missing, ...]) -> tuple[list[Said], list[Missing]]:
    """Those that have something to show, by name; of the others why not."""
    found = sorted((one for one in said if one.error is None), key=lambda one: one.node)
    failed = [Missing(one.node, one.error.detail) for one in said if one.error is not None]
    return found, sorted((*missing, *failed), key=lambda one: one.node)


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


def _named(value: Any, node: str) -> dict[str, Any]:
    return {**({} if value is None else fields_of(value)), "node": node}


def _without(query: Mapping[str, str], name: str) -> dict[str, str]:
    return {other: value for other, value in query.items() if other != name}


def _unheard(what: str, missing: Sequence[Missing]) -> ApiError:
    named = "; ".join(f"{one.node}: {one.reason}" for one in missing)
    more = {"missing": missing}
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", f"{what}; no answer of {named}", more=more)
