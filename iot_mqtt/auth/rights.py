"""The rights of a client once it is in: its rules of the ACL file, kept up to date while it stays."""

from __future__ import annotations

import itertools
from weakref import WeakSet

from iot_mqtt.auth.acl import Rules, decide
from iot_mqtt.auth.files import WatchedFile
from iot_mqtt.ports.access import Action, Permissions, Principal

#: No two sets of rights share a version, so that a verdict remembered for one is never taken for another's.
_versions = itertools.count(1)


class Unrestricted:
    """May do everything, for good."""

    __slots__ = ("unrestricted", "version")

    def __init__(self) -> None:
        self.unrestricted = True
        self.version = 0

    def allows(self, action: Action, asked: str) -> bool:
        return True


UNRESTRICTED = Unrestricted()


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

    def renew(self, rules: Rules) -> None:
        """Take the rules from a new text."""
        mine = rules.of(self._who)
        if mine != self._rules:
            self._rules = mine
            self.version = next(_versions)


class FileAuthorizer:
    """Rights by the ACL file; without one, whoever was let in may do everything. So may superusers."""

    def __init__(self, file: WatchedFile[Rules] | None) -> None:
        self._file = file
        self._given: WeakSet[FilePermissions] = WeakSet()

    async def permissions(self, principal: Principal) -> Permissions:
        if self._file is None or principal.superuser:
            return UNRESTRICTED
        permissions = FilePermissions(principal, self._file.content)
        self._given.add(permissions)
        return permissions

    def renew(self) -> None:
        """Hand the rules of a reloaded file to everyone who is in."""
        if self._file is not None:
            for permissions in self._given:
                permissions.renew(self._file.content)
