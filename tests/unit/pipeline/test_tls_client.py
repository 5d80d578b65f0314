"""TLS of a client: it is connected when it knows whom it talks to, and not before."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import blockingCallFromThread

from iot_mqtt.pipeline import Layout, ListenerSettings, TlsSettings
from iot_mqtt.pipeline.tls_client import ClientTls, TlsEndpoint

from .tls_kit import Echo, Files

if TYPE_CHECKING:
    from .conftest import Server


class Client(Protocol):
    """Says hello and keeps what comes."""

    transport: Any

    def __init__(self) -> None:
        self.received = b""
        self.made = self.lost = False

    def connectionMade(self) -> None:
        self.made = True
        self.transport.write(b"hello" * 20_000)

    def dataReceived(self, data: bytes) -> None:
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = True


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made once for all tests here."""
    return Files(tmp_path_factory.mktemp("client"))


def dial(server: Server, port: int, tls: ClientTls, host: str = "127.0.0.1", seconds: float = 5.0) -> Client:
    """Connect; raises what the endpoint fails with. In a thread."""
    plain = TCP4ClientEndpoint(server.reactor, "127.0.0.1", port, 5)
    endpoint = TlsEndpoint(plain, tls, host, seconds, server.reactor)
    found: Any = blockingCallFromThread(server.reactor, endpoint.connect, Factory.forProtocol(Client))
    assert isinstance(found, Client)
    return found


def until(server: Server, condition: Any) -> None:
    """In a thread; looked at in the reactor's."""
    for _ in range(500):
        if blockingCallFromThread(server.reactor, condition):
            return
    raise AssertionError("it did not come to pass")


def test_bytes_go_both_ways_with_certificates_of_both(server: Server, echo: Layout, files: Files) -> None:
    """And an end is heard of."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca)
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=settings))

    def client() -> None:
        it = dial(server, listening.port, ClientTls(files.ca, *files.client))
        until(server, lambda: len(it.received) == 100_000)
        assert it.received == b"hello" * 20_000
        server.reactor.callFromThread(it.transport.loseConnection)
        until(server, lambda: it.lost)

    server.run(client)
    assert Echo.names[0] == "device-7"


@pytest.mark.parametrize(
    ("ca", "host", "words"),
    [
        ("client_ca", "127.0.0.1", "unable to get local issuer"),
        ("ca", "ignite-1", "Hostname mismatch"),
        ("ca", "127.0.0.2", "IP address mismatch"),
    ],
)
def test_a_server_that_is_another_gets_nothing(
    server: Server, echo: Layout, files: Files, ca: str, host: str, words: str
) -> None:
    """Of another authority, or for another name."""
    settings = TlsSettings(files.certificate, files.key)
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=settings))

    def client() -> None:
        with pytest.raises(ConnectionError, match=words):
            dial(server, listening.port, ClientTls(getattr(files, ca)), host)

    server.run(client)
    assert Echo.names == []


def test_a_name_need_not_fit_where_that_was_said(server: Server, echo: Layout, files: Files) -> None:
    """The authority still has to."""
    settings = TlsSettings(files.certificate, files.key)
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=settings))
    tls = ClientTls(files.ca, check_hostname=False)

    def client() -> None:
        it = dial(server, listening.port, tls, "ignite-1")
        until(server, lambda: it.received)

    server.run(client)


def test_a_server_that_says_nothing_has_so_much_time(server: Server, files: Files) -> None:
    """A handshake is waited for, but not for ever; and one that ends at once is a failure."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as ending:
        tls = ClientTls(files.ca)

        def client() -> None:
            with pytest.raises(Exception, match=r"0\.2"):
                dial(server, silent.getsockname()[1], tls, seconds=0.2)

            def end() -> None:
                ending.accept()[0].close()

            threading.Thread(target=end, daemon=True).start()
            with pytest.raises(Exception, match=r"clean|lost"):
                dial(server, ending.getsockname()[1], tls)

        server.run(client)


def test_files_that_cannot_be_used_are_named(server: Server, files: Files, tmp_path: Path) -> None:
    """At the connection: they are read for each."""

    def client() -> None:
        with pytest.raises(ConnectionError, match=r"missing\.pem"):
            dial(server, 1, ClientTls(str(tmp_path / "missing.pem")))

    server.run(client)
