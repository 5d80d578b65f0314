"""Certificates of servers by name, lists of revoked ones of clients, and new files while connections go on."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from iot_mqtt.pipeline import Layout, ListenerSettings, Listening, TlsConfigurationError, TlsContext, TlsSettings
from iot_mqtt.pipeline.certificates import read_certificate
from iot_mqtt.pipeline.login_budget import LoginBudget
from iot_mqtt.pipeline.reasons import TLS_HANDSHAKES

from .tls_kit import Echo, Files, client_context, renew, talk

#: `make quick` leaves it out.
pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .conftest import Server

DAY = datetime.timedelta(days=1)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Each test changes them."""
    return Files(tmp_path)


def revoke(
    files: Files,
    *certificates: str,
    name: str = "crl",
    until: datetime.timedelta = DAY,
    of: trustme.CA | None = None,
) -> str:
    """The client authority's list of those, or another authority's."""
    now = datetime.datetime.now(tz=datetime.UTC)
    issuer = of or files.client_authority
    authority = x509.load_pem_x509_certificate(issuer.cert_pem.bytes())
    key = serialization.load_pem_private_key(issuer.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    builder = builder.last_update(now - 10 * DAY).next_update(now + until)
    for certificate in certificates:
        serial = x509.load_pem_x509_certificate(Path(certificate).read_bytes()).serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - DAY).build()
        builder = builder.add_revoked_certificate(revoked)
    path = files.folder / f"{name}.pem"
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return str(path)


def mutual(files: Files, *crl: str) -> ListenerSettings:
    """A port that asks for certificates."""
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca, crl=crl)
    return ListenerSettings("mtls", port=0, tls=settings)


def of(listening: Listening) -> TlsContext:
    """Its context."""
    assert listening.tls is not None
    return listening.tls


def seen(port: int, files: Files, name: str | None) -> tuple[str, ...]:
    """For which names the certificate is that a client gets who asks for one."""
    context = client_context(files)
    context.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
        context.wrap_socket(raw, server_hostname=name) as sock,
    ):
        found = sock.getpeercert()
        assert found is not None
        return tuple(str(pair[1]) for pair in found["subjectAltName"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_revoked_client_is_refused_and_told_so(
    server: Server, echo: Layout, files: Files, version: ssl.TLSVersion
) -> None:
    """By its own alert; another of the same authority gets in."""
    other = files.save("other", files.client_authority.issue_cert("o@example.org", common_name="device-8"))
    listening = server.listen(echo, mutual(files, revoke(files, files.client[0])))

    def client() -> None:
        for certificate, good in ((files.client, False), (other, True)):
            context = client_context(files, certificate)
            context.minimum_version = context.maximum_version = version
            if good:
                assert talk(listening.port, context) == b"hello"
            else:
                with pytest.raises(ssl.SSLError, match=r"(?i)alert.certificate.revoked"):
                    talk(listening.port, context)

    server.run(client)
    assert Echo.names == ["device-8"]
    assert dict(of(listening).failures) == {"certificate_revoked": 1}
    assert next(str(one) for one in Echo.ended if one) == "tls_failed: the client's certificate: certificate revoked"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_ticket_is_no_way_around_revocation(
    server: Server, echo: Layout, files: Files, version: ssl.TLSVersion
) -> None:
    """Who was let in, and is revoked then, doesn't come back without showing its certificate."""
    listening = server.listen(echo, mutual(files, revoke(files)))
    context = client_context(files, files.client)
    context.minimum_version = context.maximum_version = version

    def visit(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as sock,
        ):
            sock.sendall(b"hello")
            assert sock.recv(5) == b"hello"
            assert sock.session_reused is (session is not None)
            return sock.session

    def client() -> None:
        session = visit(visit(None))
        revoke(files, files.client[0])
        renew(of(listening), changed_only=False)
        with pytest.raises(ssl.SSLError, match=r"(?i)revoked"):
            visit(session)

    server.run(client)


@pytest.mark.parametrize("names", [4500, 8000])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_certificate_that_is_too_large_is_called_so(
    server: Server, echo: Layout, files: Files, version: ssl.TLSVersion, names: int
) -> None:
    """For a session ticket, which OpenSSL calls an internal error, or for OpenSSL."""
    issued = files.client_authority.issue_cert(*(f"name-{number}.example" for number in range(names)))
    listening = server.listen(echo, mutual(files))

    def client() -> None:
        context = client_context(files, files.save("large", issued))
        context.minimum_version = context.maximum_version = version
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(listening.port, context)

    server.run(client)
    assert dict(of(listening).failures) == {"too_large": 1}
    said = "the client's certificate is too large" if names == 4500 else "excessive message size"
    assert next(str(one) for one in Echo.ended if one) == f"tls_failed: {said}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("over", "kind", "words"),
    [
        ("certificate", "certificate_expired", "certificate has expired"),
        ("authority", "certificate_expired", "certificate has expired"),
        ("list", "crl_not_valid", "CRL has expired"),
        ("list of the root", "crl_not_valid", "CRL has expired"),
    ],
)
def test_a_session_ticket_is_no_way_around_time(
    server: Server,
    echo: Layout,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    version: ssl.TLSVersion,
    over: str,
    kind: str,
    words: str,
) -> None:
    """Who was let in doesn't come back once its certificate is over, or that of an authority, or a list of one."""
    now = datetime.datetime.now(tz=datetime.UTC)
    root = files.client_authority
    below = root.create_child_ca()
    with Path(files.client_ca).open("ab") as authorities:
        authorities.write(below.cert_pem.bytes())
    root_ends = x509.load_pem_x509_certificate(root.cert_pem.bytes()).not_valid_after_utc
    later = now + 2 * DAY if over != "authority" else root_ends
    ends = now + DAY if over == "certificate" else later + DAY
    made = below.issue_cert("x@example.org", common_name="device-9", not_after=ends)
    crl = []
    if "list" in over:
        crl.append(revoke(files, until=DAY if over == "list of the root" else 9 * DAY))
        crl.append(revoke(files, name="below", until=DAY if over == "list" else 9 * DAY, of=below))
    listening = server.listen(echo, mutual(files, *crl))
    context = client_context(files, files.save("short", made))
    context.minimum_version = context.maximum_version = version

    def visit(session: ssl.SSLSession | None) -> ssl.SSLSession | None:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as sock,
        ):
            assert sock.session_reused is (session is not None)
            sock.sendall(b"hello")
            if not sock.recv(5):
                raise ConnectionError("closed")
            return sock.session

    def client() -> None:
        session = visit(visit(None))
        monkeypatch.setattr("iot_mqtt.pipeline.resumed.time", SimpleNamespace(time=later.timestamp))
        with pytest.raises((ssl.SSLError, ConnectionError)):
            visit(session)

    server.run(client)
    assert Echo.names == ["device-9"] * 2
    assert dict(of(listening).failures) == {kind: 1}
    assert str(Echo.ended[-1]) == f"tls_failed: the client's certificate: {words}"


@pytest.mark.parametrize(("which", "kind"), [("old", "crl_not_valid"), ("foreign", "no_crl")])
def test_without_a_valid_list_nobody_gets_in(
    server: Server, echo: Layout, files: Files, tmp_path: Path, which: str, kind: str
) -> None:
    """An authority whose list is out of date, or is not there: who is revoked is not known."""
    if which == "old":
        crl = revoke(files, until=-DAY)
    else:
        (tmp_path / "others").mkdir()
        others = Files(tmp_path / "others")
        crl = revoke(others)
        with Path(files.client_ca).open("ab") as authorities:
            authorities.write(others.client_authority.cert_pem.bytes())
    listening = server.listen(echo, mutual(files, crl))

    def client() -> None:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(listening.port, client_context(files, files.client))

    server.run(client)
    assert dict(of(listening).failures) == {kind: 1}


def test_clients_get_the_certificate_of_the_name_they_ask_for(server: Server, echo: Layout, files: Files) -> None:
    """The exact name before the wildcard, one level of it only, and the first one for all else."""
    hosts = [("*.plant.example",), ("a.plant.example", "b.example"), ("*.other.example",)]
    further = tuple(files.save(f"further-{at}", files.authority.issue_cert(*names)) for at, names in enumerate(hosts))
    settings = TlsSettings(files.certificate, files.key, certificates=further)
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=settings))
    expected = {
        "x.plant.example": hosts[0],
        "a.plant.example": hosts[1],
        "B.Example": hosts[1],
        "y.other.example": hosts[2],
        "x.y.other.example": ("localhost", "127.0.0.1"),
        "plant.example": ("localhost", "127.0.0.1"),
        "localhost": ("localhost", "127.0.0.1"),
        None: ("localhost", "127.0.0.1"),
    }

    def client() -> dict[str | None, tuple[str, ...]]:
        return {name: seen(listening.port, files, name) for name in expected}

    assert server.run(client) == expected


def visit(port: int, context: ssl.SSLContext) -> None:
    """Say hello by a name; TLS 1.3 says no only after it."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
        context.wrap_socket(raw, server_hostname="a.example") as sock,
    ):
        sock.sendall(b"hello")
        if not sock.recv(5):
            raise ConnectionError("closed")


def test_a_name_is_no_way_around_the_client_certificate(server: Server, echo: Layout, files: Files) -> None:
    """Whatever certificate the server shows, the client's is verified, and held against the list."""
    further = (files.save("further", files.authority.issue_cert("a.example")),)
    settings = TlsSettings(
        files.certificate,
        files.key,
        client_ca=files.client_ca,
        crl=(revoke(files, files.client[0]),),
        certificates=further,
    )
    listening = server.listen(echo, ListenerSettings("mtls", port=0, tls=settings))

    def client() -> None:
        for certificate in (None, files.stranger, files.client):
            context = client_context(files, certificate)
            context.check_hostname = False
            with pytest.raises((ssl.SSLError, ConnectionError)):
                visit(listening.port, context)

    server.run(client)
    assert Echo.names == []
    assert dict(of(listening).failures) == {"no_certificate": 1, "unknown_authority": 1, "certificate_revoked": 1}


def test_new_files_are_noticed_once_they_rest(files: Files) -> None:
    """Not between the certificate and its key; a wrong one is an error once, and the old one stays."""
    context = TlsContext(TlsSettings(files.certificate, files.key))
    (first,) = context.certificates
    assert not renew(context)
    renewed = files.authority.issue_cert("renewed.example")
    Path(files.certificate).write_bytes(renewed.cert_chain_pems[0].bytes())
    assert not renew(context)
    Path(files.key).write_bytes(renewed.private_key_pem.bytes())
    assert not renew(context)
    assert renew(context)
    assert context.certificates[0].names == ("renewed.example",)
    assert not renew(context)
    Path(files.key).write_text("not a key")
    assert not renew(context)
    with pytest.raises(TlsConfigurationError, match=r"server\.key"):
        renew(context)
    assert context.outdated
    assert not renew(context)
    assert context.certificates[0].names == ("renewed.example",)
    Path(files.key).write_bytes(renewed.private_key_pem.bytes())
    renew(context)
    assert renew(context)
    assert not context.outdated
    assert first.names == ("localhost",)


def test_a_link_that_is_turned_is_a_new_file(files: Files, tmp_path: Path) -> None:
    """How certbot and Kubernetes replace certificates."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made = files.authority.issue_cert(f"{name}.example")
        made.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / name / "both.pem"))
    link = tmp_path / "now"
    link.symlink_to("one")
    path = str(link / "both.pem")
    context = TlsContext(TlsSettings(path, path))
    (tmp_path / "next").symlink_to("two")
    os.replace(tmp_path / "next", link)
    renew(context)
    assert renew(context)
    assert context.certificates[0].names == ("two.example",)


def test_connections_stay_when_the_certificate_changes(server: Server, echo: Layout, files: Files) -> None:
    """They go on with the old one; the next connection gets the new one."""
    listening = server.listen(echo, ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key)))

    def client() -> None:
        with (
            socket.create_connection(("127.0.0.1", listening.port), timeout=5) as raw,
            client_context(files).wrap_socket(raw, server_hostname="127.0.0.1") as sock,
        ):
            sock.sendall(b"before")
            assert sock.recv(6) == b"before"
            files.save("server", files.authority.issue_cert("new.example"))
            renew(of(listening))
            renew(of(listening))
            assert seen(listening.port, files, None) == ("new.example",)
            sock.sendall(b"after")
            assert sock.recv(5) == b"after"

    server.run(client)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_connection_ends_when_its_certificate_is_revoked(
    server: Server, echo: Layout, files: Files, version: ssl.TLSVersion
) -> None:
    """That of one client, by its authority, in any list; the others go on, and nothing is kept of who is gone."""
    other = files.save("other", files.client_authority.issue_cert("other@example.test", common_name="other"))
    listening = server.listen(echo, mutual(files, revoke(files), revoke(files, name="second")))

    def connect(certificate: tuple[str, str]) -> ssl.SSLSocket:
        context = client_context(files, certificate)
        context.minimum_version = context.maximum_version = version
        raw = socket.create_connection(("127.0.0.1", listening.port), timeout=5)
        sock = context.wrap_socket(raw, server_hostname="127.0.0.1")
        sock.sendall(b"hello")
        assert sock.recv(5) == b"hello"
        return sock

    def client() -> None:
        with connect(files.client) as revoked, connect(files.client) as again, connect(other) as good:
            revoke(files, files.client[0], name="second")
            server.reactor.callFromThread(renew, of(listening), changed_only=False)
            for sock in (revoked, again):
                with suppress(ssl.SSLError, ConnectionError):
                    assert sock.recv(1) == b""
            good.sendall(b"still")
            assert good.recv(5) == b"still"
            deadline = time.monotonic() + 5
            while len(of(listening).shown) > 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(of(listening).shown) == 1

    server.run(client)


def test_nothing_is_noted_where_nothing_is_revoked(server: Server, echo: Layout, files: Files) -> None:
    """A port without lists pays nothing for them."""
    listening = server.listen(echo, mutual(files))

    def client() -> int:
        talk(listening.port, client_context(files, files.client))
        return len(of(listening).shown)

    assert server.run(client) == 0


def test_what_is_read_of_a_certificate(files: Files) -> None:
    """Its names and its end; the key may stand before it in the file."""
    end = datetime.datetime(2031, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)
    made = files.authority.issue_cert("*.A.example", "b.example", "127.0.0.1", not_after=end)
    path = files.folder / "both.pem"
    made.private_key_and_cert_chain_pem.write_to_path(str(path))
    found = read_certificate(str(path))
    assert (found.names, found.not_after) == (("*.a.example", "b.example"), end.timestamp())
    assert found.days_left(end.timestamp() - 86_400 * 3) == 3
    assert read_certificate(files.client[0]).names == ()


@pytest.mark.parametrize(
    ("crl", "further", "words"),
    [
        (("missing-crl.pem",), (), "missing-crl.pem"),
        ((), ("missing.pem", "missing.key"), "missing.pem"),
        ((), ("client.pem", "client.key"), "client.pem names no host"),
    ],
)
def test_further_files_that_cannot_be_used_are_named(
    files: Files, crl: tuple[str, ...], further: tuple[str, ...], words: str
) -> None:
    """At the start."""
    pairs = ((str(files.folder / further[0]), str(files.folder / further[1])),) if further else ()
    settings = TlsSettings(files.certificate, files.key, client_ca=files.client_ca, crl=crl, certificates=pairs)
    with pytest.raises(TlsConfigurationError, match=words):
        TlsContext(settings)


def is_over(sock: socket.socket) -> bool:
    """Whether the server ends the connection without a word."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_handshakes_under_way_are_bounded(server: Server, echo: Layout, files: Files) -> None:
    """Who says nothing costs nothing; of those that began, the first makes room for whoever comes and goes on."""
    budget = LoginBudget(3, TLS_HANDSHAKES)
    settings = ListenerSettings("tls", port=0, tls=TlsSettings(files.certificate, files.key))
    listening = server.listen(echo, settings, handshakes=budget)

    def client() -> None:
        with ExitStack() as stack:

            def dial(first: bytes) -> socket.socket:
                sock = stack.enter_context(socket.create_connection(("127.0.0.1", listening.port), timeout=5))
                sock.sendall(first)
                return sock

            for _ in range(10):
                dial(b"")
            begun = [dial(b"\x16\x03\x01") for _ in range(5)]
            assert [is_over(one) for one in begun[:2]] == [True, True]
            for _ in range(2):
                assert talk(listening.port, client_context(files)) == b"hello"
            assert is_over(begun[2])
            assert budget.held == 2

    server.run(client)
    assert [one.name for one in Echo.ended if one].count("tls_handshakes") == 3
