"""Who is kept out of the TLS port, and that the others get in."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.certificates import Authority, expired
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, ServerTls, our_command
from systemkit.starting import StartBroker
from systemkit.waiting import AIR


def _context(ca: Path, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


@contextmanager
def _dial(broker: BrokerProcess, context: ssl.SSLContext) -> Iterator[Plain]:
    """An MQTT client over TLS; the handshake has been done."""
    raw = socket.create_connection(("127.0.0.1", broker.ports["mqtts"]), 5)
    try:
        with Plain(0, sock=context.wrap_socket(raw, server_hostname="localhost"), timeout=5) as client:
            yield client
    finally:
        raw.close()


def _round_trip(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    """Publish to oneself over TLS."""
    with _dial(broker, context) as client:
        client.connect("tls")
        client.subscribe(("tls/x", 1))
        client.publish("tls/x", b"x" * 100_000)
        assert client.expect_publication().payload == b"x" * 100_000


def _assert_refused(broker: BrokerProcess, context: ssl.SSLContext) -> None:
    """No CONNACK for this client: in TLS 1.3 a refusal of its certificate comes after its own handshake."""
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)) as refusal, _dial(broker, context) as client:
        client.connect("refused")
    assert "CONNACK" not in str(refusal.value)


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    """An authority that the broker has never heard of."""
    return Authority(tmp_path, "stranger")


def test_a_client_that_trusts_the_authority_gets_in(shared_broker: BrokerProcess, authority: Authority) -> None:
    """With TLS 1.3 and 1.2."""
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context = _context(authority.file)
        context.minimum_version = context.maximum_version = version
        _round_trip(shared_broker, context)


def test_a_client_that_trusts_another_authority_stays_out(shared_broker: BrokerProcess, stranger: Authority) -> None:
    """The wrong CA: the client refuses the server, and the broker lives on."""
    with pytest.raises(ssl.SSLCertVerificationError), _dial(shared_broker, _context(stranger.file)):
        pass


def test_an_expired_server_certificate_is_seen(start_broker: StartBroker, tmp_path: Path, authority: Authority) -> None:
    """The client refuses it by its date."""
    cert, key = authority.server("expired", not_after=expired())
    broker = start_broker(tls=ServerTls(cert, key))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"), _dial(broker, _context(authority.file)):
        pass


def test_tls_1_1_is_refused(shared_broker: BrokerProcess, authority: Authority) -> None:
    """The broker ends the handshake, though this client would have gone on."""
    context = _context(authority.file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)) as refusal, _dial(shared_broker, context):
        pass
    assert "NO_PROTOCOLS_AVAILABLE" not in str(refusal.value), "refused by the client's own library"


def test_plain_bytes_on_the_tls_port_are_refused(shared_broker: BrokerProcess, authority: Authority) -> None:
    """No CONNACK in the clear; the connection is closed, and TLS clients go on getting in."""
    with Plain(shared_broker.ports["mqtts"]) as client:
        client.send(wire.connect("plain"))
        began = time.monotonic()
        data = b""
        while chunk := _receive(client.sock):
            data += chunk
        assert time.monotonic() - began < 4 + AIR
    assert data[:1] != b"\x20", "a CONNACK"
    _round_trip(shared_broker, _context(authority.file))


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1024)
    except ConnectionError:
        return b""


def test_a_handshake_that_never_ends_is_cut_off(start_broker: StartBroker, authority: Authority) -> None:
    """Connect to the TLS port and say nothing: closed at the connect time-out as well."""
    if MOSQUITTO:
        return  # waits longer, and its time cannot be set
    cert, key = authority.server("patient")
    broker = start_broker(tls=ServerTls(cert, key), settings={"mqtt.connect_timeout": 1})
    for first in (b"", b"\x16\x03\x01"):
        with socket.create_connection(("127.0.0.1", broker.ports["mqtts"]), 5) as sock:
            sock.settimeout(30)
            if first:
                sock.send(first)
            began = time.monotonic()
            _receive(sock)
            assert time.monotonic() - began < 9 + AIR


def test_client_certificates_when_required(
    start_broker: StartBroker, authority: Authority, stranger: Authority
) -> None:
    """One from the authority gets in; none, an expired one, and a stranger's do not."""
    cert, key = authority.server("mutual")
    broker = start_broker(tls=ServerTls(cert, key, authority.file, require_client_certificate=True))
    good = authority.client("device-7")
    _round_trip(broker, _context(authority.file, good))
    _assert_refused(broker, _context(authority.file))
    _assert_refused(broker, _context(authority.file, authority.client("old", not_after=expired())))
    _assert_refused(broker, _context(authority.file, stranger.client("device-8")))
    _round_trip(broker, _context(authority.file, good))


def _serial(broker: BrokerProcess, authority: Authority, certificate: tuple[Path, Path]) -> str:
    """Of the certificate that a newcomer is shown."""
    context = _context(authority.file, certificate)
    raw = socket.create_connection(("127.0.0.1", broker.ports["mqtts"]), 5)
    with raw, context.wrap_socket(raw, server_hostname="localhost") as sock:
        found = sock.getpeercert()
        assert found is not None
        return str(found["serialNumber"])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10 + AIR
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_files_change_under_a_live_broker(start_broker: StartBroker, tmp_path: Path) -> None:
    """A new certificate, a broken one, a client that is revoked: the next connection sees it, and those that were
    there before go on, but for that of the client, which is told why within a second.
    """
    if MOSQUITTO:
        return  # reads them at SIGHUP only
    authority = Authority(tmp_path)
    cert, key = authority.server("live")
    good, bad = authority.client("device-1"), authority.client("device-2")
    crl = authority.revoke()
    broker = start_broker(
        tls=ServerTls(cert, key, authority.file, require_client_certificate=True),
        settings={"listeners.mqtts.tls.crl": str(crl), "admin.tls.cert": str(cert), "admin.tls.key": str(key)},
    )
    _round_trip(broker, _context(authority.file, bad))
    with _dial(broker, _context(authority.file, good)) as client, _dial(broker, _context(authority.file, bad)) as lost:
        client.connect("there-before")
        lost.version = 5
        lost.connect("to-be-revoked")
        client.subscribe(("live/x", 1))
        first = _serial(broker, authority, good)
        authority.server("live")
        _until(lambda: _serial(broker, authority, good) != first)
        second = _serial(broker, authority, good)

        key.write_text("broken")
        _until(lambda: (broker.metrics() or {}).get('iot_mqtt_tls_outdated{listener="mqtts"}') == 1)
        assert _serial(broker, authority, good) == second
        assert "goes on with its certificates of before" in broker.http("/health")
        authority.server("live")
        _until(lambda: (broker.metrics() or {}).get('iot_mqtt_tls_outdated{listener="mqtts"}') == 0)

        lost.ping()
        authority.revoke(bad[0])
        began = time.monotonic()
        assert lost.expect(wire.DISCONNECT).reason() == 0x87
        assert time.monotonic() - began < 1.0 + AIR
        revoked = 'iot_mqtt_tls_failures_total{listener="mqtts",reason="certificate_revoked"}'

        def is_refused() -> bool:
            with suppress(ssl.SSLError, ConnectionError, AssertionError):
                _round_trip(broker, _context(authority.file, bad))
            return (broker.metrics() or {}).get(revoked, 0) > 0

        _until(is_refused)
        _assert_refused(broker, _context(authority.file, bad))
        client.publish("live/x", b"still here")
        assert client.expect_publication().payload == b"still here"
    # The admin port has the same certificate, and ctl believes what the node says that it is.
    command = [*our_command(), "ctl", "--data-dir", str(broker.data_dir), "status", "--json"]
    assert json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["node_id"]
    left = next(value for name, value in (broker.metrics() or {}).items() if "tls_certificate_days" in name)
    assert left > 14
