"""Connections whose client showed a certificate, and their end when it is in a list of revoked ones.

OpenSSL holds a certificate against the lists in the handshake only. What a connection showed is therefore noted, by its
issuer and number, where a port has lists, and looked for in each new list.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Mapping, Set

from iot_mqtt.errors import Refused
from iot_mqtt.pipeline.channel import Channel
from iot_mqtt.pipeline.revocation_lists import lists_in

log = logging.getLogger(__name__)


class Shown:
    """Of one port."""

    __slots__ = ("_noted", "_numbers", "_issuers")

    def __init__(self, *, noted: bool) -> None:
        """``noted``: there are lists."""
        self._noted = noted
        #: Channel → issuer and number of its certificate.
        self._numbers: dict[Channel, tuple[bytes, int]] = {}
        #: Each issuer once: most clients share theirs.
        self._issuers: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def came(self, channel: Channel, tls: ssl.SSLObject) -> None:
        """Its handshake is done."""
        shown = tls.getpeercert(binary_form=True) if self._noted else None
        if shown:
            # Late: who has no lists need not load the library.
            from cryptography.x509 import load_der_x509_certificate

            certificate = load_der_x509_certificate(shown)
            issuer = certificate.issuer.public_bytes()
            self._numbers[channel] = self._issuers.setdefault(issuer, issuer), certificate.serial_number

    def went(self, channel: Channel) -> None:
        """It is gone."""
        self._numbers.pop(channel, None)

    def close_revoked(self, revoked: Mapping[bytes, Set[int]]) -> None:
        """Hold what is here against the lists that count from now on: numbers by their issuer."""
        for channel, (issuer, number) in list(self._numbers.items()):
            if number in revoked.get(issuer, ()):
                log.warning("a client is disconnected: its certificate is revoked", extra={"peer": channel.peer})
                # Whatever the client speaks, there may be words for it.
                channel.pipeline.fire_failed(Refused("the client's certificate is revoked"))


def revoked_in(lists: Iterable[str]) -> dict[bytes, set[int]]:
    """What the lists of these files name: numbers by their issuer. Raises ``OSError`` or ``ValueError``."""
    found: dict[bytes, set[int]] = {}
    for path in lists:
        for revoked in lists_in(path):
            found.setdefault(revoked.issuer.public_bytes(), set()).update(entry.serial_number for entry in revoked)
    return found
