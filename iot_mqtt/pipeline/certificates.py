"""What a server's certificate says of itself: for which names it is, from when on, and until when."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from iot_mqtt.plain_files import read_plain

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["Certificate", "moment", "read_certificate"]

#: Days before its end from which on it is missed.
WARN_DAYS: Final = 14


@dataclass(frozen=True, slots=True)
class Certificate:
    """The first certificate of a PEM file."""

    path: str
    #: DNS names in small letters, ``*.example.org`` among them; the subject's common name if it has none.
    names: tuple[str, ...]
    #: Seconds since 1970.
    not_before: float
    not_after: float

    def valid(self, now: float) -> bool:
        """Whether clients take it."""
        return self.not_before <= now <= self.not_after

    def days_left(self, now: float) -> float:
        """Days until it is over; negative: it is."""
        return (self.not_after - now) / 86_400

    def trouble(self, now: float) -> str | None:
        """What is wrong with the time that it is good for, or soon will be."""
        if now < self.not_before:
            return f"is not valid before {moment(self.not_before)}: no client accepts it"
        days = self.days_left(now)
        if days < 0:
            return f"is over for {-days:.0f} days"
        return f"is over in {days:.0f} days" if days < WARN_DAYS else None


def read_certificate(path: str) -> Certificate:
    """Raises ``OSError`` or ``ValueError``."""
    # Late: it takes 20 ms and 5 MB, and a node without TLS needs none of it.
    from cryptography import x509

    found = x509.load_pem_x509_certificates(read_plain(path))[0]
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    return Certificate(path, _names(found), begins.timestamp(), ends.timestamp())


def moment(seconds: float) -> str:
    """A time as people read it."""
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


def _names(found: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        common = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(str(one.value).lower() for one in common)
    return tuple(name.lower() for name in extension.value.get_values_for_type(x509.DNSName))
