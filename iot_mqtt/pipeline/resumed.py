"""A client that comes back with a session ticket is held to what a new handshake asks.

OpenSSL verifies a chain when it is shown. A session that is resumed has the client's certificate without its chain, and
nobody looks whether it is still good. So that is done here, with the authorities of the port: no certificate may be
over, and where there are lists of revoked ones, each authority needs one that is valid now. What a list names need not
be looked for: new lists make new keys for tickets.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Sequence
from typing import Any, cast

from iot_mqtt.pipeline.revocation_lists import RevocationList

__all__ = ["ServerContext"]

#: A certificate as the standard library gives it, and a subject or issuer in it.
_Shown = dict[str, Any]
_Name = tuple[Any, ...]


class _ServerSide(ssl.SSLObject):
    """One connection of a ``ServerContext``."""

    def do_handshake(self) -> None:
        super().do_handshake()
        if self.session_reused and (shown := self.getpeercert()):
            cast(ServerContext, self.context).require_valid(shown, time.time())


class ServerContext(ssl.SSLContext):
    """One whose sessions can be resumed for as long as the client's certificate is good."""

    sslobject_class = _ServerSide
    _authorities: dict[_Name, list[_Shown]]
    #: None: no lists are asked for.
    _lists: dict[_Name, list[RevocationList]] | None

    def hold_to(self, lists: Sequence[RevocationList]) -> None:
        """Once the authorities are loaded, and these lists of theirs, if any."""
        self._authorities, self._lists = {}, {} if lists else None
        for one, binary in zip(self.get_ca_certs(), self.get_ca_certs(binary_form=True), strict=True):
            subject = cast(_Name, one["subject"])
            self._authorities.setdefault(subject, []).append(one)
            if self._lists is not None:
                # Late: who has no lists need not load the library.
                from cryptography.x509 import load_der_x509_certificate

                name = load_der_x509_certificate(binary).subject.rfc4514_string()
                self._lists[subject] = [it for it in lists if it.authority == name]

    def require_valid(self, shown: _Shown, now: float) -> None:
        """Raise what OpenSSL would of a client's certificate. ``now``: in seconds since 1970."""
        if _over(shown, now):
            raise _error(10, "certificate has expired")
        above, asked = cast(_Name, shown["issuer"]), set[_Name]()
        while above not in asked:
            asked.add(above)
            if self._lists is not None and not any(it.begins <= now < it.ends for it in self._lists.get(above, ())):
                raise _error(12, "CRL has expired")
            known = self._authorities.get(above)
            if not known:
                return  # the client sent it, and the ticket does not have it
            valid = [one for one in known if not _over(one, now)]
            if not valid:
                raise _error(10, "certificate has expired")
            above = valid[0]["issuer"]


def _over(certificate: _Shown, now: float) -> bool:
    return ssl.cert_time_to_seconds(certificate["notAfter"]) <= now


def _error(code: int, text: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(text)
    error.verify_code, error.verify_message = code, text
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    return error
