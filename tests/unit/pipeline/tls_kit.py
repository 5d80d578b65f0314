"""What the tests of TLS share: certificates as files, a stage that echoes, and a careful client."""

from __future__ import annotations

import datetime
import socket
import ssl
from pathlib import Path

import trustme

from iot_mqtt.pipeline import Batch, CloseReason, Context, Stage, TlsContext

#: When the certificates are valid that are not made for another time, in seconds since 1970.
NOW = 1.8e9


class Files:
    """An authority, a server certificate, and a client certificate, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.other = trustme.CA()
        self.client_authority = trustme.CA()
        self.ca = self._write("ca.pem", self.authority.cert_pem)
        self.client_ca = self._write("client-ca.pem", self.client_authority.cert_pem)
        issued = self.authority.issue_cert("localhost", "127.0.0.1")
        self.certificate, self.key = self.save("server", issued)
        self.client = self.save("client", self.client_authority.issue_cert("x@example.org", common_name="device-7"))
        self.stranger = self.save("stranger", self.other.issue_cert("y@example.org", common_name="stranger"))
        past = datetime.datetime.now(tz=datetime.UTC) - datetime.timedelta(days=1)
        begun = past - datetime.timedelta(days=30)
        self.expired = self.save(
            "expired",
            self.client_authority.issue_cert("z@example.org", common_name="old", not_before=begun, not_after=past),
        )

    def save(self, name: str, issued: trustme.LeafCert) -> tuple[str, str]:
        """Certificate with its chain, and key."""
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        certificate = self.folder / f"{name}.pem"
        certificate.write_bytes(chain)
        return str(certificate), self._write(f"{name}.key", issued.private_key_pem)

    def _write(self, name: str, blob: trustme.Blob) -> str:
        path = self.folder / name
        path.write_bytes(blob.bytes())
        return str(path)


def renew(context: TlsContext, *, changed_only: bool = True) -> bool:
    """Whether there was something new in its files."""
    return context.take(context.look(changed_only=changed_only), NOW)


class Echo(Stage):
    """Sends back what it reads, and notes what it learns."""

    ended: list[CloseReason | None] = []
    events: list[object] = []
    names: list[str | None] = []

    def event(self, ctx: Context, event: object) -> None:
        type(self).events.append(event)

    def read(self, ctx: Context, batch: Batch) -> None:
        type(self).names.append(ctx.channel.certificate_name)
        ctx.write(batch)
        ctx.flush()

    def inactive(self, ctx: Context, reason: CloseReason | None) -> None:
        type(self).ended.append(reason)


def client_context(files: Files, certificate: tuple[str, str] | None = None) -> ssl.SSLContext:
    """A careful client."""
    context = ssl.create_default_context(cafile=files.ca)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    return context


def talk(port: int, context: ssl.SSLContext, data: bytes = b"hello", before: bytes = b"") -> bytes:
    """Send and get back the same number of bytes; what goes wrong is raised."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
        raw.sendall(before)
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
            sock.sendall(data)
            received = b""
            while len(received) < len(data):
                piece = sock.recv(1 << 16)
                if not piece:
                    raise ConnectionError("closed")
                received += piece
            return received
