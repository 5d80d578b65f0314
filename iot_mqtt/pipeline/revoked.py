"""Connections whose client showed a certificate, and their end when it is in a list of revoked ones.

OpenSSL holds a certificate against the lists in the handshake only. What a connection showed is therefore noted, by its
issuer and number, where a port has lists, and looked for in each new list.
"""

from __future__ import annotations

import logging
import ssl

from iot_mqtt.errors import Refused
from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.revocation_lists import lists_in

log = logging.getLogger(__name__)


class Shown:
    """Of one port."""

    __slots__ = ("_lists", "_numbers", "_issuers")

    def __init__(self, lists: tuple[str, ...]) -> None:
        """``lists``: the files; without any nothing is noted."""
        self._lists = lists
        #: Channel → issuer and number of its certificate.
        self._numbers: dict[Channel, tuple[bytes, int]] = {}
        #: Each issuer once: most clients share theirs.
        self._issuers: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def came(self, channel: Channel, tls: ssl.SSLObject) -> None:
        """Its handshake is done."""
        shown = tls.getpeercert(binary_form=True) if self._lists else None
        if shown:
            # Late: who has no lists need not load the library.
            from cryptography.x509 import load_der_x509_certificate

            certificate = load_der_x509_certificate(shown)
            issuer = certificate.issuer.public_bytes()
            self._numbers[channel] = self._issuers.setdefault(issuer, issuer), certificate.serial_number

    def went(self, channel: Channel) -> None:
        """It is gone."""
        self._numbers.pop(channel, None)

    def close_revoked(self) -> None:
        """Hold what is here against the lists, which OpenSSL has just read."""
        if not self._numbers:
            return
        revoked = self._revoked()
        for channel, shown in list(self._numbers.items()):
            if shown in revoked:
                log.warning("a client is disconnected: its certificate is revoked", extra={"peer": channel.peer})
                # Whatever the client speaks, there may be words for it.
                channel.pipeline.fire_failed(Refused("the client's certificate is revoked"))

    def _revoked(self) -> set[tuple[bytes, int]]:
        """Of the numbers that were shown here, those in the lists."""
        shown = set(self._numbers.values())
        found: set[tuple[bytes, int]] = set()
        for path in self._lists:
            for revoked in lists_in(path):
                issuer = revoked.issuer.public_bytes()
                if issuer in self._issuers:
                    found.update(one for entry in revoked if (one := (issuer, entry.serial_number)) in shown)
        return found
