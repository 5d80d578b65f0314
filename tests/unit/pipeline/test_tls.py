"""TLS on loopback: who gets in, who does not, and that plain bytes never pass for anything."""

from __future__ import annotations

import gc
import socket
import ssl
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization

from iot_mqtt.codec import WrongPort
from iot_mqtt.pipeline import (
    Batch,
    CloseReason,
    Context,
    Layout,
    ListenerSettings,
    Stage,
    TlsConfigurationError,
    TlsContext,
    TlsEstablished,
    TlsSettings,
)
from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.tls_layer import TlsLayer
from iot_mqtt.pipeline.transport import ChannelTransport

from .tls_kit import Echo, Files, client_context, renew, talk

if TYPE_CHECKING:
    from .conftest import Server


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Made once for all tests here."""
    return Files(tmp_path_factory.mktemp("tls"))


def test_bytes_come_back_through_tls(server: Server, echo: Layout, files: Files) -> None:
    """Small and large; the stages learn which version is spoken."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))
    data = b"0123456789abcdef" * 60_000
    assert server.run(lambda: talk(listening.port, client_context(files), data)) == data
    assert Echo.events == [TlsEstablished("TLSv1.3", None)]


def test_tls_1_2_is_spoken_too(server: Server, echo: Layout, files: Files) -> None:
    """Devices stay in the field for long."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))
    context = client_context(files)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert server.run(lambda: talk(listening.port, context)) == b"hello"
    assert Echo.events == [TlsEstablished("TLSv1.2", None)]


def test_tls_1_1_is_refused(server: Server, echo: Layout, files: Files) -> None:
    """By the server, whatever the client's library would allow."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))
    context = client_context(files)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")

    def client() -> None:
        with pytest.raises(ssl.SSLError, match=r"(?i)version|alert"):
            talk(listening.port, context)

    server.run(client)
    assert Echo.names == []
    assert [reason.name for reason in Echo.ended if reason] == ["tls_failed"]


def test_the_minimum_can_be_raised(server: Server, echo: Layout, files: Files) -> None:
    """To 1.3."""
    settings = TlsSettings(files.certificate, files.key, min_version="1.3")
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=settings))
    context = client_context(files)
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    def client() -> None:
        with pytest.raises(ssl.SSLError):
            talk(listening.port, context)

    server.run(client)


def test_plain_bytes_on_the_tls_port_are_refused(server: Server, echo: Layout, files: Files) -> None:
    """A CONNECT in the clear is not read, and nothing in the clear comes back."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))

    def client() -> bytes:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as sock:
            sock.sendall(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a")
            answer = b""
            try:
                while piece := sock.recv(1000):
                    answer += piece
            except ConnectionResetError:
                pass
            return answer

    assert server.run(client)[:1] in (b"", b"\x15")  # nothing, or a TLS alert
    assert Echo.names == []
    assert [str(reason) for reason in Echo.ended if reason] == [f"tls_failed: {WrongPort.PLAIN_MQTT}"]


def test_a_client_certificate_gives_the_channel_its_name(server: Server, echo: Layout, files: Files) -> None:
    """The common name of its subject."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca)
    listening = server.listen(echo, ListenerSettings("mtls", port=0, tls=settings))
    assert server.run(lambda: talk(listening.port, client_context(files, files.client))) == b"hello"
    assert Echo.names == ["device-7"]
    assert Echo.events == [TlsEstablished("TLSv1.3", "device-7")]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("who", ["stranger", "expired", "nobody"])
def test_a_client_that_cannot_prove_itself_is_refused(
    server: Server, echo: Layout, files: Files, who: str, version: ssl.TLSVersion
) -> None:
    """A wrong authority, an expired certificate, none at all; nothing of what it sent is read."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca)
    listening = server.listen(echo, ListenerSettings("mtls", port=0, tls=settings))
    context = client_context(files, None if who == "nobody" else getattr(files, who))
    context.minimum_version = context.maximum_version = version

    def client() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(listening.port, context)

    server.run(client)
    assert Echo.names == []
    assert [reason.name for reason in Echo.ended if reason] == ["tls_failed"]


def test_client_certificates_can_be_optional_but_never_wrong(server: Server, echo: Layout, files: Files) -> None:
    """Without one there is no name; a wrong one is still refused."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca, require_client_certificate=False)
    listening = server.listen(echo, ListenerSettings("mtls", port=0, tls=settings))

    def client() -> None:
        assert talk(listening.port, client_context(files)) == b"hello"
        assert talk(listening.port, client_context(files, files.client)) == b"hello"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(listening.port, client_context(files, files.stranger))

    server.run(client)
    assert Echo.names == [None, "device-7"]


def test_a_client_that_does_not_know_our_authority_goes_away(server: Server, echo: Layout, files: Files) -> None:
    """The wrong CA, seen from the other side."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))
    context = ssl.create_default_context(cafile=files.client_ca)

    def client() -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            talk(listening.port, context)

    server.run(client)
    assert Echo.names == []


def test_a_proxy_header_comes_in_the_clear_before_the_handshake(server: Server, echo: Layout, files: Files) -> None:
    """In a segment of its own or glued to the ClientHello."""
    settings = ListenerSettings(
        "tls",
        port=0,
        proxy_protocol=True,
        trusted_proxies=("127.0.0.1",),
        tls=TlsSettings(files.certificate, files.key),
    )
    listening = server.listen(echo, settings)
    header = b"PROXY TCP4 198.51.100.7 203.0.113.5 51234 8883\r\n"

    def glued() -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(files).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as sock:
            prefix = header
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    sock.sendall(prefix + outgoing.read())
                    prefix = b""
                    incoming.write(sock.recv(65536))
            tls.write(b"hello")
            sock.sendall(outgoing.read())
            while True:
                try:
                    return tls.read(100)
                except ssl.SSLWantReadError:
                    incoming.write(sock.recv(65536))

    def client() -> None:
        assert talk(listening.port, client_context(files), before=header) == b"hello"
        assert glued() == b"hello"

    server.run(client)
    assert len(Echo.names) == 2


def test_one_port_tells_tls_from_plain_mqtt(server: Server, echo: Layout, files: Files) -> None:
    """And detects again inside TLS."""
    settings = ListenerSettings("any", port=0, detect=True, tls=TlsSettings(files.certificate, files.key))
    listening = server.listen(echo, settings)

    def client() -> None:
        assert talk(listening.port, client_context(files), b"\x10hello") == b"\x10hello"
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as sock:
            sock.sendall(b"\x10plain")
            assert sock.recv(100) == b"\x10plain"

    server.run(client)


def test_a_close_over_tls_flushes_and_says_so(server: Server, files: Files) -> None:
    """The client gets the last bytes and a proper end, not a truncation."""

    class Bye(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            ctx.write([b"x" * 3_000_000])
            ctx.close(CloseReason("bye"))

    settings = ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key))
    listening = server.listen(Layout([("bye", Bye)]), settings)

    def client() -> int:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw:
            context = client_context(files)
            with context.wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as sock:
                sock.sendall(b"x")
                total = 0
                while piece := sock.recv(1 << 16):
                    total += len(piece)
                return total

    assert server.run(client) == 3_000_000


def test_certificates_can_be_renewed_while_running(server: Server, echo: Layout, files: Files, tmp_path: Path) -> None:
    """New connections see the new one; files that cannot be used change nothing."""
    mine = Files(tmp_path)
    settings = ListenerSettings("tls", port=0, tls=TlsSettings(mine.certificate, mine.key))
    listening = server.listen(echo, settings)

    def serial() -> int:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            client_context(mine).wrap_socket(raw, server_hostname="127.0.0.1") as sock,
        ):
            found = sock.getpeercert()
            assert found is not None
            return int(str(found["serialNumber"]), 16)

    def client() -> None:
        assert listening.tls is not None
        first = serial()
        mine.save("server", mine.authority.issue_cert("localhost", "127.0.0.1"))
        renew(listening.tls, changed_only=False)
        second = serial()
        assert second != first
        Path(mine.key).write_text("not a key")
        with pytest.raises(TlsConfigurationError):
            renew(listening.tls, changed_only=False)
        assert serial() == second

    server.run(client)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"certificate": "missing.pem"}, "missing.pem"),
        ({"key": "missing.key"}, "missing.key"),
        ({"client_ca": "missing-ca.pem"}, "missing-ca.pem"),
        ({"ciphers": "NO-SUCH-CIPHER"}, "NO-SUCH-CIPHER"),
        ({"min_version": "1.1"}, "1.1"),
    ],
)
def test_files_and_options_that_cannot_be_used_are_named(files: Files, changes: dict[str, str], words: str) -> None:
    """At start, not at the first connection."""
    values = {"certificate": files.certificate, "key": files.key} | changes
    with pytest.raises(TlsConfigurationError, match=words):
        TlsContext(TlsSettings(**values))  # type: ignore[arg-type]


def test_a_key_of_another_certificate_is_refused(files: Files) -> None:
    """A mix-up of files."""
    with pytest.raises(TlsConfigurationError):
        TlsContext(TlsSettings(files.certificate, files.client[1]))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_that_comes_back_goes_on_with_its_session(
    server: Server, echo: Layout, files: Files, version: ssl.TLSVersion
) -> None:
    """No signature the second time, and it is still known whose certificate it was."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca)
    listening = server.listen(echo, ListenerSettings("mtls", port=0, tls=settings))
    context = client_context(files, files.client)
    context.minimum_version = context.maximum_version = version

    def visit(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as sock,
        ):
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
            return sock.session, sock.session_reused

    def client() -> list[bool | None]:
        session, first = visit(None)
        session, second = visit(session)
        return [first, second, visit(session)[1]]

    assert server.run(client) == [False, True, True]
    assert Echo.names == ["device-7"] * 3


def test_what_nobody_could_have_encrypted_ends_the_connection(server: Server, echo: Layout, files: Files) -> None:
    """What came before it is read, and an alert says so."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))

    def client() -> None:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw:
            plain = raw.dup()
            with plain, client_context(files).wrap_socket(raw, server_hostname="127.0.0.1") as sock:
                sock.sendall(b"hello")
                assert sock.recv(5) == b"hello"
                plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
                with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
                    sock.recv(5)

    server.run(client)
    assert [reason.name for reason in Echo.ended if reason] == ["tls_failed"]


def test_a_client_that_says_that_it_ends_gets_an_end(server: Server, echo: Layout, files: Files) -> None:
    """Its close_notify is answered by one, not by a truncation."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))

    def client() -> None:
        with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw:
            sock = client_context(files).wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
            sock.unwrap().close()

    server.run(client)
    assert [reason.name for reason in Echo.ended if reason] == ["peer_closed"]


def test_a_slow_reader_gets_all_of_it(server: Server, files: Files) -> None:
    """What the kernel does not take waits, and in the right order."""

    class Much(Stage):
        def read(self, ctx: Context, batch: Batch) -> None:
            for number in range(2000):
                ctx.write([number.to_bytes(4, "big") * 1000])
                ctx.flush()

    settings = ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key))
    listening = server.listen(Layout([("much", Much)]), settings)

    def client() -> bytes:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            client_context(files).wrap_socket(raw, server_hostname="127.0.0.1") as sock,
        ):
            sock.sendall(b"x")
            received = bytearray()
            while len(received) < 8_000_000:
                received += sock.recv(1 << 16)
            return bytes(received)

    assert server.run(client) == b"".join(number.to_bytes(4, "big") * 1000 for number in range(2000))


def test_an_encrypted_key_is_refused(files: Files, tmp_path: Path) -> None:
    """Nobody sits at a terminal to be asked for a passphrase."""
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    encrypted = tmp_path / "encrypted.key"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(TlsConfigurationError, match="encrypted"):
        TlsContext(TlsSettings(files.certificate, str(encrypted)))


def test_a_lost_connection_is_freed_without_the_collector(server: Server, echo: Layout, files: Files) -> None:
    """Half a handshake holds much, and whoever makes many of them closes many."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))

    def attack() -> None:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw:
                raw.sendall(b"\x16\x03\x01\x40\x00\x01\x01\xff\xff\x03\x03" + bytes(30_000))
        with client_context(files).wrap_socket(
            socket.create_connection(("127.0.0.1", listening.port), timeout=5), server_hostname="127.0.0.1"
        ) as sock:
            sock.sendall(b"hello")
            assert sock.recv(100) == b"hello"
        deadline = time.monotonic() + 10
        while listening.counts.open and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # what was on the stack of the reactor's thread is gone, too

    def alive() -> dict[int, object]:
        return {id(one): one for one in gc.get_objects() if isinstance(one, TlsLayer | ChannelTransport | Channel)}

    gc.collect()
    gc.disable()
    try:
        before = alive()
        server.run(attack)
        assert alive().keys() <= before.keys()
    finally:
        gc.enable()
