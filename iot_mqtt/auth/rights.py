"""The rights of a client once it is in: the rules that apply to it, kept up to date while it stays."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from iot_mqtt.auth.explaining import Answer, Question, answer, beyond_rules
from iot_mqtt.auth.rule_index import RuleList, Siblings
from iot_mqtt.auth.sections import Book
from iot_mqtt.ports.access import ALL_FORMS, Action, Permissions, Principal

logger = logging.getLogger(__name__)

#: No two sets of rights share a version, so that a verdict remembered for one is never taken for another's.
_versions = itertools.count(1)
#: Verdicts on topics that differ in their last level that are remembered for each client and action.
MAX_SIBLINGS: Final = 256


class Unvarying:
    """May do everything, or nothing, for good."""

    __slots__ = ("unrestricted", "version")

    def __init__(self, *, everything: bool) -> None:
        self.unrestricted = everything
        self.version = 0

    def allows(self, action: Action, asked: str) -> bool:
        return self.unrestricted

    def forms(self, topic: str) -> int:
        return ALL_FORMS if self.unrestricted else 0

    def beside(self, topic: str) -> int:
        return self.forms(topic)


UNRESTRICTED = Unvarying(everything=True)
#: For who could not be let in any more.
NOTHING = Unvarying(everything=False)
_NO_RULES: Final = RuleList(())


class RulePermissions:
    """The rules that apply to one client. A change of rules that changes none of them leaves ``version`` alone.

    Each connection asks for a topic once, but there may be many topics: what is found for one is remembered for all
    that differ in their last level only, as far as no rule tells them apart.
    """

    __slots__ = ("unrestricted", "version", "who", "rules", "_publish", "_read", "__weakref__")

    def __init__(self, who: Principal, rules: RuleList) -> None:
        self.unrestricted = False
        self.version = next(_versions)
        self.who = who
        #: Those that decide now.
        self.rules = rules
        self._publish: dict[str, Siblings] = {}
        self._read: dict[str, Siblings] = {}

    def allows(self, action: Action, asked: str) -> bool:
        if action is Action.READ:
            return self._verdict(self._read, action, asked) != 0
        return self.rules.allows(self.who, action, asked)

    def forms(self, topic: str) -> int:
        # Asked for every new topic: the most frequent answer costs no further call.
        siblings = self._publish.get(topic[: topic.rfind("/") + 1])
        if siblings is not None and not siblings[1]:
            return siblings[0]
        return self._verdict(self._publish, Action.PUBLISH, topic)

    def beside(self, topic: str) -> int:
        siblings = self._publish.get(topic[: topic.rfind("/") + 1])
        return 0 if siblings is None or siblings[1] else siblings[0]

    def _verdict(self, known: dict[str, Siblings], action: Action, topic: str) -> int:
        parent = topic[: topic.rfind("/") + 1]
        siblings = known.get(parent)
        if siblings is not None:
            forms, named = siblings
            last = topic[len(parent) :]
            if not any(last in levels for levels in named):
                return forms
        siblings = self.rules.siblings(self.who, action, topic)
        if siblings is None:
            return self.rules.forms(self.who, action, topic)
        if len(known) >= MAX_SIBLINGS:
            known.clear()
        known[parent] = siblings
        return siblings.forms

    def renew(self, rules: RuleList, same: dict[tuple[int, int], bool]) -> None:
        """Take rules that were read later. ``same``: which lists say the same, by their identities; most clients share
        theirs.
        """
        before = self.rules
        if (unchanged := same.get((id(before), id(rules)))) is None:
            unchanged = same[id(before), id(rules)] = before.rules == rules.rules
        self.rules = rules
        if not unchanged:
            self._publish.clear()
            self._read.clear()
            self.version = next(_versions)


class RuleAuthorizer:
    """Rights by rules; where there are none, whoever was let in may do everything. So may superusers.

    ``book`` has the rules of the moment; whether there are sources of rules is known at the start. ``may_come`` says
    whether a client could be let in now: who was deleted or disabled has no rights, whatever the rules say, so that
    nothing is done in the name of a session or a will that is left behind. ``groups`` says which groups a user is in
    now, beyond those that its proof named.
    """

    def __init__(
        self,
        book: Callable[[], Book],
        may_come: Callable[[Principal], bool] = lambda _: True,
        groups: Callable[[str], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._book = book
        self._may_come = may_come
        self._groups = groups
        self._given: WeakSet[RulePermissions] = WeakSet()

    async def permissions(self, principal: Principal) -> Permissions:
        if principal.superuser:
            return UNRESTRICTED
        if not self._may_come(principal):
            return NOTHING
        book = self._book()
        if not book.sources and not principal.brought_rules:
            return UNRESTRICTED
        permissions = RulePermissions(principal, self._rules_of(book, principal))
        self._given.add(permissions)
        return permissions

    def renew(self) -> None:
        """Hand the rules and groups of this moment to everyone who is in."""
        book, given = self._book(), list(self._given)
        # By identity: the lists of before must live as long as the comparison.
        before = [permissions.rules for permissions in given]
        same: dict[tuple[int, int], bool] = {}
        for permissions in given:
            permissions.renew(self._rules_of(book, permissions.who), same)
        del before

    def explain(self, principal: Principal, question: Question) -> Answer:
        """What the rules of the moment say of a client. ``ValueError``: the question makes no sense."""
        if (refused := beyond_rules(question)) is not None:
            return refused
        if principal.superuser:
            return Answer(allowed=True, detail="a superuser may do everything")
        if not self._may_come(principal):
            return Answer(allowed=False, detail="this client could not be let in now")
        book = self._book()
        rules = self._rules_of(book, principal)
        if not book.sources and not principal.brought_rules:
            return Answer(allowed=True, detail="there are no rules: whoever was let in may do everything")
        return answer(rules, principal, question)

    def _rules_of(self, book: Book, principal: Principal) -> RuleList:
        groups = self._groups(principal.owner) if principal.owner else frozenset()
        if groups:
            principal = principal._replace(groups=principal.groups | groups)
        try:
            return book.of(principal)
        except ValueError as error:
            logger.warning(
                "a client has no rights: the rules that it brought are none: %s",
                error,
                extra={"client": principal.client_id, "user": principal.owner or None},
            )
            return _NO_RULES
