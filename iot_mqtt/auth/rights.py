"""The rights of a client once it is in: its rules of the ACL file, kept up to date while it stays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from weakref import WeakSet

from iot_mqtt.auth.acl import AnyRule, Rules, decide
from iot_mqtt.auth.files import WatchedFile
from iot_mqtt.ports.access import Action, Permissions, Principal

#: No two sets of rights share a version, so that a verdict remembered for one is never taken for another's.
_versions = itertools.count(1)


class Unvarying:
    """May do everything, or nothing, for good."""

    __slots__ = ("unrestricted", "version")

    def __init__(self, *, everything: bool) -> None:
        self.unrestricted = everything
        self.version = 0

    def allows(self, action: Action, asked: str) -> bool:
        return self.unrestricted


UNRESTRICTED = Unvarying(everything=True)
#: For who could not be let in any more.
NOTHING = Unvarying(everything=False)


class FilePermissions:
    """The rules that apply to one client. A reload that changes none of them leaves ``version`` alone."""

    __slots__ = ("unrestricted", "version", "_who", "_rules", "__weakref__")

    def __init__(self, who: Principal, rules: Rules) -> None:
        self.unrestricted = False
        self.version = next(_versions)
        self._who = who
        self._rules = rules.of(who)

    def allows(self, action: Action, asked: str) -> bool:
        return decide(self._rules, self._who, action, asked)

    @property
    def rules(self) -> tuple[AnyRule, ...]:
        """Those that decide now."""
        return self._rules

    def renew(self, rules: Rules, same: dict[tuple[int, int], bool]) -> None:
        """Take the rules from a new text. ``same``: which tuples of rules say the same, by their identities; most
        clients share theirs.
        """
        before, mine = self._rules, rules.of(self._who)
        if (unchanged := same.get((id(before), id(mine)))) is None:
            unchanged = same[id(before), id(mine)] = before == mine
        self._rules = mine
        if not unchanged:
            self.version = next(_versions)


class FileAuthorizer:
    """Rights by the ACL file; without one, whoever was let in may do everything. So may superusers.

    ``may_come`` says whether an owner could be let in now: who was deleted or disabled has no rights, whatever the
    rules say, so that nothing is done in the name of a session or a will that is left behind.
    """

    def __init__(self, file: WatchedFile[Rules] | None, may_come: Callable[[str], bool] = lambda _: True) -> None:
        self._file = file
        self._may_come = may_come
        self._given: WeakSet[FilePermissions] = WeakSet()

    async def permissions(self, principal: Principal) -> Permissions:
        if principal.superuser:
            return UNRESTRICTED
        if not self._may_come(principal.owner):
            return NOTHING
        if self._file is None:
            return UNRESTRICTED
        permissions = FilePermissions(principal, self._file.content)
        self._given.add(permissions)
        return permissions

    def renew(self) -> None:
        """Hand the rules of a reloaded file to everyone who is in."""
        if self._file is not None:
            given = list(self._given)
            # By identity: the tuples of before must live as long as the comparison.
            before = [permissions.rules for permissions in given]
            same: dict[tuple[int, int], bool] = {}
            for permissions in given:
                permissions.renew(self._file.content, same)
            del before
