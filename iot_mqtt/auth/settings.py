"""What the configuration says about who may: read once, frozen, passed to ``auth.service``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class CertificateSettings:
    """``auth.certificate.*``: which name of a client certificate is the user."""

    field: Literal["cn", "dns", "email", "uri", "fingerprint"] = "cn"
    #: What the whole name must look like; the group ``user``, or the first one, is the user. "": the name itself.
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """``auth.jwt.*``: tokens in place of passwords."""

    #: A shared secret of at least 32 bytes, for HS*.
    secret_file: str | None = None
    #: A public key or a certificate in PEM, for RS* or ES*.
    public_key_file: str | None = None
    jwks_file: str | None = None
    jwks_url: str | None = None
    #: Certificates that the server of ``jwks_url`` may be signed by; None: those of the system.
    jwks_ca: str | None = None
    jwks_refresh: float = 300.0
    #: Empty: all that the keys are for.
    algorithms: tuple[str, ...] = ()
    issuer: str = ""
    audience: str = ""
    #: Seconds that clocks may differ.
    leeway: float = 5.0
    require_expiry: bool = True
    user_claim: str = "sub"
    #: "": none is read.
    groups_claim: str = "groups"
    rules_claim: str = ""
    #: A user name in CONNECT must be the token's user.
    check_username: bool = True


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """``auth.http.*``: a service that is asked who clients are."""

    url: str | None = None
    #: What is shown to the service, as a bearer token.
    token_file: str | None = None
    #: Certificates that the service's may be signed by; None: those of the system.
    ca: str | None = None
    timeout: float = 3.0
    #: Questions on their way, and those that may wait behind them.
    at_once: int = 32
    queue: int = 1000
    cache_seconds: float = 10.0
    cache_size: int = 10_000


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """The keys below ``auth`` in ``application.yaml``; paths are already absolute."""

    #: The links that are asked in turn. Empty: what the keys below say, in the order certificate, file, anonymous.
    chain: tuple[str, ...] = ()
    #: Let clients in that name no user. Without ``users_file`` it also lets in those that name one, unverified.
    allow_anonymous: bool = True
    #: ``name:$argon2id$...`` per line; kept with ``iot-mqtt passwd``. None: nobody has a password.
    users_file: str | None = None
    #: Rules about topics: files, or directories of them. None: whoever was let in may do everything.
    acl_file: tuple[str, ...] | None = None
    #: Rules of the grid, behind those of the file. Where there are none at all, nobody may do anything.
    acl_grid: bool = False
    #: Who may use up how much, as in documents of limits; those of the grid stand before them.
    limits: tuple[Mapping[str, object], ...] = ()
    #: The common name of a verified client certificate stands for a user name and its password.
    certificate_as_user: bool = False
    certificate: CertificateSettings = CertificateSettings()
    jwt: JwtSettings = JwtSettings()
    http: HttpSettings = HttpSettings()
    #: Offer SCRAM-SHA-256 (MQTT 5) to users of file and grid who have keys for it.
    scram: bool = False
    #: What becomes of a client that asks for a session which another user began. clean: it gets an empty one.
    session_of_another_user: Literal["refuse", "clean"] = "refuse"
    #: Passwords are verified on this many threads; argon2 uses about 19 MB on each.
    hash_threads: int = 2
    #: Verifications that may wait for a thread; beyond that clients of the address with most are told 0x89.
    hash_queue: int = 1000
    #: Wrong passwords that one address may show at once; 0: any number.
    guess_burst: int = 50
    #: Seconds in which it may show one more; until then its verifications wait.
    guess_seconds: float = 1.0
    #: A verified (or refused) password is remembered this long, so that a reconnect storm is cheap. 0: never.
    verdict_cache_seconds: float = 30.0
    #: How many verdicts are remembered.
    verdict_cache_size: int = 10_000
    #: Both files are looked at this often, and read again if they changed. 0: only when asked to.
    reload_seconds: float = 0.5
