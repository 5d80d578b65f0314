"""Further names of a client's certificate: alternative names by their kind, and the fingerprint."""

from __future__ import annotations

import hashlib
import ssl

import pytest
import trustme

from iot_mqtt.pipeline.tls import certificate_names


def shake_hands(client_certificate: trustme.LeafCert | None, ca: trustme.CA) -> ssl.SSLObject:
    """The server's side of a handshake in memory."""
    server_context, client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    ca.issue_cert("server").configure_cert(server_context)
    ca.configure_trust(server_context)
    ca.configure_trust(client_context)
    server_context.verify_mode = ssl.CERT_OPTIONAL
    if client_certificate is not None:
        client_certificate.configure_cert(client_context)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(up, down, server_side=True)
    client = client_context.wrap_bio(down, up, server_hostname="server")
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    return server


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def test_names_by_their_kind_and_the_fingerprint(ca: trustme.CA) -> None:
    """In the order of the certificate."""
    certificate = ca.issue_cert("plc-7.plant", "b.plant", "plc-7@plant.example", common_name="press")
    names = certificate_names(shake_hands(certificate, ca))
    assert names["dns"] == ("plc-7.plant", "b.plant")
    assert names["email"] == ("plc-7@plant.example",)
    der = ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())
    assert names["fingerprint"] == (hashlib.sha256(der).hexdigest(),)
    assert "uri" not in names


def test_without_a_certificate_there_are_none(ca: trustme.CA) -> None:
    """A listener that only asks for one."""
    assert certificate_names(shake_hands(None, ca)) == {}
