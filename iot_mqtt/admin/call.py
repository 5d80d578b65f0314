"""One call of the API as values: what was asked for, already decoded, and readers that refuse what is wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from iot_mqtt.admin.callers import Caller, Role
from iot_mqtt.admin.errors import bad_cursor, bad_request, bad_request_if
from iot_mqtt.admin.paths import name_in
from iot_mqtt.devices import fields

MAX_LIMIT = 1000
DEFAULT_LIMIT = 100
#: The parameters of what is paged.
PAGE = ("after", "limit")

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Call:
    """The variable parts of the path by name, the query, and the body."""

    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: Who calls; None where anybody may.
    caller: Caller | None = None
    #: Where from.
    address: str = ""
    #: What who listens to events had last, as the header Last-Event-ID says it.
    last_event_id: str = ""

    @property
    def who(self) -> str:
        """The name of who calls."""
        return "" if self.caller is None else self.caller.name

    @property
    def user(self) -> str | None:
        """In whose name it is, if what is sent needs a user's right."""
        return None if self.caller is None else self.caller.user

    @property
    def sees_contents(self) -> bool:
        """Whether the answer may have what was published, sent or reported, beside how much of it there is."""
        return self.caller is not None and self.caller.role >= Role.OPERATOR

    @property
    def after(self) -> str | None:
        """The cursor of the page before."""
        return self.query.get("after")

    @property
    def after_pair(self) -> tuple[str, str] | None:
        """The same where it is one of ``pair``."""
        if self.after is None:
            return None
        first, slash, second = self.after.partition("/")
        if not slash:
            raise bad_cursor()
        return unquote(first), unquote(second)

    @property
    def after_figure(self) -> tuple[int, str] | None:
        """The same where the first one is a number."""
        after = self.after_pair
        if after is not None and not (after[0].isascii() and after[0].isdigit() and len(after[0]) <= 15):
            raise bad_cursor()
        return None if after is None else (int(after[0]), after[1])

    @property
    def limit(self) -> int:
        """How many items a page may have."""
        return number_in(self.query.get("limit", str(DEFAULT_LIMIT)), "limit", 1, MAX_LIMIT)

    def flag(self, name: str) -> bool | None:
        """A parameter that is true or false; None: it is not given."""
        text = self.query.get(name)
        if text not in (None, "true", "false"):
            raise bad_request(f"{name} must be true or false, not {text!r}")
        return None if text is None else text == "true"

    def page(
        self,
        found: Sequence[Item],
        cursor: Callable[[Item], str],
        shape: Callable[[Item], object] | None = None,
        complete: Callable[[Sequence[Item]], Awaitable[Sequence[Item]]] | None = None,
    ) -> Page:
        """``found`` has one more than ``limit`` if there is a next page; ``cursor`` is of the last one shown.
        ``complete``: what takes more than a look, for some of them at a time.
        """
        return Page(found, min(len(found), self.limit), cursor, shape, complete, more=len(found) > self.limit)

    def page_of(self, all_of_them: Iterable[Item], cursor: Callable[[Item], str]) -> Page:
        """The same of a list that is there as a whole, in whatever order."""
        found = [one for one in all_of_them if self.after is None or cursor(one) > self.after]
        return self.page(nsmallest(self.limit + 1, found, key=cursor), cursor)

    def json(self) -> Fields:
        """The body as a JSON object."""
        with bad_request_if(ValueError):
            return Fields(fields.read_object(self.body))


@dataclass(frozen=True, slots=True)
class Body:
    """What came with a call, read before anybody acts on it: a JSON value, or what is wrong with it."""

    size: int = 0
    value: object = None
    wrong: str = ""


def read_body(data: bytes) -> Body:
    """A body need not be there."""
    try:
        return Body(len(data), fields.read_json(data)) if data else Body()
    except ValueError as error:
        return Body(len(data), wrong=str(error))


class Page:
    """Items, made a few at a time by whoever writes them, each with its cursor: a page of several nodes may end
    anywhere.
    """

    __slots__ = ("_found", "_count", "_cursor", "_shape", "_complete", "more")

    def __init__(
        self,
        found: Sequence[Any],
        count: int,
        cursor: Callable[[Any], str],
        shape: Callable[[Any], object] | None = None,
        complete: Callable[[Sequence[Any]], Awaitable[Sequence[Any]]] | None = None,
        *,
        more: bool = False,
    ) -> None:
        self._found = found
        self._count = count
        self._cursor = cursor
        self._shape = shape
        self._complete = complete
        self.more = more

    def __len__(self) -> int:
        return self._count

    async def part(self, begin: int, end: int) -> list[tuple[object, str]]:
        """Some of the items, with their cursors."""
        found = self._found[begin : min(end, self._count)]
        if self._complete is not None:
            found = await self._complete(found)
        cursor, shape = self._cursor, self._shape
        return [(one if shape is None else shape(one), cursor(one)) for one in found]


def whole(items: Sequence[object]) -> Mapping[str, object]:
    """All items as one page."""
    return {"items": items, "after": None}


def pair(first: str, second: str) -> str:
    """Two names in one word: both may hold any character, a slash included."""
    return f"{quote(first, safe='')}/{quote(second, safe='')}"


class Fields(fields.Fields):
    """A JSON object that is read field by field; what is wrong with it is a bad request."""

    __slots__ = ()

    wrong = staticmethod(bad_request)


def number_in(text: str, what: str, lowest: int = 0, highest: int = 9_999_999_999) -> int:
    """A whole number of a path or a query."""
    if not text.isascii() or not text.isdigit() or len(text) > 10 or not lowest <= int(text) <= highest:
        raise bad_request(f"{what} must be a number from {lowest} to {highest}, not {text!r}")
    return int(text)


def path_segments(path: bytes) -> list[str]:
    """The names between slashes."""
    try:
        return list(map(name_in, path.lstrip(b"/").split(b"/")))
    except UnicodeDecodeError as error:
        raise bad_request("the path is not UTF-8") from error


def read_query(query: bytes, known: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a query, each known and given once."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError as error:
        raise bad_request("the query is not percent-encoded UTF-8") from error
    values: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            raise bad_request(f"unknown parameter {name!r}; known are: {', '.join(known) or 'none'}")
        if name in values:
            raise bad_request(f"parameter {name!r} is given twice")
        values[name] = value
    return values
