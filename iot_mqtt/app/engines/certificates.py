"""An authority for one cluster, and the certificates of its servers and brokers, as PEM files.

Made once, and kept: ``ca.crt``, and for each name a folder with ``tls.crt``, ``tls.key`` and ``ca.crt``, which are the
names that Kubernetes' secrets have. The authority's own key stays beside it, for names that are added later.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography import x509

#: Of the authority, and of what it signs.
_YEARS = 10 * 365
_DAYS = 825


class Pem(NamedTuple):
    """The files of one name."""

    certificate: Path
    key: Path
    authority: Path
    #: Certificate and key in one file, as ZooKeeper and Kafka read them.
    both: Path


def files_of(folder: Path, name: str) -> Pem:
    """Where the files of a name are, whether they were made or not."""
    return files_in(folder / name)


def files_in(place: Path) -> Pem:
    """The same for a directory that has the files of one name."""
    return Pem(place / "tls.crt", place / "tls.key", place / "ca.crt", place / "tls.pem")


def issue(folder: Path, names: Iterable[str], hosts: Iterable[str]) -> None:
    """Make what is missing: the authority, and for each name a certificate that is good for these hosts."""
    # Late: commands that make no certificates do not wait for it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    def begun(subject: x509.Name, issuer: x509.Name, days: int) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=days))

    def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
        plain = serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)

    authority_file, authority_key_file = folder / "ca.crt", folder / "ca.key"
    if not authority_key_file.exists():
        authority_key = ec.generate_private_key(ec.SECP256R1())
        name = named(f"iot-mqtt cluster {x509.random_serial_number():x}"[:40])
        builder = begun(name, name, _YEARS).public_key(authority_key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_signs(), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        _write(authority_file, builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        _write(authority_key_file, pem(authority_key))
    authority = x509.load_pem_x509_certificate(authority_file.read_bytes())
    signing = serialization.load_pem_private_key(authority_key_file.read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    alternatives = x509.SubjectAlternativeName([_general(host) for host in hosts])
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    for one in names:
        found = files_of(folder, one)
        if found.both.exists():
            continue
        found.key.parent.mkdir(mode=0o700, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = begun(named(one), authority.subject, _DAYS).public_key(key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(alternatives, critical=False).add_extension(purposes, critical=False)
        builder = builder.add_extension(issuer, critical=False)
        certificate = builder.sign(signing, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        _write(found.authority, authority_file.read_bytes())
        _write(found.certificate, certificate)
        _write(found.key, pem(key))
        _write(found.both, certificate + pem(key))


def _signs() -> x509.KeyUsage:
    """What the authority's key is for."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _general(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(path: Path, data: bytes) -> None:
    """For the owner's eyes."""
    path.touch(mode=0o600)
    path.write_bytes(data)
