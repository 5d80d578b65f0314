"""TLS as a connection sees it: the stage that starts it, the event that it is there, and why it failed.

With ``client_ca`` the client's certificate is verified in the handshake, and the common name of its subject becomes
``channel.certificate_name``. A client that comes back with its session ticket saves both sides the signature.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from iot_mqtt.errors import MqttError
from iot_mqtt.pipeline.stage import Batch, Context, Stage

__all__ = ["TlsEstablished", "TlsStage", "certificate_name", "certificate_names", "kind_of_failure", "ssl_text"]

#: What OpenSSL says of a client's certificate, by its number.
_REJECTED = {
    3: "no_crl",
    9: "certificate_not_valid_yet",
    10: "certificate_expired",
    11: "crl_not_valid",
    12: "crl_not_valid",
    18: "unknown_authority",
    19: "unknown_authority",
    20: "unknown_authority",
    21: "unknown_authority",
    23: "certificate_revoked",
    33: "no_crl",
}
#: What OpenSSL says of a handshake, by its reason.
_KINDS = {
    "EXCESSIVE_MESSAGE_SIZE": "too_large",
    "HTTP_REQUEST": "not_tls",
    "NO_SHARED_CIPHER": "no_shared_suite",
    "NO_SUITABLE_GROUPS": "no_shared_group",
    "NO_SUITABLE_KEY_SHARE": "no_shared_group",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate",
    "THE_CLIENT'S_CERTIFICATE_IS_TOO_LARGE": "too_large",
    "UNSUPPORTED_PROTOCOL": "version",
    "WRONG_VERSION_NUMBER": "not_tls",
}


#: Bytes of a session ticket, at most.
LARGEST_TICKET: Final = 0xFF00


@dataclass(frozen=True, slots=True)
class TlsEstablished:
    """Event: the handshake is done."""

    version: str
    certificate_name: str | None


def certificate_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The common name of a verified certificate's subject; None without a certificate or without a name."""
    subject = (certificate or {}).get("subject", ())
    return next((str(value) for names in subject for key, value in names if key == "commonName"), None)


def certificate_names(tls: ssl.SSLObject) -> dict[str, tuple[str, ...]]:
    """The alternative names of a verified certificate by their kind, and its fingerprint; empty without one."""
    certificate, binary = tls.getpeercert(), tls.getpeercert(binary_form=True)
    if not certificate or not binary:
        return {}
    alternatives: Any = certificate.get("subjectAltName", ())
    names = {
        kind.lower(): tuple(str(value) for key, value in alternatives if key == kind)
        for kind in ("DNS", "email", "URI")
    }
    names["fingerprint"] = (hashlib.sha256(binary).hexdigest(),)
    return {kind: values for kind, values in names.items() if values}


def ssl_text(error: Exception) -> str:
    """OpenSSL's reason in small letters, or what the system says; of a certificate, what is wrong with it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    reason = getattr(error, "reason", None)
    if isinstance(reason, str):
        return reason.replace("_", " ").lower()
    return getattr(error, "strerror", None) or str(error)


def blame_certificate(error: ssl.SSLError, received: int) -> None:
    """Give an error of a handshake its reason where OpenSSL has none but "internal error": it cannot make a session
    ticket, which has the client's certificate in it, if that is so large. ``received``: bytes of the handshake.
    """
    if not error.reason and received > LARGEST_TICKET:
        error.reason = "THE_CLIENT'S_CERTIFICATE_IS_TOO_LARGE"


def kind_of_failure(error: ssl.SSLError) -> str:
    """One word of a short list, for a counter."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _REJECTED.get(error.verify_code, "certificate_rejected")
    reason = error.reason or ""
    return _KINDS.get(reason) or ("refused_by_client" if "_ALERT_" in reason else "other")


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
