"""Whose limits are which: rules about users, groups and client ids, and which of several stands.

::

    {"user": "plant-*", "client": "cam-*", "message_rate": 10}

A rule speaks of a client if everything that it names fits; one that names nobody speaks of everybody. ``*`` and ``?``
are signs of patterns; ``"user": ""`` means clients without a verified user. For each limit by itself the most
particular rule that says something of it stands::

    who     a user by name  >  a pattern of users  >  a group  >  everybody
    then    a client by id  >  a pattern of client ids  >  any client
    then    more characters that are no signs  >  fewer
    then    the grid  >  the configuration            then the name, or the place in the list

So nobody gets more by another client id than is said of his user. What a user's own document says is a rule that
names this user and nobody else. The keys of ``mqtt`` stand where no rule says anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from iot_mqtt.auth.grid_users import LONGEST_NAME
from iot_mqtt.auth.names import Prefixes, is_called
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.limits import ATTRIBUTES, OF_USERS, Limits, Said, known_limits, read_limits, written_limits

#: What a rule may name, most particular first.
WHO: Final = ("user", "client", "group")
_SIGNS: Final = frozenset("*?")


@dataclass(frozen=True, slots=True)
class LimitRule:
    """Limits of those who it speaks of."""

    limits: Limits
    #: Where it stands, for people.
    source: str
    user: str | None = None
    client: str | None = None
    group: str | None = None
    #: Of the grid, not of this node's configuration.
    shared: bool = True

    @property
    def order(self) -> tuple[object, ...]:
        """Most particular first."""
        named = [one for one in (self.user, self.client, self.group) if one is not None]
        literal = sum(sum(sign not in _SIGNS for sign in one) for one in named)
        who = 3 if _is_name(self.user) else 2 if self.user is not None else 1 if self.group is not None else 0
        client = 2 if _is_name(self.client) else 1 if self.client is not None else 0
        return -who, -client, -literal, not self.shared, self.source

    def fits(self, who: Principal, groups: frozenset[str]) -> bool:
        """Whether it speaks of a client."""
        if self.user is not None and not _fits(who.owner, self.user):
            return False
        if self.group is not None and self.group not in groups:
            return False
        return self.client is None or _fits(who.client_id, self.client)

    def written(self) -> dict[str, Any]:
        """As a document has it."""
        who = {name: getattr(self, name) for name in WHO if getattr(self, name) is not None}
        return who | written_limits(self.limits)


def rule_of(written: Mapping[str, Any], source: str, *, shared: bool = True) -> LimitRule:
    """The rule that somebody wrote; ``ValueError`` says what is wrong with it."""
    who = {name: _name(name, written[name]) for name in WHO if written.get(name) is not None}
    limits = {name: value for name, value in written.items() if name not in WHO}
    for name, value in limits.items():
        if name not in ATTRIBUTES:
            raise ValueError(f"there is no {name!r}; there are {', '.join([*WHO, *ATTRIBUTES])}")
        if name in OF_USERS and "client" in who and value is not None:
            raise ValueError(f"{name} is counted over all clients of a user, so it cannot be said of client ids")
    found = read_limits(limits)
    if found == Limits():
        raise ValueError("says no limit")
    return LimitRule(found, source, who.get("user"), who.get("client"), who.get("group"), shared)


def rules_of(written: Iterable[Mapping[str, Any]], key: str) -> list[LimitRule]:
    """Those of a key of the configuration; ``ValueError`` says which entry is wrong, and how."""
    found = []
    for number, one in enumerate(written, start=1):
        try:
            found.append(rule_of(one, f"{key}, entry {number:03d}", shared=False))
        except ValueError as error:
            raise ValueError(f"entry {number}: {error}") from None
    return found


def known_rule(written: Mapping[str, Any], source: str) -> tuple[LimitRule, list[str]]:
    """What this version understands of a document that another one may have written, and what is wrong with the rest.

    ``ValueError``: it is not clear whom it speaks of.
    """
    who = {name: _name(name, written[name]) for name in WHO if written.get(name) is not None}
    limits, wrong = known_limits({name: value for name, value in written.items() if name not in WHO})
    return LimitRule(limits, source, who.get("user"), who.get("client"), who.get("group")), wrong


class LimitRules:
    """All rules that there are, found by what is rarest in them."""

    __slots__ = ("_by_client", "_by_group", "_by_user", "_patterns", "_rest")

    def __init__(self, rules: Iterable[LimitRule]) -> None:
        self._by_user: dict[str, list[LimitRule]] = {}
        self._by_client: dict[str, list[LimitRule]] = {}
        self._by_group: dict[str, list[LimitRule]] = {}
        self._rest: list[LimitRule] = []
        patterns: list[tuple[str, LimitRule]] = []
        for rule in rules:
            if rule.user is not None and _is_name(rule.user):
                self._by_user.setdefault(rule.user, []).append(rule)
            elif rule.client is not None and _is_name(rule.client):
                self._by_client.setdefault(rule.client, []).append(rule)
            elif rule.client is not None:
                patterns.append((rule.client, rule))
            elif rule.group is not None:
                self._by_group.setdefault(rule.group, []).append(rule)
            else:
                self._rest.append(rule)
        self._patterns = Prefixes(patterns)

    def about(self, who: Principal, groups: frozenset[str]) -> list[LimitRule]:
        """Those that speak of a client, most particular first."""
        found = [rule for rule in self._candidates(who, groups) if rule.fits(who, groups)]
        found.sort(key=_order)
        return found

    def _candidates(self, who: Principal, groups: frozenset[str]) -> Iterator[LimitRule]:
        yield from self._by_user.get(who.owner, ())
        yield from self._by_client.get(who.client_id, ())
        yield from self._patterns.candidates(who.client_id)
        for group in groups if self._by_group else ():
            yield from self._by_group.get(group, ())
        yield from self._rest


def combined(rules: Iterable[LimitRule]) -> Limits | None:
    """For each limit the first that is said; None: nothing is."""
    found: dict[str, Any] = {}
    for rule in rules:
        for attribute in _FIELDS:
            value = getattr(rule.limits, attribute)
            if value is not None:
                found.setdefault(attribute, value)
    return Limits(**found) if found else None


def explained(rules: Iterable[LimitRule]) -> list[Said]:
    """The same by the names of documents, each with where it comes from."""
    found: dict[str, Said] = {}
    for rule in rules:
        for name, value in written_limits(rule.limits).items():
            found.setdefault(name, Said(name, value, rule.source))
    return [found[name] for name in ATTRIBUTES if name in found]


_FIELDS: Final = tuple(ATTRIBUTES.values())
_order: Callable[[LimitRule], tuple[object, ...]] = LimitRule.order.fget  # type: ignore[attr-defined]


def _is_name(pattern: str | None) -> bool:
    return pattern is not None and _SIGNS.isdisjoint(pattern)


def _fits(name: str, pattern: str) -> bool:
    # A pattern of users speaks of users: of nobody only the empty name does.
    return name == pattern if _is_name(pattern) else bool(name) and is_called(name, pattern, _NOBODY)


_NOBODY: Final = Principal("")


def _name(what: str, value: object) -> str:
    shortest = 0 if what == "user" else 1
    if not isinstance(value, str) or not shortest <= len(value) <= LONGEST_NAME or not value.isprintable():
        raise ValueError(f"{what} is a text of {shortest} to {LONGEST_NAME} printable characters")
    if "%u" in value:
        raise ValueError(f"%u says nothing about {what}")
    return value
