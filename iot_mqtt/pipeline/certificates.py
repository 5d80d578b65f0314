"""What a server's certificate says of itself: for which names it is, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iot_mqtt.plain_files import read_plain

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["Certificate", "read_certificate"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The first certificate of a PEM file."""

    path: str
    #: DNS names in small letters, ``*.example.org`` among them; the subject's common name if it has none.
    names: tuple[str, ...]
    #: Seconds since 1970.
    not_after: float

    def days_left(self, now: float) -> float:
        """Days until it is over; negative: it is."""
        return (self.not_after - now) / 86_400


def read_certificate(path: str) -> Certificate:
    """Raises ``OSError`` or ``ValueError``."""
    # Late: it takes 20 ms and 5 MB, and a node without TLS needs none of it.
    from cryptography import x509

    found = x509.load_pem_x509_certificates(read_plain(path))[0]
    return Certificate(path, _names(found), found.not_valid_after_utc.timestamp())


def _names(found: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        common = found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return tuple(str(one.value).lower() for one in common)
    return tuple(name.lower() for name in extension.value.get_values_for_type(x509.DNSName))
