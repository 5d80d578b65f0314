"""HTTP as links need it, against a server that misbehaves."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from twisted.internet.protocol import Factory
from twisted.internet.testing import AccumulatingProtocol, StringTransport
from twisted.protocols.policies import WrappingFactory

from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.web import AgentWeb, Unreachable, WebError
from iot_mqtt.auth.web_connections import MOST_INTERIM, Connection
from iot_mqtt.pipeline.clock import ReactorClock
from tests.reactor import reactor, run, until

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
    for url in ("http://127.0.0.1:1/", "http://nobody.invalid/"):
        with pytest.raises(Unreachable):
            run(web.get(url, 5, 1000))


def test_whom_to_trust_must_be_certificates(tmp_path: Path) -> None:
    """The file is named."""
    file = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(file)
    AgentWeb(reactor, ReactorClock(reactor), str(file))
    for text in ("nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        file.write_text(text)
        with pytest.raises(FileError, match=r"ca\.pem"):
            AgentWeb(reactor, ReactorClock(reactor), str(file))


class Endless:
    """A server of TLS that goes on for as long as somebody takes it, and never says that it has heard of an end."""

    def __init__(self, folder: Path, head: bytes, more: bytes, pause: float) -> None:
        authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(self._context)
        self._said = head, more, pause
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://localhost:{self._listening.getsockname()[1]}/"
        self.sent = 0
        self.gone = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        head, more, pause = self._said
        try:
            with self._context.wrap_socket(self._listening.accept()[0], server_side=True) as client:
                client.settimeout(5)
                client.recv(65536)
                client.sendall(head)
                while self.sent < 50_000_000 and not over.wait(pause):
                    client.sendall(more)
                    self.sent += len(more)
        except OSError:
            self.gone.set()

    def close(self) -> None:
        self._listening.close()


@contextmanager
def answering(folder: Path, head: bytes, more: bytes, pause: float) -> Iterator[tuple[Endless, AgentWeb]]:
    """Such a server, and who may ask it."""
    over.clear()
    server = Endless(folder, head, more, pause)
    web = AgentWeb(reactor, ReactorClock(reactor), server.ca)
    try:
        yield server, web
    finally:
        over.set()
        server.close()
        run(_closed(web))


HEAD = b"HTTP/1.1 200 OK\r\n"


class Silent:
    """A server that says nothing of closing a connection: it answers so many requests of each, and takes one more."""

    def __init__(self, *answered: int) -> None:
        self._answered = answered
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self.asked: list[int] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for number, answered in enumerate(self._answered):
            try:
                with self._listening.accept()[0] as client, client.makefile("rb") as lines:
                    client.settimeout(5)
                    for _ in range(answered + 1):
                        length = 0
                        while (line := lines.readline().lower()) != b"\r\n":
                            length = int(line.partition(b":")[2]) if line.startswith(b"content-length") else length
                        lines.read(length)
                        self.asked.append(number)
                        if self.asked.count(number) <= answered:
                            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
            except OSError:
                return

    def close(self) -> None:
        self._listening.close()


def test_what_a_kept_connection_loses_is_asked_once_more(web: AgentWeb) -> None:
    """On a new one, if no byte of an answer came (RFC 9112, 9.5); what a new one loses is lost."""
    server = Silent(1, 1, 0)
    try:
        for _ in range(2):
            assert run(web.post(server.url, b"body", {}, 5, 1000)) == (200, b"fine")
        assert server.asked == [0, 0, 1]
    finally:
        server.close()
    server = Silent(0, 1)
    try:
        with pytest.raises(WebError):
            run(web.post(server.url, b"body", {}, 5, 1000))
        assert server.asked == [0]
        assert run(web.post(server.url, b"body", {}, 5, 1000)) == (200, b"fine")
    finally:
        server.close()


def test_what_a_kept_connection_loses_twice_is_lost(web: AgentWeb) -> None:
    """No third question."""
    server = Silent(1, 0, 1)
    try:
        assert run(web.post(server.url, b"body", {}, 5, 1000)) == (200, b"fine")
        with pytest.raises(WebError):
            run(web.post(server.url, b"body", {}, 5, 1000))
        assert server.asked == [0, 0, 1]
    finally:
        server.close()


CONTINUE, HINTS = b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


@pytest.mark.parametrize("interim", [CONTINUE, HINTS, CONTINUE.replace(b"\r", b"")])
@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_interim_answers_are_counted(interim: bytes, cut: int) -> None:
    """Before the agent sees them, however they come: a hundred thousand took the loop half a second."""
    for number in (MOST_INTERIM, MOST_INTERIM + 1):
        agent: Any = AccumulatingProtocol()
        transport = StringTransport()
        connection: Any = Connection(WrappingFactory(Factory()), agent)
        connection.makeConnection(transport)
        connection.write(b"GET")
        sent = interim * number
        for at in range(0, len(sent), cut):
            connection.dataReceived(sent[at : at + cut])
        assert transport.disconnecting == (number > MOST_INTERIM)
        assert agent.data.count(b"HTTP/1.1 1") <= MOST_INTERIM + 1


def test_interim_answers_come_to_an_end(tmp_path: Path) -> None:
    """The bound is far from this."""
    with answering(tmp_path, b"", CONTINUE * 10, 0.001) as (server, web):
        with pytest.raises(WebError, match="head has no end"):
            run(web.get(server.url, 5.0, 1000))
        until(server.gone.is_set, 3.0)
        assert server.sent < 200_000


@pytest.mark.parametrize("body", [5000, 300_000])
def test_the_bound_of_a_head_is_not_that_of_its_body(tmp_path: Path, body: int) -> None:
    """Whether they come at once or not."""
    head = HINTS * 5 + HEAD + f"Content-Length: {body}\r\n\r\n".encode()
    with answering(tmp_path, head + b"x" * body, b"", 0.1) as (server, web):
        assert run(web.get(server.url, 5.0, body)) == (200, b"x" * body)


@pytest.mark.parametrize(
    ("head", "more", "pause", "patience", "words"),
    [
        (HEAD + b"\r\n", b" " * 65536, 0.0, 5.0, "more than 1000"),
        (HEAD + b"\r\n", b" ", 0.01, 0.3, "within 0.3 s"),
        (HEAD, b"a: b\r\n" * 5000, 0.0, 5.0, "head has no end"),
    ],
)
def test_over_tls_an_answer_without_an_end_is_hung_up_on(
    tmp_path: Path, head: bytes, more: bytes, pause: float, patience: float, words: str
) -> None:
    """At once: the peer is not waited for, who may say more meanwhile, or nothing at all."""
    with answering(tmp_path, head, more, pause) as (server, web):
        with pytest.raises(WebError, match=words):
            run(web.get(server.url, patience, 1000))
        until(server.gone.is_set, 3.0)
        assert server.sent < 20_000_000
