"""Who may: authentication at CONNECT and the rights that a connection then holds.

The rule of combination: the first decisive answer counts, and no answer means no. Asking for rights is
asynchronous and happens once, at CONNECT; the answer is a ``Permissions`` object that decides each topic
at once, because PUBLISH cannot wait. When rules change, ``Permissions.version`` moves on and memoised
verdicts are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.named import made
from iot_mqtt.values import Standing


class Action(Enum):
    """What a client asks to do with a topic, a filter or a name."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    #: Having what was published in the past; asked for a filter, on top of subscribing to it.
    REPLAY = "replay"
    #: Receiving a message that matched an allowed filter.
    READ = "read"
    #: Being the client of an id; asked at CONNECT.
    CLIENT = "client"
    #: Being the gateway of a name; asked at a gateway's login.
    GATEWAY = "gateway"


#: The actions that are about a name, not about a topic or a filter.
OF_NAMES = frozenset({Action.CLIENT, Action.GATEWAY})


#: Of a client without a certificate.
NO_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({})

#: Between a name and its generation.
_LIVES: Final = "\0"
#: A generation as ``Principal.identity`` writes it.
_GENERATION: Final = re.compile(r"0|[1-9][0-9]{0,17}")
#: Bytes of a name: MQTT has room for as many.
LONGEST_NAME: Final = 65_535

#: Forms of PUBLISH: one bit for each QoS, retained and not.
ALL_FORMS: Final = 0x3F


def form_of(head: int) -> int:
    """The form that the first byte of a PUBLISH packet says: QoS in bits 1 and 2, RETAIN in bit 0."""
    return 1 << (head & 7)


class ConnectAttempt(NamedTuple):
    """What is known of a client when it asks to be let in. The password stays out of ``repr``."""

    client_id: str
    username: str | None
    password: bytes | None
    peer: str
    listener: str
    version: int
    #: Subject common name of the verified client certificate, if TLS asked for one.
    certificate_name: str | None = None
    #: Further names of that certificate: ``dns``, ``email``, ``uri`` and ``fingerprint`` (SHA-256, hexadecimal).
    certificate: Mapping[str, tuple[str, ...]] = NO_NAMES

    def __repr__(self) -> str:
        return f"<ConnectAttempt {self.client_id!r} user={self.username!r} peer={self.peer} listener={self.listener}>"


class Principal(NamedTuple):
    """Who a connection is, once let in."""

    client_id: str
    username: str | None = None
    anonymous: bool = False
    superuser: bool = False
    #: Groups that rules may speak of, as whoever vouched for the client named them.
    groups: frozenset[str] = frozenset()
    #: The address that the client comes from, without its port; "" where nobody is connected.
    address: str = ""
    #: Rules of its own that it brought with its proof (a token's claims), in the words of the ACL file.
    brought_rules: tuple[str, ...] = ()
    #: Seconds since 1970 after which its proof is worth nothing; None: it does not end.
    expires_at: float | None = None
    #: How many users of this name were deleted before: it is another user's each time.
    generation: int = 0
    #: Which link or method let it in; "" where that is not known.
    link: str = ""

    @property
    def owner(self) -> str:
        """The verified user name, or "" for everybody who has none."""
        return "" if self.anonymous else self.username or ""

    @property
    def identity(self) -> str:
        """What owns sessions: the name, and which of its users, if there were others before. The generation of a name
        that has the sign between them is always there, so that no name is another user's identity.
        """
        owner = self.owner
        return f"{owner}{_LIVES}{self.generation}" if owner and (self.generation or _LIVES in owner) else owner

    @property
    def standing(self) -> Standing:
        """What of it is kept with a will."""
        return Standing(self.groups, self.address, self.brought_rules, self.link)


def vouched_for(principal: Principal, address: str, generation: int, link: str) -> Principal:
    """The same once it is known where it comes from, which user of its name it is, and who says so."""
    fields: tuple[Any, ...] = principal
    return made(Principal, fields[:5] + (address,) + fields[6:8] + (generation, link))  # noqa: RUF005 - a list is slower


def user_of(identity: str) -> str:
    """The name in an identity (``Principal.identity``)."""
    return _parted(identity)[0]


def generation_of(identity: str) -> int:
    """Which user of its name an identity is."""
    return _parted(identity)[1]


def _parted(identity: str) -> tuple[str, int]:
    name, sign, generation = identity.rpartition(_LIVES)
    if sign and name and _GENERATION.fullmatch(generation):
        return name, int(generation)
    return identity, 0


def principal_of(client_id: str, identity: str, standing: Standing) -> Principal:
    """Who a client was, of which these are kept; ``identity`` as ``Principal.identity``, "" of an anonymous one."""
    owner, generation = _parted(identity)
    who = Principal(client_id, owner or None, anonymous=not owner, generation=generation)
    return who._replace(**standing._asdict())


def is_user_name(name: str) -> bool:
    """Whether a user may be called so, whoever vouches for it: it is not empty, has no character that cannot be
    printed, and MQTT has room for it.
    """
    return bool(name) and name.isprintable() and len(name.encode()) <= LONGEST_NAME


@dataclass(frozen=True, slots=True)
class Denied:
    """Not let in, and the CONNACK reason that says so."""

    reason: ReasonCode
    detail: str


class Authenticator(Protocol):
    """Decides on a CONNECT."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied: ...


class Permissions(Protocol):
    """The rights of one principal. ``allows`` must not block."""

    #: True when everything is allowed, so that the hot path need not ask.
    unrestricted: bool
    #: Changes when a verdict may have changed.
    version: int

    def allows(self, action: Action, asked: str) -> bool:
        """Whether the principal may do it; ``asked`` is the topic, the filter or the name (``OF_NAMES``). Of PUBLISH:
        whether it may in any form.
        """
        ...

    def forms(self, topic: str) -> int:
        """In which forms the principal may publish to a topic (``form_of``)."""
        ...

    def beside(self, topic: str) -> int:
        """The same for all topics that differ from a topic which was asked for in the last level only; 0 where they are
        told apart, or nobody knows.
        """
        ...


class Authorizer(Protocol):
    """Hands out rights."""

    async def permissions(self, principal: Principal) -> Permissions: ...


@dataclass(frozen=True, slots=True)
class Challenge:
    """Another round of an enhanced-authentication exchange: data for the client's next AUTH."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Granted:
    """The exchange is over and succeeded; ``data`` goes back to the client."""

    principal: Principal
    data: bytes | None = None


class Exchange(Protocol):
    """One enhanced-authentication exchange of one connection."""

    async def step(self, data: bytes | None) -> Challenge | Granted | Denied: ...


class AuthenticationMethod(Protocol):
    """A pluggable method of MQTT 5 enhanced authentication (section 4.12)."""

    name: str

    def begin(self, attempt: ConnectAttempt) -> Exchange: ...
