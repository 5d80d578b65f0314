"""Authentication and rights as configured: what ``app`` makes once, hands to the broker and closes at the end."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from iot_mqtt.auth.accounts import Accounts, Kept, Store
from iot_mqtt.auth.acl import Rules, parse_brought
from iot_mqtt.auth.acl_files import AclFiles, RulesLooked
from iot_mqtt.auth.building import NAMELESS, STORES, VOUCHING, Builder, names_of
from iot_mqtt.auth.chain import Chains, Link, Said
from iot_mqtt.auth.explaining import Answer, Question
from iot_mqtt.auth.fair_queue import Allowance
from iot_mqtt.auth.files import FileError, Looked, WatchedFile
from iot_mqtt.auth.generations import Generations
from iot_mqtt.auth.grid_rules import AclDesk, GridRules
from iot_mqtt.auth.grid_users import GridUsers
from iot_mqtt.auth.hashing import Crossing, HashPool
from iot_mqtt.auth.limit_book import LimitBook
from iot_mqtt.auth.limit_rules import rules_of
from iot_mqtt.auth.links.passwords import PasswordLink
from iot_mqtt.auth.outages import Outage
from iot_mqtt.auth.rights import RuleAuthorizer
from iot_mqtt.auth.scram import Scram
from iot_mqtt.auth.sections import Book
from iot_mqtt.auth.settings import AuthSettings, JwtSettings
from iot_mqtt.auth.user_desk import UserDesk
from iot_mqtt.auth.users import FileStore, parse_users
from iot_mqtt.auth.verdicts import Verifier
from iot_mqtt.auth.web import Web
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.access import AuthenticationMethod, ConnectAttempt, Denied, Principal
from iot_mqtt.ports.alarms import Alarm
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.directory import RETIRED, RULES, SECRETS, USERS, Conflict, Directory

if TYPE_CHECKING:
    from iot_mqtt.auth.key_ring import KeyRing

#: User, client id → whether he may have it.
MayBe = Callable[[str, str], bool]


class Access:
    """The files, the users of the directory, and what stands on them. Making it raises ``FileError`` if a file is
    missing or wrong.

    ``crossing`` runs a call in the reactor's thread (``reactor.callFromThread``). All methods belong there.
    ``of_listeners``: the links of the chains of listeners that have one of their own. ``web`` makes what asks others
    over HTTP, from the file of whom to trust.
    """

    def __init__(
        self,
        settings: AuthSettings,
        crossing: Crossing,
        clock: Clock,
        directory: Directory | None = None,
        of_listeners: Mapping[str, tuple[str, ...]] | None = None,
        web: Callable[[str | None], Web] | None = None,
    ) -> None:
        self._users = WatchedFile(settings.users_file, parse_users) if settings.users_file else None
        self._rules = AclFiles(settings.acl_file) if settings.acl_file else None
        self._hook_token = WatchedFile(settings.http.token_file, stripped) if settings.http.token_file else None
        self.pool = HashPool(
            crossing,
            clock,
            threads=settings.hash_threads,
            queue=settings.hash_queue,
            allowance=Allowance(settings.guess_burst, settings.guess_seconds),
        )
        self._verifier = Verifier(
            self.pool, clock.monotonic, seconds=settings.verdict_cache_seconds, size=settings.verdict_cache_size
        )
        chains = {name: names_of(settings, chain) for name, chain in (of_listeners or {}).items() if chain}
        general = names_of(settings)
        self._links = frozenset(general).union(*chains.values())
        self._generation: Callable[[str], int] = _first
        self._keys = make_keys(settings.jwt, clock, web) if "jwt" in self._links else None
        #: Of the service that the link http asks, whichever chain it is in.
        self._outage = Outage("the service of auth.http", clock)
        further = self._further(settings, clock, web)
        if directory is not None and "grid" in self._links:
            self._generation = Generations(directory).of
        self._builder = builder = Builder(
            settings, self._stores(directory), self._verifier, further, self._generation, self.pool.guessed_wrong
        )
        self.accounts = builder.accounts
        self.authenticator = Chains(
            builder.chain(general), {name: builder.chain(links) for name, links in chains.items()}
        )
        self._directory = directory
        #: From which salts of names that nobody has are made; another one until ``prepare``.
        self._key = secrets.token_bytes(32)
        self.methods: dict[str, AuthenticationMethod] = {}
        if settings.scram:
            self.methods[Scram.name] = Scram(self._accounts_at, self.pool, lambda: self._key, builder.vouching)
        self._grid_rules = GridRules(directory) if settings.acl_grid and directory is not None else None
        self._book = self._bound()
        self.authorizer = RuleAuthorizer(lambda: self._book, self.may_come, self.groups_of)
        #: Who may use up how much.
        self.limits = LimitBook(rules_of(settings.limits, "auth.limits"), directory, self.groups_of)
        #: Called after users or rules changed, with the users who may not come in any more.
        self.on_changed: Callable[[frozenset[str]], None] = _nobody_listens
        #: Called after users were given other client ids, with them, and with what says whether a user may have one.
        self.on_renamed: Callable[[frozenset[str], MayBe], None] = _nobody_is_renamed
        if directory is not None and "grid" in self._links:
            directory.watch(USERS, self._grid_changed)
            directory.watch(RETIRED, self._retired)
        if directory is not None and self._grid_rules is not None:
            directory.watch(RULES, self._rules_changed)

    def look(self, *, changed_only: bool) -> Callable[[], list[FileError]]:
        """What the files say now, in any thread; with ``changed_only`` those are read that are others than last time.

        What it returns puts that in force, in the reactor's thread: a file that is wrong keeps what it said before, and
        its error is returned.
        """
        files = [(file, file.look(changed_only=changed_only)) for file in self._files()]
        rules = None if self._rules is None else self._rules.look(changed_only=changed_only)
        return partial(self._take, files, rules, forget=not changed_only)

    @property
    def outdated(self) -> list[FileError]:
        """Why files cannot be used as they are; what they said before counts."""
        errors = [file.error for file in self._files() if file.error is not None]
        return errors if self._rules is None else [*errors, *self._rules.outdated]

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Who is asked for clients or keys, and does not answer."""
        return self._outage.alarms if self._keys is None else (*self._outage.alarms, *self._keys.alarms)

    def close(self) -> None:
        """Stop the threads; clients that wait for a verdict are told to come back."""
        self.pool.close()
        self._outage.close()
        if self._keys is not None:
            self._keys.close()

    async def explain(self, attempt: ConnectAttempt) -> tuple[list[Said], Principal | Denied]:
        """What each link says of a client, and what would become of it."""
        said, verdict = await self.authenticator.of(attempt.listener).explain(attempt)
        if isinstance(verdict, Principal):
            verdict = verdict._replace(groups=verdict.groups | self.groups_of(verdict.owner))
        return said, verdict

    def user_desk(self, directory: Directory) -> UserDesk:
        """For operators."""
        return UserDesk(directory, self.pool, asked="grid" in self._links)

    def acl_desk(self, directory: Directory) -> AclDesk:
        """For operators."""
        return AclDesk(directory, asked=self._grid_rules is not None)

    def may(self, who: Principal, question: Question) -> Answer:
        """Whether a client may do something, and by which rule. ``ValueError``: the question makes no sense."""
        return self.authorizer.explain(who._replace(generation=self._generation(who.owner)), question)

    def lets(self, user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        """Whether a user may do something who is no client: nothing is known of it but the name."""
        return self.allows(self.named(user), action, asked, qos, retain=retain)

    def allows(self, who: Principal, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        """Whether a client may do something now, connected or not: which user of his name he is counts."""
        try:
            return self.authorizer.explain(who, Question(action, asked, qos, retain)).allowed
        except ValueError:
            return False

    def named(self, user: str) -> Principal:
        """The user who has this name now; nothing else is known of him."""
        return Principal("", user, generation=self._generation(user))

    @property
    def keeps_users(self) -> bool:
        """Whether every user who has a password is kept here, and nobody else is asked for it."""
        return bool(self._links & {"file", "grid"}) and not self._links & {"http", "jwt"}

    def kept(self, listener: str, name: str) -> Kept | None:
        """Where the password of this user is for clients of a listener; None: others may know users, too."""
        accounts = self._accounts_at(listener) if self.keeps_users else None
        if accounts is None:
            return None
        disabler = accounts.disabler(name)
        found = disabler or accounts.holder(name)
        # A new user is better made in the grid, for every node.
        in_file = all(isinstance(store, FileStore) for store in ([found] if found else accounts.stores))
        file = self._users.path if in_file and self._users is not None else None
        return Kept(found is not None, file, enabled=disabler is None)

    def groups_of(self, owner: str) -> frozenset[str]:
        """The groups that a user is in now, by what is kept of users here."""
        return self.accounts.groups_of(owner)

    def require(self, chain: tuple[str, ...]) -> None:
        """Whether a listener that is opened now can have this chain. ``ValueError`` says why not."""
        missing = [name for name in chain if name not in self._links]
        if missing:
            raise ValueError(f"no listener has asked {missing[0]} since the node started: that needs a restart")

    def serve(self, listener: str, chain: tuple[str, ...]) -> None:
        """Clients of this listener are asked for by this chain; empty: by the general one."""
        self.authenticator.use(listener, self._builder.chain(chain) if chain else None)

    @property
    def has_files(self) -> bool:
        """Whether there is anything to be looked at again."""
        return bool(self._files()) or self._rules is not None

    async def prepare(self) -> None:
        """The directory is there: have the key that all nodes share, or make it."""
        if self.methods and self._directory is not None:
            self._key = await shared_key(self._directory, "scram")

    def _accounts_at(self, listener: str) -> Accounts | None:
        """The users that clients of a listener may be by a password."""
        links = self.authenticator.of(listener).links
        return next((link.accounts for link in links if isinstance(link, PasswordLink)), None)

    def begin(self) -> None:
        """Clients will come: ask others for what links need."""
        if self._keys is not None:
            self._keys.begin()

    def _further(
        self, settings: AuthSettings, clock: Clock, web: Callable[[str | None], Web] | None
    ) -> dict[str, Callable[[Accounts], Link]]:
        """Makers of the links that need more than what is kept here."""
        makers: dict[str, Callable[[Accounts], Link]] = {}
        if self._keys is not None:
            # Late: who has no such link need not load the libraries.
            from iot_mqtt.auth.links.tokens import TokenLink

            keys = self._keys
            makers["jwt"] = lambda accounts: TokenLink(settings.jwt, keys, accounts, clock)
        if "http" in self._links and web is not None:
            from iot_mqtt.auth.links.hook import HookLink

            http, asked, outage = settings.http, web(settings.http.ca), self._outage
            token = self._hook_token
            shown = _no_token if token is None else lambda: token.content
            makers["http"] = lambda accounts: HookLink(http, asked, accounts, self.pool, clock, outage, shown)
        return makers

    def _stores(self, directory: Directory | None) -> dict[str, Store]:
        """Those that some chain asks."""
        stores: dict[str, Store] = {}
        if self._users is not None and "file" in self._links:
            stores["file"] = FileStore(self._users)
        if directory is not None and "grid" in self._links:
            stores["grid"] = GridUsers(directory)
        return stores

    def _bound(self) -> Book:
        """The rules of all sources, as they are now."""
        # An empty directory of rules is one all the same: no rule, no right.
        sources = [] if self._rules is None else [*(self._rules.content or (Rules(),))]
        return Book([*sources, *([] if self._grid_rules is None else self._grid_rules.sources())], parse_brought)

    def _rules_changed(self, _: frozenset[str]) -> None:
        """Rules of the directory are others now, here or at another node."""
        self._book = self._bound()
        self.authorizer.renew()
        self.on_changed(frozenset())

    def may_come(self, who: Principal) -> bool:
        """Whether a client could be let in now by the link that let it in; where that is not known, by any."""
        owner = who.owner
        vouching = VOUCHING if owner else NAMELESS
        others = who.link in vouching and who.link in self._links if who.link else not self._links.isdisjoint(vouching)
        if not owner:
            return others
        if who.generation != self._generation(owner) or self.accounts.is_disabled(owner):
            return False
        by_password = self.accounts.find(owner) is not None or not self._links.intersection(STORES)
        return others or (by_password and who.link not in VOUCHING)

    def _is_kept(self, name: str) -> bool:
        return self.accounts.find(name) is not None and not self.accounts.is_disabled(name)

    def _grid_changed(self, names: frozenset[str]) -> None:
        """Users of the directory are others now, here or at another node."""
        self.authorizer.renew()
        self.on_changed(frozenset(name for name in names if not self._is_kept(name)))
        named = frozenset(filter(self.accounts.has_patterns, names))
        if named:
            self.on_renamed(named, self.accounts.may_be)

    def _retired(self, names: frozenset[str]) -> None:
        """Users of these names were deleted: whoever is in by one of them is not who has the name now."""
        assert self._directory is not None
        self.authorizer.renew()
        self.on_changed(names.intersection(self._directory.of(RETIRED)))

    def _take(
        self, files: list[tuple[WatchedFile[Any], Looked[Any]]], rules: RulesLooked | None, *, forget: bool
    ) -> list[FileError]:
        if forget:
            self._verifier.forget()
        before = self._rules and self._rules.content
        knew = None if self._users is None else self._users.content
        errors = [error for file, looked in files if (error := file.take(looked)) is not None]
        if self._rules is not None and rules is not None:
            errors += self._rules.take(rules)
        if self._rules and self._rules.content is not before:
            self._book = self._bound()
            self.authorizer.renew()
        know = None if self._users is None else self._users.content
        gone = knew.gone_in(know) if knew is not None and know is not None else frozenset()
        gone = frozenset(name for name in gone if not self._is_kept(name))
        if know is not knew or (self._rules and self._rules.content) is not before:
            self.on_changed(gone)
        return errors

    def _files(self) -> list[WatchedFile[Any]]:
        keys = () if self._keys is None else self._keys.files
        return [file for file in (self._users, self._hook_token, *keys) if file is not None]


async def shared_key(directory: Directory, name: str) -> bytes:
    """A secret of 32 bytes that every node has; the first one makes it."""
    document = directory.get(SECRETS, name)
    if document is None:
        try:
            document = await directory.put(SECRETS, name, {"key": secrets.token_hex(32)}, 0)
        except Conflict:
            await directory.refresh()
            document = directory.get(SECRETS, name)
    if document is None:
        raise Unavailable(f"the nodes' key {name!r} was taken away while this node started")
    return bytes.fromhex(str(document.body["key"]))


def make_keys(settings: JwtSettings, clock: Clock, web: Callable[[str | None], Web] | None) -> KeyRing:
    """The keys for tokens, as configured."""
    from iot_mqtt.auth import token_keys
    from iot_mqtt.auth.key_ring import KeyRing

    parsers = (
        (settings.secret_file, token_keys.secret_key),
        (settings.public_key_file, token_keys.public_key),
        (settings.jwks_file, token_keys.key_set),
    )
    files = [WatchedFile(path, parse) for path, parse in parsers if path is not None]
    fetching = web(settings.jwks_ca) if web is not None and settings.jwks_url is not None else None
    return KeyRing(files, clock, fetching, settings.jwks_url, settings.jwks_refresh)


def stripped(text: str, path: str) -> str:
    """A file that holds a secret, and perhaps the end of a line."""
    if not text.strip():
        raise FileError(path, None, "is empty")
    return text.strip()


def _no_token() -> None:
    """The service asks for none."""


def _first(_: str) -> int:
    """Where nobody is known to have been deleted."""
    return 0


def _nobody_listens(_: frozenset[str]) -> None:
    """Until there is a broker."""


def _nobody_is_renamed(_: frozenset[str], __: MayBe) -> None:
    """Until there is a broker."""
