"""Which suites of TLS 1.2 are spoken, and over which curves: handshakes with clients that know one kind only."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from iot_mqtt.pipeline import Layout, ListenerSettings, TlsConfigurationError, TlsContext, TlsSettings

from .tls_kit import Echo, Files, client_context, talk

if TYPE_CHECKING:
    from .conftest import Server

SECURITY = Path(__file__).parents[3] / "docs" / "security.md"
#: Each is the only suite that a client offers; the certificate has the key that the suite wants.
REFUSED = [
    ("rsa", "AES128-SHA"),
    ("rsa", "AES128-GCM-SHA256"),  # static RSA: no forward secrecy
    ("rsa", "AES256-SHA256"),
    ("rsa", "ECDHE-RSA-AES128-SHA"),  # CBC
    ("rsa", "ECDHE-RSA-AES256-SHA384"),
    ("ecdsa", "ECDHE-ECDSA-AES128-SHA256"),
    ("ecdsa", "ECDHE-ECDSA-AES256-SHA"),
]
SPOKEN = [
    ("rsa", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("rsa", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("rsa", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("ecdsa", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("ecdsa", "ECDHE-ECDSA-CHACHA20-POLY1305"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The certificate ``server`` has an elliptic curve's key, ``rsa`` another one."""
    made = Files(tmp_path_factory.mktemp("suites"))
    made.save("rsa", made.authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA))
    return made


def settings(files: Files, kind: str, ciphers: str = "", groups: tuple[str, ...] = ()) -> ListenerSettings:
    """A port with a certificate of that kind."""
    name = "rsa" if kind == "rsa" else "server"
    paths = (str(files.folder / f"{name}.pem"), str(files.folder / f"{name}.key"))
    return ListenerSettings("tls", port=0, tls=TlsSettings(*paths, ciphers=ciphers, groups=groups))


def only(files: Files, suite: str) -> ssl.SSLContext:
    """A client of TLS 1.2 that knows one suite."""
    context = client_context(files)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(suite)
    return context


@pytest.mark.parametrize(("kind", "suite"), REFUSED)
def test_neither_static_rsa_nor_cbc_is_spoken(
    server: Server, echo: Layout, files: Files, kind: str, suite: str
) -> None:
    """Not by default: what is recorded today could be read by whoever gets the key later, or padding tells."""
    listening = server.listen(echo, settings(files, kind))

    def client() -> None:
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure"):
            talk(listening.port, only(files, suite))

    server.run(client)
    assert Echo.names == []
    assert listening.tls is not None
    assert dict(listening.tls.failures) == {"no_shared_suite": 1}


@pytest.mark.parametrize(("kind", "suite"), SPOKEN)
def test_ephemeral_curves_with_aead_are_spoken(
    server: Server, echo: Layout, files: Files, kind: str, suite: str
) -> None:
    """With both kinds of keys."""
    listening = server.listen(echo, settings(files, kind))
    assert server.run(lambda: talk(listening.port, only(files, suite))) == b"hello"


def test_an_operator_can_take_an_old_device_in(server: Server, echo: Layout, files: Files) -> None:
    """By writing its suite out; nothing else of that kind comes with it."""
    listening = server.listen(echo, settings(files, "rsa", "ECDHE+AESGCM:AES128-SHA"))

    def client() -> None:
        assert talk(listening.port, only(files, "AES128-SHA")) == b"hello"
        assert talk(listening.port, only(files, "ECDHE-RSA-AES256-GCM-SHA384")) == b"hello"
        with pytest.raises(ssl.SSLError):
            talk(listening.port, only(files, "AES256-SHA"))

    server.run(client)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_curve_can_be_chosen(server: Server, echo: Layout, files: Files, version: ssl.TLSVersion) -> None:
    """A client without it is refused, in either version."""
    listening = server.listen(echo, settings(files, "rsa", groups=("P-384",)))

    def at(curve: str) -> ssl.SSLContext:
        context = client_context(files)
        context.minimum_version = context.maximum_version = version
        context.set_ecdh_curve(curve)
        return context

    def client() -> None:
        assert talk(listening.port, at("secp384r1")) == b"hello"
        with pytest.raises(ssl.SSLError):
            talk(listening.port, at("prime256v1"))

    server.run(client)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ciphers": "ADH:@SECLEVEL=0"}, "ADH-AES256-GCM-SHA384: nobody proves who he is, or nothing is encrypted"),
        ({"ciphers": "ECDHE+eNULL:@SECLEVEL=0"}, "nothing is encrypted"),
        ({"groups": ("P-1",)}, "P-1"),
    ],
)
def test_what_protects_nobody_is_refused(files: Files, options: dict[str, object], words: str) -> None:
    """At the start."""
    with pytest.raises(TlsConfigurationError, match=words):
        TlsContext(TlsSettings(files.certificate, files.key, **options))  # type: ignore[arg-type]


@pytest.mark.skipif(hasattr(ssl.SSLContext, "set_groups"), reason="this Python can be given several")
def test_several_curves_need_a_python_that_takes_them(files: Files) -> None:
    """It is said, and not half done."""
    with pytest.raises(TlsConfigurationError, match="one of the groups only"):
        TlsContext(TlsSettings(files.certificate, files.key, groups=("X25519", "P-256")))


#: Says which groups a server takes that was made with no ``groups``: a process, because OpenSSL reads its file once.
GROUPS_OF_A_PROCESS = """
import ssl, sys
from iot_mqtt.pipeline import TlsContext, TlsSettings
server = TlsContext(TlsSettings(sys.argv[1], sys.argv[2]))
for group in ("X25519", "prime256v1", "secp384r1"):
    client = ssl.create_default_context(cafile=sys.argv[3])
    client.check_hostname = False
    client.set_ecdh_curve(group)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap(there, back)
    theirs = client.wrap_bio(back, there)
    for side in (theirs, ours, theirs, ours):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            break
    else:
        print(group)
"""


@pytest.mark.parametrize("told", [True, False])
def test_openssl_takes_the_list_of_its_own_file(files: Files, tmp_path: Path, *, told: bool) -> None:
    """The file is the one of docs/security.md; without it OpenSSL's own list holds."""
    (text,) = re.findall(r"```ini\n(openssl_conf = .+?)```", SECURITY.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "openssl.cnf"
    path.write_text(text if told else "", encoding="ascii")
    paths = (files.certificate, files.key, files.ca)
    done = subprocess.run(
        [sys.executable, "-c", GROUPS_OF_A_PROCESS, *paths],
        env={**os.environ, "OPENSSL_CONF": str(path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["X25519", "prime256v1", *([] if told else ["secp384r1"])]


def test_suites_beyond_the_default_are_said(files: Files, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """A line of the log names them; the default has none to name."""
    TlsContext(TlsSettings(files.certificate, files.key))
    assert not caplog.records
    TlsContext(TlsSettings(files.certificate, files.key, ciphers="ECDHE+AESGCM:AES128-SHA"))
    assert "AES128-SHA" in caplog.text
