"""The chain as configured: which links there are, what each one needs, and what goes with what.

::

    auth.chain: []      certificate, if certificate_as_user · file, if users_file · anonymous, if allow_anonymous
    auth.chain: [jwt, file, grid, anonymous]                         exactly these, in this order
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final
from urllib.parse import urlsplit

from iot_mqtt.auth.accounts import Accounts, Store
from iot_mqtt.auth.chain import Chain, Link
from iot_mqtt.auth.links.anonymous import AnonymousLink
from iot_mqtt.auth.links.certificate import CertificateLink
from iot_mqtt.auth.links.passwords import PasswordLink
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.auth.vouched import Vouching

#: Of tokens: HMAC, RSA and ECDSA with SHA-2.
ALGORITHMS: Final = frozenset(f"{kind}{size}" for kind in ("HS", "RS", "ES") for size in (256, 384, 512))
#: Links that keep users here.
STORES: Final = ("file", "grid")
#: Links that take somebody else's word for who a user is.
VOUCHING: Final = ("certificate", "jwt", "http")
LINKS: Final = (*STORES, *VOUCHING, "anonymous")
#: Links that let in clients without a user.
NAMELESS: Final = ("http", "anonymous")


def names_of(settings: AuthSettings, chain: Sequence[str] = ()) -> tuple[str, ...]:
    """The links of a chain; of the general one if it is empty."""
    if chain or settings.chain:
        return tuple(chain or settings.chain)
    asked = {
        "certificate": settings.certificate_as_user,
        "file": settings.users_file is not None,
        "anonymous": settings.allow_anonymous,
    }
    return tuple(name for name, there in asked.items() if there)


def problems(settings: AuthSettings, chain: Sequence[str]) -> Iterator[str]:
    """What is wrong with a chain as it is written."""
    for name in chain:
        if name not in LINKS:
            yield f"there is no link {name!r}; there are {', '.join(LINKS)}"
    if len(set(chain)) < len(chain):
        yield "names a link twice"
    if "file" in chain and settings.users_file is None:
        yield "has the link file, which needs auth.users_file"
    places = [place for place, name in enumerate(chain) if name in STORES]
    if places and places[-1] - places[0] >= len(places):
        yield "must have file and grid beside each other: they are asked as one, so that time does not tell who exists"
    if "jwt" in chain and not _has_keys(settings):
        yield "has the link jwt, which needs one of auth.jwt.secret_file, public_key_file, jwks_file and jwks_url"
    if "http" in chain and settings.http.url is None:
        yield "has the link http, which needs auth.http.url"
    if "anonymous" in chain[:-1]:
        yield "must have anonymous at its end"


def _has_keys(settings: AuthSettings) -> bool:
    jwt = settings.jwt
    return any((jwt.secret_file, jwt.public_key_file, jwt.jwks_file, jwt.jwks_url))


def link_problems(settings: AuthSettings) -> Iterator[tuple[str, str]]:
    """What is wrong with the keys of single links: the key, and the words."""
    try:
        re.compile(settings.certificate.pattern)
    except re.error as error:
        yield "auth.certificate.pattern", f"is no regular expression: {error}"
    unknown = [name for name in settings.jwt.algorithms if name not in ALGORITHMS]
    if unknown:
        yield "auth.jwt.algorithms", f"there is no {unknown[0]!r}; there are {', '.join(sorted(ALGORITHMS))}"
    for key, url in (("auth.jwt.jwks_url", settings.jwt.jwks_url), ("auth.http.url", settings.http.url)):
        if url is not None and not (url.startswith("https://") or _is_near(url)):
            yield key, "must begin with https://, or be http:// on this machine: who answers makes users"


def _is_near(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")


class Builder:
    """Makes chains of the same parts."""

    def __init__(
        self,
        settings: AuthSettings,
        stores: Mapping[str, Store],
        verifier: Verifier,
        further: Mapping[str, Callable[[Accounts], Link]],
        generation: Callable[[str], int] = lambda _: 0,
        guessed_wrong: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``further``: makers of links that are not made here, by name; ``generation``: which user of a name it is;
        ``guessed_wrong`` counts a wrong password for an address.
        """
        self._settings = settings
        self._stores = stores
        self._verifier = verifier
        self._further = further
        #: All users that are kept here, whichever chain asks for them.
        self.accounts = Accounts(tuple(stores.values()))
        self.vouching = Vouching(self.accounts, generation)
        self._guessed_wrong = guessed_wrong
        self._made: dict[tuple[str, ...], Chain] = {}

    def chain(self, names: Sequence[str]) -> Chain:
        """The chain of these links; the same one for the same links."""
        key = tuple(names)
        if key not in self._made:
            self._made[key] = Chain(tuple(self._links(key)), self.vouching, self._guessed_wrong)
        return self._made[key]

    def _links(self, names: tuple[str, ...]) -> Iterator[Link]:
        place = 0
        for stores, group in groupby(names, key=lambda name: name in STORES):
            members = list(group)
            place += len(members)
            if stores:
                yield self._passwords(members, names[place:])
            else:
                yield from (self._link(name, names) for name in members)

    def _passwords(self, members: list[str], rest: Sequence[str]) -> Link:
        accounts = Accounts([self._stores[name] for name in members])
        others = any(name in VOUCHING for name in rest)
        return PasswordLink(" and ".join(members), accounts, self._verifier, others=others)

    def _link(self, name: str, names: tuple[str, ...]) -> Link:
        if name == "anonymous":
            # Where somebody knows names, a name that nobody knows is no anonymous client.
            return AnonymousLink(any_name=not set(names) & {*STORES, "jwt", "http"})
        if name == "certificate":
            settings = self._settings.certificate
            return CertificateLink(self.accounts, settings.field, settings.pattern)
        return self._further[name](self.accounts)
