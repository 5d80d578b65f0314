"""The server's side of TLS, made from files: versions, suites, certificates by name, whose clients are let in.

TLS 1.2 is the least that is spoken, and of its suites only those with ephemeral keys and authenticated encryption:
what is recorded today can't be read with a key that is stolen later. All connections of a listener share one OpenSSL
context for each certificate. New files make new contexts, with new keys for session tickets: a connection that is
there stays as it is, unless its client's certificate is in a new list of revoked ones, and a client whose certificate
was revoked doesn't come back with its ticket.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import partial

from iot_mqtt.pipeline.certificates import Certificate, read_certificate
from iot_mqtt.pipeline.login_budget import LoginBudget
from iot_mqtt.pipeline.resumed import ServerContext
from iot_mqtt.pipeline.revocation_lists import ForeignList, RevocationList, read_lists, require_authorities
from iot_mqtt.pipeline.revoked import Shown, revoked_in
from iot_mqtt.pipeline.settings import TlsSettings
from iot_mqtt.pipeline.tls import kind_of_failure, ssl_text
from iot_mqtt.plain_files import require_plain

__all__ = ["TlsConfigurationError", "TlsContext", "TlsLooked"]

log = logging.getLogger(__name__)

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
#: Renegotiation: a client could make the server calculate by asking for one handshake after the other.
_OPTIONS = ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
#: Of TLS 1.2; those of TLS 1.3 are all of this kind.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
#: Session tickets for a client of TLS 1.3. It has one connection at a time, and gets a new one with each.
_TICKETS = 1
#: What OpenSSL calls them, where it is not what everybody else does.
_GROUPS = {"P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1", "secp256r1": "prime256v1"}

#: (changed, size, inode) of each file; None: it is not there.
_Signature = tuple[tuple[int, int, int] | None, ...]


class TlsConfigurationError(Exception):
    """A certificate, key or option that cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What the files came to."""

    context: ssl.SSLContext
    certificates: tuple[Certificate, ...]
    lists: tuple[RevocationList, ...]
    #: Numbers that the lists name, by their issuer.
    revoked: Mapping[bytes, Set[int]]

    def waits(self, before: _Made, now: float) -> bool:
        """Whether the ones of before serve until these are valid. A new list of revoked certificates does not wait."""
        serving = {one.path for one in before.certificates if one.valid(now)}
        early = any(one.path in serving and now < one.not_before for one in self.certificates)
        return early and (self.lists, self.revoked) == (before.lists, before.revoked)


@dataclass(frozen=True, slots=True)
class TlsLooked:
    """The files as they were found; ``made`` is None where they were not read."""

    signature: _Signature
    made: _Made | TlsConfigurationError | None


class TlsContext:
    """Makes the TLS side of each new connection of a listener, and counts how handshakes fail.

    What ``look`` finds in renewed files ``take`` takes into use for connections that follow, once it is valid.
    Looking changes nothing and may be done in any thread, because files may be slow. Construction raises
    ``TlsConfigurationError``.
    """

    def __init__(self, settings: TlsSettings, handshakes: LoginBudget | None = None) -> None:
        """``handshakes`` bounds those that are under way, of all listeners together; one is a unit."""
        self.settings = settings
        self.handshakes = handshakes
        #: Failed handshakes by kind.
        self.failures: Counter[str] = Counter()
        #: The files of now could not be used; those of before still are.
        self.outdated = False
        #: The clients' certificates of the connections that there are, where there are lists of revoked ones.
        self.shown = Shown(noted=bool(settings.crl))
        self._seen = self._being_written = _signatures(settings)
        self._made = _make(settings)
        #: What the files of now come to, while the ones of before serve until it is valid.
        self._later: _Made | None = None

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        return self._made.certificates

    def waiting(self, now: float) -> list[Certificate]:
        """New certificates that are not valid yet: those of before serve until then."""
        return [] if self._later is None else [one for one in self._later.certificates if now < one.not_before]

    @property
    def revocation_lists(self) -> tuple[RevocationList, ...]:
        return self._made.lists

    def look(self, *, changed_only: bool) -> TlsLooked:
        """As the files are now. With ``changed_only`` they are read if one is another than last time and was so at the
        last look, too: certificate and key are seldom replaced in the same instant. Else it costs a ``stat`` for each.
        """
        now = _signatures(self.settings)
        if changed_only and (now == self._seen or now != self._being_written):
            return TlsLooked(now, None)
        try:
            return TlsLooked(now, _make(self.settings))
        except TlsConfigurationError as error:
            return TlsLooked(now, error)

    def take(self, looked: TlsLooked, now: float) -> bool:
        """Whether there is something new. If it cannot be used the old files stay, and the error is raised; they also
        stay until the new ones are valid. ``now``: in seconds since 1970.
        """
        self._being_written = looked.signature
        if looked.made is not None:
            self._seen = looked.signature
            self.outdated = isinstance(looked.made, TlsConfigurationError)
            self._later = None
        if isinstance(looked.made, TlsConfigurationError):
            raise looked.made
        new = looked.made or self._later
        if new is None or new.waits(self._made, now):
            self._later = new
            return False
        self._made, self._later = new, None
        self.shown.close_revoked(new.revoked)
        return True

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> ssl.SSLObject:
        """The server's side of one connection."""
        return self._made.context.wrap_bio(incoming, outgoing, server_side=True)

    def failed(self, error: ssl.SSLError) -> None:
        """A connection ended by this."""
        self.failures[kind_of_failure(error)] += 1


def _make(settings: TlsSettings) -> _Made:
    context = build(settings, settings.certificate, settings.key)
    certificates = [_read(settings.certificate)]
    by_name: dict[str, ServerContext | None] = dict.fromkeys(certificates[0].names)
    for path, key in settings.certificates:
        further, certificate = build(settings, path, key), _read(path)
        certificates.append(certificate)
        if not certificate.names:
            raise TlsConfigurationError(f"TLS: {path} names no host, and no client could ask for it")
        for name in certificate.names:
            by_name.setdefault(name, further)
    if settings.certificates:
        context.sni_callback = partial(_choose, by_name)
    lists = tuple(one for path in settings.crl for one in _read_lists(path, settings.client_ca))
    for one in (context, *filter(None, by_name.values())):
        one.hold_to(lists)
    try:
        return _Made(context, tuple(certificates), lists, revoked_in(settings.crl))
    except (OSError, ValueError) as error:
        raise TlsConfigurationError(f"TLS: cannot read {', '.join(settings.crl)}: {ssl_text(error)}") from error


def _choose(
    by_name: Mapping[str, ServerContext | None], connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext
) -> None:
    """Put the certificate in that the client asked for; who asks for none that there is gets the first."""
    wanted = (name or "").lower()
    if wanted not in by_name:
        wanted = f"*.{wanted.partition('.')[2]}"
    if (context := by_name.get(wanted)) is not None:
        connection.context = context


def build(settings: TlsSettings, certificate: str, key: str) -> ServerContext:
    """An OpenSSL context for one certificate."""
    if settings.min_version not in _VERSIONS:
        raise TlsConfigurationError(f"min_version must be one of {', '.join(_VERSIONS)}, not {settings.min_version!r}")
    # It lets an idle connection give its 34 kB of record buffers back.
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.options |= _OPTIONS
    context.num_tickets = _TICKETS
    what = certificate
    try:
        for what in filter(None, (certificate, key, settings.client_ca, *settings.crl)):
            require_plain(what)
        what = f"{certificate} with the key {key}"
        context.load_cert_chain(certificate, key, _no_passphrase)
        what = f"ciphers {settings.ciphers!r}"
        context.set_ciphers(settings.ciphers or _CIPHERS)
        _refuse_unprotected(context)
        what = f"groups {', '.join(settings.groups)}"
        _set_groups(context, settings.groups)
        if settings.client_ca:
            what = settings.client_ca
            context.load_verify_locations(settings.client_ca)
            required = settings.require_client_certificate
            context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
        for what in settings.crl:
            context.load_verify_locations(what)
            # An authority without a list that is valid now lets nobody in.
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_CHAIN
    except (OSError, ValueError) as error:
        raise TlsConfigurationError(f"TLS: cannot use {what}: {ssl_text(error)}") from error
    return context


def _refuse_unprotected(context: ssl.SSLContext) -> None:
    """Also says what a modern list would leave out."""
    weak = []
    for suite in context.get_ciphers():
        name = str(suite["name"])
        if suite["auth"] == "auth-null" or "NULL" in name:
            raise ValueError(f"{name}: nobody proves who he is, or nothing is encrypted")
        if not suite["aead"] or suite["kea"] not in ("kx-ecdhe", "kx-any"):
            weak.append(name)
    if weak:
        log.warning("TLS: the ciphers of the configuration have suites without forward secrecy or AEAD: %s", weak)


def _set_groups(context: ssl.SSLContext, groups: tuple[str, ...]) -> None:
    names = [_GROUPS.get(name, name) for name in groups]
    several = getattr(context, "set_groups", None)  # since Python 3.15
    if several is not None and names:
        several(":".join(names))
    elif len(names) > 1:
        raise ValueError(
            "this Python can be given one of the groups only, or none for OpenSSL's list; a list of your own goes into "
            "the file that OPENSSL_CONF names (docs/security.md)"
        )
    elif names:
        context.set_ecdh_curve(names[0])


def _no_passphrase() -> str:
    """OpenSSL would ask the terminal, and wait."""
    raise ValueError("the key is encrypted")


def _read(path: str) -> Certificate:
    try:
        return read_certificate(path)
    except (OSError, ValueError) as error:
        raise TlsConfigurationError(f"TLS: cannot read {path}: {error}") from error


def _read_lists(path: str, authorities: str) -> tuple[RevocationList, ...]:
    try:
        found = read_lists(path)
        require_authorities(path, authorities)
    except ForeignList as error:
        raise TlsConfigurationError(f"TLS: crl: {error}") from error
    except (OSError, ValueError) as error:
        raise TlsConfigurationError(f"TLS: crl: cannot use {path} with {authorities}: {error}") from error
    return found


def _signatures(settings: TlsSettings) -> _Signature:
    pairs = [(settings.certificate, settings.key), *settings.certificates]
    files = [path for pair in pairs for path in pair] + [settings.client_ca, *settings.crl]
    return tuple(_signature(path) for path in files if path)


def _signature(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - every second, for a path that is a str anyway
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
