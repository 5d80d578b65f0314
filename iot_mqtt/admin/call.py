"""One call of the API as values: what was asked for, already decoded, and readers that refuse what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, quote, unquote, unquote_to_bytes

from iot_mqtt.admin.callers import Caller
from iot_mqtt.admin.errors import bad_request
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
            raise bad_request("after must be what the page before gave")
        return unquote(first), unquote(second)

    @property
    def limit(self) -> int:
        """How many items a page may have."""
        text = self.query.get("limit", str(DEFAULT_LIMIT))
        if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
            raise bad_request(f"limit must be a number from 1 to {MAX_LIMIT}, not {text!r}")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """A parameter that is true or false; None: it is not given."""
        text = self.query.get(name)
        if text not in (None, "true", "false"):
            raise bad_request(f"{name} must be true or false, not {text!r}")
        return None if text is None else text == "true"

    def page(
        self, found: Sequence[Item], cursor: Callable[[Item], str], shape: Callable[[Item], object] | None = None
    ) -> Page:
        """``found`` has one more than ``limit`` if there is a next page; ``cursor`` is of the last one shown."""
        shown = found[: self.limit]
        items = shown if shape is None else list(map(shape, shown))
        return Page(items, list(map(cursor, shown)), more=len(found) > len(shown))

    def json(self) -> Fields:
        """The body as a JSON object."""
        try:
            return Fields(fields.read_object(self.body))
        except ValueError as error:
            raise bad_request(str(error)) from error


class Page(dict[str, object]):
    """Items as they are answered. ``cursors`` of all of them: a page of several nodes may end anywhere."""

    def __init__(self, items: Sequence[object], cursors: Sequence[str], *, more: bool) -> None:
        super().__init__(items=items, after=cursors[-1] if more else None)
        self.shown = items
        self.cursors = cursors
        self.more = more


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


def path_segments(path: bytes) -> list[str]:
    """The parts between slashes, percent-decoded one by one, so that an encoded slash stays inside its part."""
    try:
        return [unquote_to_bytes(part).decode() for part in path.lstrip(b"/").split(b"/")]
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
