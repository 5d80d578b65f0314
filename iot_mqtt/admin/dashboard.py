"""The dashboard's files as answers: what ``web/`` was built to, in ``static`` beside this module.

The index is asked for anew each time and has an ETag; everything else has a digest in its name and is kept by browsers
for good. All of it is read once, and again when the index is another one: a file that was not there then is no answer,
whatever a path says. Where nothing is built there is a page that says how.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path
from typing import Final

__all__ = ["BUILT", "Dashboard", "Page", "Sockets"]

#: Whether it is over TLS, and the port, of each WebSocket port of the node.
Sockets = Callable[[], Iterable[tuple[bool, int]]]
#: What may stand in a policy: a name or an address, as browsers send it in Host, without the port.
_HOST: Final = re.compile(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")

#: Where ``scripts/setup.sh web`` puts it.
BUILT: Final = Path(__file__).with_name("static")
#: Files that are read, and bytes of one.
MOST_FILES: Final = 500
MOST_BYTES: Final = 8 * 1024 * 1024
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
#: What a browser may take instead, the smallest first, and how such a file ends.
_PACKED: Final = (("br", ".br"), ("gzip", ".gz"))
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'{sockets}; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_GUARDS: Final = {
    "content-security-policy": _POLICY.format(sockets=""),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_UNBUILT: Final = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>iot-mqtt</title>
<h1>The dashboard is not built yet</h1>
<p>In a checkout <code>make run</code> builds it meanwhile, where Node.js 20.19 or newer and npm are there;
<code>make dashboard</code> does it now and says what is missing. This page looks again every five seconds.</p>
<p>The API does not need it: <a href="/api/v1/openapi.json">/api/v1</a>, <code>iot-mqtt ctl</code>.</p>
"""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer as it leaves."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _File:
    type: str
    etag: str
    plain: bytes
    #: Content coding to bytes, the smallest first.
    packed: Mapping[str, bytes]


class Dashboard:
    """The files of a folder. ``page`` looks at the disk only for the index, and reads only what has changed."""

    def __init__(self, folder: Path = BUILT, sockets: Sockets = tuple) -> None:
        """``sockets``: where the page may be a client of the broker, at the host that it came from."""
        self._folder = folder
        self._sockets = sockets
        self._files: dict[str, _File] = {}
        self._version: tuple[int, int] | None = None

    def page(self, segments: Sequence[str], accepted: str, known: str, host: str = "") -> Page | None:
        """What stands at a path; None: nothing of ours. ``accepted``: Accept-Encoding; ``known``: If-None-Match;
        ``host``: Host.
        """
        path = "/".join(segments) or _INDEX
        if path == _INDEX:
            self._look()
            if _INDEX not in self._files:
                headers = {**_GUARDS, "content-type": _TYPES[".html"], "cache-control": "no-store", "retry-after": "5"}
                return Page(HTTPStatus.SERVICE_UNAVAILABLE, headers, _UNBUILT)
        elif not self._files:
            self._look()
        file = self._files.get(path)
        if file is None:
            return None
        answer = _answer(file, accepted, known, keep=path.startswith("assets/"))
        return replace(answer, headers={**answer.headers, **self._policy(host)}) if path == _INDEX else answer

    def _policy(self, host: str) -> dict[str, str]:
        """What the document may: to the WebSocket ports of this node and no other."""
        found = _HOST.fullmatch(host)
        name = None if found is None else found[1]
        addresses = (
            [] if name is None else [f" {'wss' if tls else 'ws'}://{name}:{port}" for tls, port in self._sockets()]
        )
        return {"content-security-policy": _POLICY.format(sockets="".join(addresses))}

    def _look(self) -> None:
        """Read everything again if it was built again. The index is written last."""
        try:
            stat = (self._folder / _INDEX).stat()
        except OSError:
            self._files, self._version = {}, None
            return
        version = (stat.st_mtime_ns, stat.st_size)
        if version != self._version:
            self._files, self._version = _read(self._folder), version


def _read(folder: Path) -> dict[str, _File]:
    found = [one for one in sorted(folder.rglob("*"))[: 3 * MOST_FILES] if one.suffix in _TYPES and one.is_file()]
    return {one.relative_to(folder).as_posix(): _file(one) for one in found if one.stat().st_size <= MOST_BYTES}


def _file(path: Path) -> _File:
    plain = path.read_bytes()
    packed = {}
    for coding, suffix in _PACKED:
        beside = path.with_name(path.name + suffix)
        if beside.is_file():
            packed[coding] = beside.read_bytes()
    return _File(_TYPES[path.suffix], f'"{hashlib.sha256(plain).hexdigest()[:32]}"', plain, packed)


def _answer(file: _File, accepted: str, known: str, *, keep: bool) -> Page:
    caching = "public, max-age=31536000, immutable" if keep else "no-cache"
    headers = {**_GUARDS, "cache-control": caching, "etag": file.etag, "vary": "Accept-Encoding"}
    if file.etag in [one.strip().removeprefix("W/") for one in known.split(",")]:
        return Page(HTTPStatus.NOT_MODIFIED, headers, b"")
    headers["content-type"] = file.type
    takes = _codings(accepted)
    for coding, body in file.packed.items():
        if coding in takes:
            return Page(HTTPStatus.OK, {**headers, "content-encoding": coding}, body)
    return Page(HTTPStatus.OK, headers, file.plain)


def _codings(accepted: str) -> set[str]:
    """What a browser takes; a coding with the weight nought it does not."""
    found = (one.strip().lower().partition(";") for one in accepted.split(","))
    return {name.strip() for name, _, weight in found if weight.strip() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")}
