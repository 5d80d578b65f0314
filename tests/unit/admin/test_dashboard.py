"""The dashboard's files at the admin port: what browsers keep, what they may do, and what is no file of ours."""

from __future__ import annotations

import gzip
import os
from http import HTTPStatus
from pathlib import Path

import pytest

from iot_mqtt.admin.dashboard import Dashboard, Page

_SCRIPT = b"console.log('x')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As it is built."""
    (tmp_path / "static" / "assets").mkdir(parents=True)
    static = tmp_path / "static"
    (static / "index.html").write_bytes(b"<!doctype html>1")
    (static / "assets" / "index-abc.js").write_bytes(_SCRIPT)
    (static / "assets" / "index-abc.js.gz").write_bytes(gzip.compress(_SCRIPT))
    (static / "assets" / "index-abc.js.br").write_bytes(b"brotli")
    (static / ".setup").write_bytes(b"digest")
    (tmp_path / "secret.js").write_bytes(b"secret")
    return static


def asked(dashboard: Dashboard, path: str, accepted: str = "", known: str = "") -> Page:
    page = dashboard.page(path.split("/"), accepted, known)
    assert page is not None
    return page


def test_the_index_is_asked_for_each_time_and_sent_when_it_is_another(folder: Path) -> None:
    dashboard = Dashboard(folder)
    first = asked(dashboard, "")
    assert (first.status, first.body) == (HTTPStatus.OK, b"<!doctype html>1")
    assert first.headers["cache-control"] == "no-cache"
    etag = first.headers["etag"]
    same = asked(dashboard, "", known=f'"other", W/{etag}')
    assert (same.status, same.body) == (HTTPStatus.NOT_MODIFIED, b"")
    (folder / "index.html").write_bytes(b"<!doctype html>new")
    assert asked(dashboard, "", known=etag).body == b"<!doctype html>new"


def test_what_is_named_by_its_digest_is_kept_for_good_and_sent_packed(folder: Path) -> None:
    dashboard = Dashboard(folder)
    plain = asked(dashboard, "assets/index-abc.js")
    assert (plain.body, plain.headers["content-type"]) == (_SCRIPT, "text/javascript; charset=utf-8")
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert asked(dashboard, "assets/index-abc.js", "gzip, br").headers["content-encoding"] == "br"
    packed = asked(dashboard, "assets/index-abc.js", "gzip, br;q=0")
    assert (packed.headers["content-encoding"], gzip.decompress(packed.body)) == ("gzip", _SCRIPT)
    assert packed.headers["vary"] == "Accept-Encoding"


def test_a_page_runs_nothing_and_is_framed_by_nobody_but_us(folder: Path) -> None:
    for dashboard in (Dashboard(folder), Dashboard(folder / "nothing")):
        headers = asked(dashboard, "").headers
        policy = dict(one.split(" ", 1) for one in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:18083", "'self' ws://localhost:8083 wss://localhost:8084"),
        ("[::1]:18083", "'self' ws://[::1]:8083 wss://[::1]:8084"),
        ("broker.plant.example", "'self' ws://broker.plant.example:8083 wss://broker.plant.example:8084"),
        ("evil.example; script-src *", "'self'"),
        ("a b", "'self'"),
        ("*", "'self'"),
        ("", "'self'"),
    ],
)
def test_the_page_may_be_a_client_of_its_own_node_only(folder: Path, host: str, expected: str) -> None:
    """By the name that it was asked for; a name that is none adds nothing to the policy. Files get no such right."""
    dashboard = Dashboard(folder, sockets=lambda: [(False, 8083), (True, 8084)])

    def connects(path: str) -> str:
        page = dashboard.page(path.split("/"), "", "", host)
        assert page is not None
        return dict(one.split(" ", 1) for one in page.headers["content-security-policy"].split("; "))["connect-src"]

    assert connects("") == expected
    assert connects("assets/index-abc.js") == "'self'"


@pytest.mark.parametrize(
    "path",
    ["nothing", "assets", "assets/", ".setup", "../secret.js", "assets/../../secret.js", "assets/index-abc.js.gz"],
)
def test_there_is_nothing_else(folder: Path, path: str) -> None:
    dashboard = Dashboard(folder)
    asked(dashboard, "")
    assert dashboard.page(path.split("/"), "gzip", "") is None
    assert dashboard.page([path], "gzip", "") is None


def test_while_nothing_is_built_a_page_says_how(folder: Path) -> None:
    built = folder.rename(folder.with_name("later"))
    dashboard = Dashboard(folder)
    page = asked(dashboard, "")
    assert (page.status, page.headers["cache-control"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "no-store")
    assert b"make dashboard" in page.body
    os.rename(built, folder)
    assert asked(dashboard, "").body == b"<!doctype html>1"
    assert asked(dashboard, "assets/index-abc.js").body == _SCRIPT
