"""Certificates for the TLS tests, made afresh for each run: good, expired, and from somebody else."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """A certificate authority in a folder; every file is PEM."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.file))

    def server(self, name: str = "server", not_after: datetime.datetime | None = None) -> tuple[Path, Path]:
        """A certificate for 127.0.0.1 and localhost; returns the chain's file and the key's."""
        return self._write(name, self._ca.issue_cert("127.0.0.1", "localhost", not_after=not_after))

    def client(self, common_name: str, not_after: datetime.datetime | None = None) -> tuple[Path, Path]:
        """A client certificate; returns the chain's file and the key's."""
        leaf = self._ca.issue_cert(f"{common_name}@example.test", common_name=common_name, not_after=not_after)
        return self._write(f"client-{common_name}", leaf)

    def revoke(self, *certificates: Path) -> Path:
        """Write the authority's list of revoked certificates, with these."""
        now = datetime.datetime.now(datetime.UTC)
        authority = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes())
        key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        builder = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
        builder = builder.last_update(now).next_update(now + datetime.timedelta(days=1))
        for certificate in certificates:
            serial = x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            builder = builder.add_revoked_certificate(revoked.build())
        path = self._folder / "crl.pem"
        path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path

    def _write(self, name: str, leaf: trustme.LeafCert) -> tuple[Path, Path]:
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        for at, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(str(cert), append=at > 0)
        leaf.private_key_pem.write_to_path(str(key))
        return cert, key


def expired() -> datetime.datetime:
    """A moment that is over."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
