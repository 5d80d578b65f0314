"""The running node as ``ctl`` sees it: its admin API over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from itertools import islice
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import (
    BaseHandler,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from iot_mqtt.admin.paths import path_of
from iot_mqtt.app.ctl.errors import CtlError

Json = Any
#: What is asked of a list, by name; None: nothing.
Query = Mapping[str, object]

#: Items asked for at once.
PAGE = 1000

_TIMEOUT = 30.0


class NoSuch(CtlError):
    """404: there is no such client, session or topic."""


class Node:
    """The admin API of one node. Every method raises ``CtlError``."""

    def __init__(self, url: str, token: str, opener: OpenerDirector | None = None, on: str | None = None) -> None:
        """``on``: the name of the node that the calls are about, whichever answers at ``url``."""
        if not url.startswith(("http://", "https://")):
            raise CtlError(f"{url} is not an http:// or https:// URL")
        self.url = url.rstrip("/")
        self._token = token
        self._about = {} if on is None else {"node": on}
        #: Nodes that lists are without, and why.
        self.missing: dict[str, str] = {}
        #: What would change something is refused here.
        self.only_looks = False
        #: Seconds that a call may take.
        self.patience = _TIMEOUT
        self._opener = opener or tokens_opener()

    def get(self, *path: str, query: Query | None = None) -> Json:
        return json.loads(self._send("GET", self._api(path, query)))

    def listed(self, *path: str) -> list[Json]:
        """The items of a list that has no pages."""
        found = self.get(*path)
        self.note_missing(found)
        return list(found["items"])

    def delete(self, *path: str, query: Query | None = None) -> Json:
        """What the node says of it; None if it has nothing to say."""
        said = self._send("DELETE", self._api(path, query))
        return json.loads(said) if said else None

    def post(self, *path: str, body: Mapping[str, object], patience: float | None = None) -> Json:
        """What is None in ``body`` is left out. ``patience``: seconds, for what takes a node long."""
        said = {name: value for name, value in body.items() if value is not None}
        return json.loads(self._send("POST", self._api(path), _encoded(said), patience))

    def patch(self, *path: str, body: Json) -> Json:
        return json.loads(self._send("PATCH", self._api(path), _encoded(body)))

    def text(self, path: str) -> str:
        """A page outside the API, as it is."""
        return self._send("GET", path).decode()

    def items(self, *path: str, query: Query, limit: int | None) -> Iterator[Json]:
        """The items of all pages, fetched as they are needed."""
        pages = self.pages(*path, query=query, limit=limit)
        return islice((item for page in pages for item in page["items"]), limit)

    def note_missing(self, page: Json) -> None:
        """Remember who did not answer."""
        self.missing.update((one["node"], one["reason"]) for one in page.get("missing", ()))

    def pages(self, *path: str, query: Query, limit: int | None) -> Iterator[Json]:
        """All pages, fetched as they are needed, for whoever wants so many items."""
        size = min(PAGE, limit or PAGE)
        after: dict[str, str] = {}
        while True:
            page = self.get(*path, query={**query, **after, "limit": str(size)})
            self.note_missing(page)
            yield page
            if page["after"] is None:
                return
            after = {"after": page["after"]}

    def _api(self, path: tuple[str, ...], query: Query | None = None) -> str:
        given = {name: _worded(value) for name, value in (query or {}).items() if value is not None}
        asked = {**self._about, **given}
        with _text():
            text = "/api/v1/" + path_of(path)
            return f"{text}?{urlencode(asked)}" if asked else text

    def events(self, *path: str, query: Query) -> Iterator[tuple[str, Json]]:
        """Kind and value of events as they come, until the stream ends."""
        with self._open("GET", self._api(path, query)) as response, _failures(self.url):
            kind = ""
            for line in response:
                name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    yield kind, json.loads(value)

    def _send(self, method: str, path: str, body: bytes | None = None, patience: float | None = None) -> bytes:
        with self._open(method, path, body, patience) as response, _failures(self.url):
            data: bytes = response.read()
            return data

    def _open(self, method: str, path: str, body: bytes | None = None, patience: float | None = None) -> Any:
        if self.only_looks and method != "GET":
            raise CtlError("--watch is for what only looks: this would be done again and again")
        headers = {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = Request(f"{self.url}{path}", body, headers, method=method)  # noqa: S310 - checked in __init__
        with _failures(self.url):
            return self._opener.open(request, timeout=patience or self.patience)


@contextmanager
def _text() -> Iterator[None]:
    """Around the encoding of arguments: a shell passes any bytes."""
    try:
        yield
    except UnicodeEncodeError as error:
        shown = error.object[error.start : error.end].encode("ascii", "backslashreplace").decode()
        raise CtlError(f"an argument is no text in UTF-8: it has {shown}") from error


def _worded(value: object) -> str:
    """As the API takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encoded(body: Json) -> bytes:
    with _text():
        return json.dumps(body, ensure_ascii=False).encode()


class _NoRedirection(HTTPRedirectHandler):
    """Whoever answers does not say who else is sent the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


def tokens_opener(*handlers: BaseHandler) -> OpenerDirector:
    """The token goes to the node: to nobody between, and to nobody else."""
    return build_opener(ProxyHandler({}), _NoRedirection(), *handlers)


@contextmanager
def _failures(url: str) -> Iterator[None]:
    """Of the connection, and of the node, in words."""
    try:
        yield
    except HTTPError as error:
        raise _refusal(error) from error
    except URLError as error:
        raise CtlError(f"cannot reach {url}: {error.reason}; is the node running?") from error
    except (OSError, HTTPException) as error:
        raise CtlError(f"{url} does not answer: {error}") from error


def _refusal(error: HTTPError) -> CtlError:
    try:
        detail = json.loads(error.read())["detail"]
    except (ValueError, KeyError, TypeError, OSError):
        detail = f"the answer was {error.code} {error.reason}"
    return NoSuch(detail) if error.code == 404 else CtlError(detail)
