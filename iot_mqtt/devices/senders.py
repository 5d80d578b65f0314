"""Who sent a command, and what he may do now: nothing is done in the name of a user who is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from iot_mqtt.devices.asked import Lets
from iot_mqtt.ports.access import Principal, principal_of
from iot_mqtt.ports.devices import OPERATOR, StoredCommand, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iot_mqtt.broker.publishing.steps import Sender

#: Why a command of his is not sent.
GONE = "its sender was deleted or disabled"


class UserRights(Protocol):
    """The rights of this moment; ``auth.service.Access`` is one."""

    @property
    def lets(self) -> Lets: ...

    def named(self, user: str) -> Principal:
        """Who has this name now."""
        ...

    def may_come(self, who: Principal) -> bool:
        """Whether he could be let in now: who was deleted or disabled could not."""
        ...

    def allows(self, who: Principal, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        """As ``lets``, of somebody of whom more is known."""
        ...


class Senders:
    """Of all commands. Nothing is asked of those in the operator's name, and of those that an earlier release wrote."""

    def __init__(self, rights: UserRights) -> None:
        self._rights = rights

    def signed(self, record: StoredCommand, users: tuple[str, ...], connection: Sender | None) -> StoredCommand:
        """The record with who sends it: the client of a connection, or whoever has the names now; those of ``users``,
        or the one who answers for it.
        """
        principal = None if connection is None else connection.principal
        if principal is not None:
            return replace(record, identities=(principal.identity,), standing=principal.standing)
        if not users and record.user and record.user != OPERATOR:
            users = (record.user,)
        return replace(record, identities=tuple(self._rights.named(user).identity for user in users))

    def is_gone(self, record: StoredCommand) -> bool:
        """Whether somebody in whose name it was sent is none any more who could be let in."""
        return not all(map(self._rights.may_come, _senders(record)))

    def may_answer(self, record: StoredCommand) -> bool:
        """Whether its states may be told on its response topic: its sender may publish there."""
        return all(self._rights.allows(who, "publish", record.response_topic) for who in _senders(record))


def _senders(record: StoredCommand) -> Iterator[Principal]:
    return (principal_of(record.sender, identity, record.standing) for identity in record.identities)
