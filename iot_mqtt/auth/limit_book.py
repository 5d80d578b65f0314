"""The limits of identities: what the configuration, documents of the grid and users of the grid say, put together.

    limits/<name>   {"user": "plant-*", "message_rate": 100}
    users/<name>    {"limits": {"message_rate": 100}, …}

Asked once for each CONNECT, and again for everybody when a document changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from iot_mqtt.auth.limit_rules import WHO, LimitRule, LimitRules, combined, explained, known_rule, rule_of
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.directory import LIMITS, USERS, Directory, Document
from iot_mqtt.ports.limits import NO_LIMITS, Limits, Said, known_limits

logger = logging.getLogger(__name__)

LONGEST_NAME: Final = 64
#: Documents of limits. Those of users are as many as users.
MOST_DOCUMENTS: Final = 2000


class LimitBook:
    """Of one node. ``groups_of``: the groups that a user is in now."""

    def __init__(
        self,
        written: Iterable[LimitRule],
        directory: Directory | None,
        groups_of: Callable[[str], frozenset[str]],
    ) -> None:
        self._written = tuple(written)
        self._groups_of = groups_of
        self._directory = directory
        self._documents: dict[str, LimitRule] = {}
        self._users: dict[str, LimitRule] = {}
        #: Called after what is said of somebody has changed.
        self.on_changed: Callable[[], None] = lambda: None
        self._bind()
        if directory is not None:
            directory.watch(LIMITS, self._documents_changed)
            directory.watch(USERS, self._users_changed)
            self._read_documents(directory.of(LIMITS))
            self._read_users(directory.of(USERS))

    def of(self, who: Principal) -> Limits | None:
        """The limits of a client; None: nothing is said of it."""
        if not (self._any or self._users):
            return None
        return combined(self._about(who))

    def explain(self, who: Principal) -> list[Said]:
        """What is said of a client, and where."""
        return explained(self._about(who))

    def _about(self, who: Principal) -> list[LimitRule]:
        groups = who.groups | self._groups_of(who.owner)
        found = self._rules.about(who, groups) if self._any else []
        own = self._users.get(who.owner)
        if own is not None:
            found = sorted([*found, own], key=lambda rule: rule.order)
        return found

    def rewrite(self, written: Iterable[LimitRule]) -> None:
        """The configuration says something else now."""
        self._written = tuple(written)
        self._bind()

    def _bind(self) -> None:
        rules = (*self._written, *self._documents.values())
        self._any = bool(rules)
        self._rules = LimitRules(rules)

    def _documents_changed(self, names: frozenset[str]) -> None:
        self._read_documents(names)
        self.on_changed()

    def _read_documents(self, names: Iterable[str]) -> None:
        for name in names:
            self._documents.pop(name, None)
            document = None if self._directory is None else self._directory.get(LIMITS, name)
            if document is not None:
                rule = _rule(document)
                if rule is not None:
                    self._documents[name] = rule
        self._bind()

    def _users_changed(self, names: frozenset[str]) -> None:
        # Groups may have changed, too.
        self._read_users(names)
        self.on_changed()

    def _read_users(self, names: Iterable[str]) -> None:
        for name in names:
            self._users.pop(name, None)
            document = None if self._directory is None else self._directory.get(USERS, name)
            limits = {} if document is None else document.body.get("limits", {})
            if isinstance(limits, dict) and limits:
                found, wrong = known_limits(limits)
                _complain(f"user {name!r}", wrong)
                if found != NO_LIMITS:
                    self._users[name] = LimitRule(found, f"grid: user {name}", user=name)


def _rule(document: Document) -> LimitRule | None:
    source = f"grid: limits {document.name}"
    try:
        rule, wrong = known_rule(document.body, source)
    except ValueError as error:
        logger.error("limits of the grid are not understood and hold nobody: %s", error, extra={"limits": source})
        return None
    _complain(f"limits {document.name!r}", wrong)
    return rule


def _complain(whose: str, wrong: list[str]) -> None:
    if wrong:
        logger.warning("some limits of the grid are not understood", extra={"limits": whose, "wrong": "; ".join(wrong)})


@dataclass(frozen=True, slots=True)
class LimitsInfo:
    """A document of limits, as operators see it."""

    name: str
    version: int
    user: str | None
    client: str | None
    group: str | None
    limits: dict[str, Any]


class Explains(Protocol):
    """Knows the limits of the moment."""

    def explain(self, who: Principal) -> list[Said]: ...


class LimitsDesk:
    """What an operator does with limits of the grid. Writes raise ``ValueError``, ``Conflict``, ``TooMuch`` and
    ``Unavailable``.
    """

    def __init__(self, directory: Directory, book: Explains, usual: Callable[[bool], Iterable[Said]]) -> None:
        """``usual``: what holds where nothing is said, of an application or not."""
        self._directory = directory
        self._book = book
        self._usual = usual

    def page(self, after: str | None, limit: int) -> list[LimitsInfo]:
        """By name."""
        return [_info(one) for one in self._directory.page(LIMITS, after or "", limit)]

    def find(self, name: str) -> LimitsInfo | None:
        found = self._directory.get(LIMITS, name)
        return None if found is None else _info(found)

    async def put(self, name: str, written: dict[str, Any], version: int | None) -> LimitsInfo:
        """Write a document; ``version`` is the one that it is based on, 0 for none, None for any."""
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME or "/" in name:
            raise ValueError(f"a name has 1 to {LONGEST_NAME} printable characters and no slash")
        known = self._directory.of(LIMITS)
        if name not in known and len(known) >= MOST_DOCUMENTS:
            raise ValueError(f"there are {len(known)} documents of limits, and there may be {MOST_DOCUMENTS}")
        rule = rule_of(written, name)
        return _info(await self._directory.put(LIMITS, name, rule.written(), version))

    async def delete(self, name: str) -> bool:
        return await self._directory.delete(LIMITS, name)

    def explain(self, who: Principal) -> list[Said]:
        """Every limit of a client, and where it comes from."""
        said = {one.limit: one for one in self._book.explain(who)}
        application = "class" in said and said["class"].value == "application"
        return [*said.values(), *(one for one in self._usual(application) if one.limit not in said)]


def _info(document: Document) -> LimitsInfo:
    body = document.body
    limits = {name: value for name, value in body.items() if name not in WHO}
    user, client, group = (body.get(name) for name in WHO)
    return LimitsInfo(document.name, document.version, user, client, group, limits)
