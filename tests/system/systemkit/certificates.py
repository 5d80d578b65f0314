"""Certificates for the TLS tests, made afresh for each run: good, expired, and from somebody else."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme


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

    def _write(self, name: str, leaf: trustme.LeafCert) -> tuple[Path, Path]:
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        for at, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(str(cert), append=at > 0)
        leaf.private_key_pem.write_to_path(str(key))
        return cert, key


def expired() -> datetime.datetime:
    """A moment that is over."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
