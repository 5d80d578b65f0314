"""TLS: the server's context from files, and the stage that starts it.

TLS 1.2 is the least that is spoken. With ``client_ca`` the client's certificate is verified in the handshake, and the
common name of its subject becomes ``channel.certificate_name``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer  # type: ignore[import-untyped]

from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.context import Context
from iot_mqtt.pipeline.settings import TlsSettings
from iot_mqtt.pipeline.stage import Batch, Stage

__all__ = ["TlsConfigurationError", "TlsContext", "TlsEstablished", "TlsStage", "certificate_name", "tls_context"]

#: A client could make the server calculate by asking for one handshake after the other. Not in pyOpenSSL's stubs.
OP_NO_RENEGOTIATION: int = getattr(SSL, "OP_NO_RENEGOTIATION", 0x4000_0000)

_VERSIONS = {"1.2": SSL.TLS1_2_VERSION, "1.3": SSL.TLS1_3_VERSION}


class TlsConfigurationError(Exception):
    """A certificate, key or option that cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True)
class TlsEstablished:
    """Event: the handshake is done."""

    version: str
    certificate_name: str | None


@implementer(IOpenSSLServerConnectionCreator)
class TlsContext:
    """Makes the TLS side of each new connection. ``reload`` takes renewed files into use for those that follow."""

    def __init__(self, settings: TlsSettings) -> None:
        self.settings = settings
        self._context = build(settings)

    def reload(self) -> None:
        """Read the files again; if they cannot be used the old ones stay, and the error is raised."""
        self._context = build(self.settings)

    def serverConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        return SSL.Connection(self._context, None)


def tls_context(settings: TlsSettings) -> TlsContext:
    """The context of a listener; raises ``TlsConfigurationError`` if a file is missing or does not fit."""
    return TlsContext(settings)


def build(settings: TlsSettings) -> SSL.Context:
    """An OpenSSL context from the files."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    if settings.min_version not in _VERSIONS:
        raise TlsConfigurationError(f"min_version must be one of {', '.join(_VERSIONS)}, not {settings.min_version!r}")
    context.set_min_proto_version(_VERSIONS[settings.min_version])
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE | OP_NO_RENEGOTIATION)
    # An idle connection gives its 34 kB of record buffers back.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    file = settings.certificate
    try:
        context.use_certificate_chain_file(file)
        file = settings.key
        context.use_privatekey_file(file)
        context.check_privatekey()
        if settings.ciphers:
            file = f"ciphers {settings.ciphers!r}"
            context.set_cipher_list(settings.ciphers.encode())
        if settings.client_ca:
            file = settings.client_ca
            _ask_clients(context, settings)
    except (SSL.Error, OSError) as error:
        raise TlsConfigurationError(f"TLS: cannot use {file}: {_text(error)}") from error
    return context


def _ask_clients(context: SSL.Context, settings: TlsSettings) -> None:
    context.load_verify_locations(settings.client_ca)
    context.set_session_id(b"iot-mqtt")
    mode = SSL.VERIFY_PEER
    if settings.require_client_certificate:
        mode |= SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    context.set_verify(mode, None)


def certificate_name(certificate: crypto.X509 | None) -> str | None:
    """The common name of a certificate's subject; None without a certificate or without a name."""
    if certificate is None:
        return None
    names = certificate.to_cryptography().subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else None


def _text(error: Exception) -> str:
    queue = error.args[0] if error.args else None
    if isinstance(queue, list):
        return str(queue[-1][-1]) if queue else "no such file, or not a PEM file"
    return str(error)


class TlsStage(Stage):
    """Starts TLS when the connection is active, or with the first bytes that a stage below lets through.

    It then removes itself: from there on the channel's bytes are plain. Put it above the PROXY stage, whose header
    comes before the handshake.
    """

    __slots__ = ("_wait",)

    def __init__(self, *, wait_for_bytes: bool = False) -> None:
        self._wait = wait_for_bytes

    def active(self, ctx: Context) -> None:
        if not self._wait:
            self._start(ctx, b"")
        ctx.fire_active()

    def read(self, ctx: Context, batch: Batch) -> None:
        self._start(ctx, b"".join(batch))

    def _start(self, ctx: Context, received: bytes) -> None:
        start = ctx.channel.start_tls
        if start is None:
            raise MqttError("this transport cannot do TLS")
        ctx.pipeline.remove(ctx.name)
        start(received)
