"""Lists of revoked certificates: whose they are, and how long they are good.

Of an authority without a list that is valid now nobody gets in. So a list is watched as the server's certificate is,
and one that none of the authorities has signed is a mistake: it stands where one that they have should.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from iot_mqtt.pipeline.certificates import moment
from iot_mqtt.plain_files import read_plain

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["ForeignList", "RevocationList", "counting", "lists_in", "read_lists", "require_authorities", "troubles"]

_LIST: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)
#: The part of its lifetime that is left of a list that should have been renewed by now: some live hours, some a month.
_LATE: Final = 4


class ForeignList(Exception):
    """A list that none of the authorities of a port has signed."""


class RevocationList(NamedTuple):
    """One list of a file."""

    path: str
    #: Its issuer (RFC 4514).
    authority: str
    #: Seconds since 1970.
    begins: float
    #: Infinite, if it does not say.
    ends: float

    def trouble(self, now: float) -> str | None:
        """What is wrong with the time that it is good for, or soon will be."""
        if now < self.begins:
            return f"is not valid before {moment(self.begins)}: no client of {self.authority} gets in"
        if now >= self.ends:
            return f"is over since {moment(self.ends)}: no client of {self.authority} gets in"
        if (self.ends - now) * _LATE < self.ends - self.begins:
            return f"is over at {moment(self.ends)}: no client of {self.authority} gets in then"
        return None


def counting(lists: Iterable[RevocationList], now: float) -> list[RevocationList]:
    """Of each authority the list that counts: one that is valid now, if there is one, and of those the last."""
    ordered = sorted(lists, key=lambda one: (one.begins <= now < one.ends, one.ends))
    return list({one.authority: one for one in ordered}.values())


def troubles(lists: Iterable[RevocationList], now: float) -> Iterator[str]:
    """What is wrong with those that count, or soon will be."""
    for one in counting(lists, now):
        if (trouble := one.trouble(now)) is not None:
            yield f"the list of revoked certificates {one.path} {trouble}"


def lists_in(path: str) -> Iterator[x509.CertificateRevocationList]:
    """Those of a file. Raises ``OSError`` or ``ValueError``."""
    # Late: who has no lists need not load the library.
    from cryptography.x509 import load_pem_x509_crl

    for text in _LIST.findall(read_plain(path)):
        yield load_pem_x509_crl(text)


def read_lists(path: str) -> tuple[RevocationList, ...]:
    """What the lists of a file say of themselves. Raises ``OSError`` or ``ValueError``."""
    found = tuple(
        RevocationList(
            path,
            one.issuer.rfc4514_string(),
            one.last_update_utc.timestamp(),
            math.inf if one.next_update_utc is None else one.next_update_utc.timestamp(),
        )
        for one in lists_in(path)
    )
    if not found:
        raise ValueError("there is no list of revoked certificates in it")
    return found


def require_authorities(path: str, authorities: str) -> None:
    """Raise ``ForeignList`` unless every list of a file was signed by an authority of another."""
    from cryptography import x509

    known = x509.load_pem_x509_certificates(read_plain(authorities))
    for one in lists_in(path):
        named = [authority for authority in known if authority.subject == one.issuer]
        if not named:
            issuer = one.issuer.rfc4514_string()
            raise ForeignList(f"{path} is of {issuer}, whose certificate is not in {authorities} (ca)")
        if not any(_signed(authority, one) for authority in named):
            raise ForeignList(f"{path} is signed by another key than that of its authority in {authorities} (ca)")


def _signed(authority: x509.Certificate, revoked: x509.CertificateRevocationList) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return revoked.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    except UnsupportedAlgorithm:
        # OpenSSL may know it.
        return True
