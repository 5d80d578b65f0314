"""TLS: the server's context from files, and the stage that starts it.

TLS 1.2 is the least that is spoken. With ``client_ca`` the client's certificate is verified in the handshake, and the
common name of its subject becomes ``channel.certificate_name``. The context is made once for all connections of a
listener. A client that comes back with its session ticket saves both sides the signature.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.settings import TlsSettings
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["TlsConfigurationError", "TlsContext", "TlsEstablished", "TlsStage", "certificate_name", "tls_context"]

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
#: Renegotiation: a client could make the server calculate by asking for one handshake after the other.
_OPTIONS = ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
#: OpenSSL's own choice. Python's would leave out what devices of before TLS 1.3 may speak alone.
_CIPHERS = "DEFAULT"
#: Session tickets for a client of TLS 1.3. It has one connection at a time, and gets a new one with each.
_TICKETS = 1


class TlsConfigurationError(Exception):
    """A certificate, key or option that cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True)
class TlsEstablished:
    """Event: the handshake is done."""

    version: str
    certificate_name: str | None


class TlsContext:
    """Makes the TLS side of each new connection. ``reload`` takes renewed files into use for those that follow."""

    def __init__(self, settings: TlsSettings) -> None:
        self.settings = settings
        self._context = build(settings)

    def reload(self) -> None:
        """Read the files again; if they cannot be used the old ones stay, and the error is raised."""
        self._context = build(self.settings)

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """The server's side of one connection."""
        return self._context.wrap_bio(incoming, outgoing, server_side=True)


def tls_context(settings: TlsSettings) -> TlsContext:
    """The context of a listener; raises ``TlsConfigurationError`` if a file is missing or does not fit."""
    return TlsContext(settings)


def build(settings: TlsSettings) -> ssl.SSLContext:
    """An OpenSSL context from the files."""
    if settings.min_version not in _VERSIONS:
        raise TlsConfigurationError(f"min_version must be one of {', '.join(_VERSIONS)}, not {settings.min_version!r}")
    # It lets an idle connection give its 34 kB of record buffers back.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.options |= _OPTIONS
    context.num_tickets = _TICKETS
    what = settings.certificate
    try:
        for what in filter(None, (settings.certificate, settings.key, settings.client_ca)):
            Path(what).open("rb").close()
        what = f"{settings.certificate} with the key {settings.key}"
        context.load_cert_chain(settings.certificate, settings.key, _no_passphrase)
        what = f"ciphers {settings.ciphers!r}"
        context.set_ciphers(settings.ciphers or _CIPHERS)
        if settings.client_ca:
            what = settings.client_ca
            context.load_verify_locations(settings.client_ca)
            required = settings.require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        raise TlsConfigurationError(f"TLS: cannot use {what}: {ssl_text(error)}") from error
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask the terminal, and wait."""
    raise ValueError("the key is encrypted")


def certificate_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name of a verified certificate's subject; None without a certificate or without a name."""
    subject = (certificate or {}).get("subject", ())
    return next((str(value) for names in subject for key, value in names if key == "commonName"), None)


def ssl_text(error: Exception) -> str:
    """OpenSSL's reason in small letters, or what the system says."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


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
