"""Who calls the API, and what he may: a role, and for tokens a scope and an end.

=========  ====================================================================================================
viewer     whatever only looks
operator   and what acts on clients, messages, gateways and nodes
admin      and users, tokens, plugins, and the audit log
=========  ====================================================================================================

The token of the data directory is an admin's: whoever can read that directory can do all of it anyway. Other tokens are
made by an admin, known on every node, and kept as their hash.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final, Literal, Protocol
from urllib.parse import unquote

from iot_mqtt.admin.paths import readable_path
from iot_mqtt.admin.token import same
from iot_mqtt.errors import ReasonCode, Refused
from iot_mqtt.ports.directory import ADMINS, Directory, Document

TOKENS: Final = "tokens"
#: The first part of a token, by which people and scanners know what they have found.
PREFIX: Final = "iot"
#: Before the name of a user, in a scope: what it sends needs that user's right.
AS: Final = "as:"
#: The paths that ask for it: what programs do with messages and devices.
OF_USERS: Final = frozenset({"commands", "shadows", "publish"})
#: Nobody needs more; each is looked at by its id, so the number costs nothing.
MAX_TOKENS: Final = 1000
_LONGEST: Final = 256
_LIFE: Final = 366 * 24 * 3600.0


#: Of a caller: an admin user who has logged in, a token that was made, or the token of the data directory.
Kind = Literal["user", "token", "root"]
#: What that one is called; nobody else may be.
ROOT: Final = "admin.token"


class Role(IntEnum):
    """Each may do what the one before may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


def role_of(word: str) -> Role:
    """``ValueError`` for a word that is no role."""
    try:
        return Role[word.upper()]
    except KeyError:
        raise ValueError(f"a role is {', '.join(one.word for one in Role)}, not {word!r}") from None


@dataclass(frozen=True, slots=True)
class Caller:
    """``scope``: paths below ``/api/v1`` that it may call, and what is below them; none for all. They are paths of
    ``readable_path``.

    Who has logged in has the name of the login's document, what the page has to show besides the cookie, and perhaps a
    password that he must change before anything else.
    """

    name: str
    role: Role
    scope: tuple[str, ...] = ()
    login: str = ""
    csrf: str = ""
    must_change: bool = False
    #: The id of the token that was shown, if it is one that was made.
    token: str = ""
    #: The admin user behind that one.
    admin: str | None = None
    #: When that one ends, in seconds since 1970; None: it does not.
    expires_at: float | None = None

    @property
    def kind(self) -> Kind:
        """What ``name`` is the name of."""
        return "user" if self.login else "token" if self.token else "root"

    @property
    def user(self) -> str | None:
        """In whose name it acts: an entry of the scope, ``as:NAME``."""
        return next((one.removeprefix(AS) for one in self.scope if one.startswith(AS)), None)

    @property
    def limited(self) -> bool:
        """Whether it has a scope or an end."""
        return bool(self.scope) or self.expires_at is not None

    def may(self, role: Role, path: str) -> bool:
        """Whether a call at a path that asks for a role is his to make."""
        return self.role >= role and self._reaches(path)

    def reaches_all(self, scope: Sequence[str]) -> bool:
        """Whether it could do whatever a token of such a scope may."""
        paths = _paths_of(scope)
        return self._reaches("") if not paths else all(map(self._reaches, paths))

    def _reaches(self, path: str) -> bool:
        paths = _paths_of(self.scope)
        return not paths or any(path == one or path.startswith(f"{one}/") for one in paths)


def _paths_of(scope: Sequence[str]) -> list[str]:
    return [one for one in scope if not one.startswith(AS)]


class Callers(Protocol):
    """Knows callers by what they show."""

    def known(self, authorization: bytes) -> Caller | None:
        """Whose header this is; None for nobody's."""
        ...


def canonical(authorization: bytes) -> bytes:
    """The header with its scheme as ``Callers`` has it: its case means nothing (RFC 9110, 11.1)."""
    scheme, space, rest = authorization.partition(b" ")
    return b"Bearer" + space + rest if scheme.lower() == b"bearer" else authorization


class RootToken:
    """The token of the data directory, and no other."""

    def __init__(self, token: str) -> None:
        self._expected = b"Bearer " + token.encode()

    def known(self, authorization: bytes) -> Caller | None:
        return Caller(ROOT, Role.ADMIN) if same(authorization, self._expected) else None


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as operators see it: never the secret."""

    id: str
    name: str
    #: What it may now.
    role: str
    scope: tuple[str, ...]
    #: Seconds since 1970; None: it does not end.
    expires_at: float | None
    expired: bool
    made_by: str
    made_at: float
    #: The admin user who made it, or the token that did: it ends with him, and may no more than he does.
    admin: str | None


@dataclass(frozen=True, slots=True)
class MadeToken(TokenInfo):
    """With the token itself, which is told once."""

    token: str


class Tokens:
    """All tokens of the cluster; ``now`` is wall-clock seconds."""

    def __init__(self, root: Callers, directory: Directory, now: Callable[[], float]) -> None:
        self._root = root
        self._directory = directory
        self._now = now

    def known(self, authorization: bytes) -> Caller | None:
        kind, _, shown = authorization[:_LONGEST].partition(b" ")
        prefix, _, rest = shown.partition(b"_")
        if kind != b"Bearer" or prefix != PREFIX.encode():
            return self._root.known(authorization)
        id, _, secret = rest.partition(b"_")
        document = self._directory.get(TOKENS, id.decode("ascii", "replace"))
        # Unknown ids take the time of known ones.
        expected = "" if document is None else str(document.body.get("hash"))
        fits = same(hash_of(secret).encode(), expected.encode())
        if document is None or not fits or (info := self._info(document)).expired:
            return None
        role, ends = role_of(info.role), info.expires_at
        return Caller(info.name, role, info.scope, token=info.id, admin=info.admin, expires_at=ends)

    async def make(
        self, name: str, role: Role, scope: Sequence[str], seconds: float | None, *, by: Caller
    ) -> MadeToken:
        """``ValueError`` for what can't be kept, ``PermissionError`` for more than its maker may, ``Refused`` for too
        many.
        """
        if not 1 <= len(name) <= 64 or not name.isprintable():
            raise ValueError("a token's name has 1 to 64 printable characters")
        if name in (ROOT, ".", ".."):
            raise ValueError(f"a token is not called {name}")
        if seconds is not None and not 0 < seconds <= _LIFE:
            raise ValueError(f"a token is good for up to {_LIFE:.0f} seconds, or without end")
        if len(scope) > 32 or not all(one and not one.startswith("/") and len(one) <= 128 for one in scope):
            raise ValueError("a scope is up to 32 paths below /api/v1, such as clients or retained")
        named = [one for one in scope if one.startswith(AS)]
        paths = [one.partition("/")[0] for one in scope if one not in named]
        if len(named) > 1 or AS in named or (named and not (paths and OF_USERS.issuperset(paths))):
            raise ValueError(f"as:NAME stands once in a scope, beside some of {', '.join(sorted(OF_USERS))}")
        kept = [one if one in named else _path_in(one) for one in scope]
        ends = None if seconds is None else self._now() + seconds
        _check_within(by, role, kept, ends)
        admin = by.name if by.login else by.admin
        if len(self._directory.of(TOKENS)) >= MAX_TOKENS:
            raise Refused(f"there are {MAX_TOKENS} tokens already", ReasonCode.QUOTA_EXCEEDED)
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        body = {
            "name": name,
            "role": role.word,
            "scope": kept,
            "hash": hash_of(secret.encode()),
            "made_by": by.name,
            "made_at": self._now(),
            "expires_at": ends,
            "admin": admin,
            "admin_made_at": None if admin is None else self._admin(admin).get("made_at"),
        }
        info = self._info(await self._directory.put(TOKENS, id, body, 0))
        fields = {one: getattr(info, one) for one in TokenInfo.__slots__}
        return MadeToken(**fields, token=f"{PREFIX}_{id}_{secret}")

    def page(self, after: str | None, limit: int) -> list[TokenInfo]:
        """By id."""
        return [self._info(one) for one in self._directory.page(TOKENS, after or "", limit)]

    async def delete(self, id: str) -> bool:
        """From now on, and within a second on every node, nobody knows it. False if there was none."""
        return await self._directory.delete(TOKENS, id)

    def _admin(self, name: str) -> Mapping[str, Any]:
        found = self._directory.get(ADMINS, name)
        return {} if found is None else found.body

    def _info(self, document: Document) -> TokenInfo:
        body: Mapping[str, Any] = document.body
        ends, role, admin = body.get("expires_at"), str(body.get("role")), body.get("admin")
        expired = ends is not None and float(ends) <= self._now()
        if admin is not None:
            his = self._admin(admin)
            # Another user may have that name by now.
            expired = expired or not his or his.get("made_at") != body.get("admin_made_at")
            role = min(role_of(role), role_of(str(his.get("role", role)))).word
        return TokenInfo(
            id=document.name,
            name=str(body.get("name")),
            role=role,
            scope=tuple(map(str, body.get("scope", ()))),
            expires_at=ends,
            expired=expired,
            made_by=str(body.get("made_by")),
            made_at=float(body.get("made_at", 0.0)),
            admin=admin,
        )


def _path_in(scope: str) -> str:
    """A path as calls have theirs, whatever of it is encoded."""
    return readable_path(map(unquote, scope.split("/")))


def _check_within(maker: Caller, role: Role, scope: Sequence[str], ends: float | None) -> None:
    """Whoever may make tokens does not come to more by one."""
    most = maker.expires_at
    if role > maker.role:
        raise PermissionError(f"{maker.name} makes no token with a role above {maker.role.word}")
    if not maker.reaches_all(scope):
        raise PermissionError(f"{maker.name} makes tokens with a scope within its own only: {', '.join(maker.scope)}")
    if most is not None and (ends is None or ends > most):
        said = datetime.fromtimestamp(most, UTC).isoformat(timespec="seconds")
        raise PermissionError(f"{maker.name} makes tokens with an end that is not after its own only: {said}")


def hash_of(secret: bytes) -> str:
    # 256 random bits need no slow hash.
    return hashlib.sha256(secret).hexdigest()
