"""HTTP as links need it, against a server that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.web import AgentWeb, WebError
from iot_mqtt.pipeline.clock import ReactorClock
from tests.reactor import reactor, run

#: The test is.
over = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """What it answers is in the path."""

    def do_GET(self) -> None:
        if self.path == "/silent":
            over.wait(5)
            return
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "/fine")
            self.end_headers()
            return
        body = b"x" * (5000 if self.path == "/large" else 5)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + (10 if self.path == "/cut" else 0)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["X-Test"].encode() + b" " + body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        over.clear()
        yield f"http://127.0.0.1:{server.server_port}"
        over.set()
        server.shutdown()


@pytest.fixture
def web() -> Iterator[AgentWeb]:
    made = AgentWeb(reactor, ReactorClock(reactor))
    yield made
    run(_closed(made))


async def _closed(web: AgentWeb) -> None:
    await web.close()


def test_an_answer_is_status_and_body(server: str, web: AgentWeb) -> None:
    """Whatever the status is; redirections are not followed: who answers is who was asked."""
    assert run(web.get(f"{server}/fine", 5, 1000)) == (200, b"xxxxx")
    assert run(web.get(f"{server}/away", 5, 1000))[0] == 302
    assert run(web.post(f"{server}/", b"body", {"X-Test": "yes"}, 5, 1000)) == (200, b"yes body")


@pytest.mark.parametrize(
    ("path", "words"), [("/silent", "within 0.3 s"), ("/large", "more than 1000"), ("/cut", "cut short")]
)
def test_what_is_no_answer_is_said(server: str, web: AgentWeb, path: str, words: str) -> None:
    """Too late, too large, or with its end missing."""
    with pytest.raises(WebError, match=words):
        run(web.get(f"{server}{path}", 0.3 if path == "/silent" else 5, 1000))


def test_nobody_there(web: AgentWeb) -> None:
    """Also an answer, in a way."""
    with pytest.raises(WebError):
        run(web.get("http://127.0.0.1:1/", 5, 1000))


def test_whom_to_trust_must_be_certificates(tmp_path: Path) -> None:
    """The file is named."""
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    AgentWeb(reactor, ReactorClock(reactor), str(file))
    for text in ("nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        file.write_text(text)
        with pytest.raises(FileError, match=r"ca\.pem"):
            AgentWeb(reactor, ReactorClock(reactor), str(file))
