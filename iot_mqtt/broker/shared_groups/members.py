"""Members of groups on other nodes. They stand in the routing table like sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iot_mqtt.broker.publication import Publication

#: Messages of one log that a member of a durable group may have, on another node.
CREDIT: Final = 64


class GroupKeeper:
    """Durable members on another node: nobody to give anything to, but the group is durable."""

    __slots__ = ("client_id",)

    def __init__(self, name: str) -> None:
        self.client_id = name

    @property
    def inflight_count(self) -> int:
        """As a receiver."""
        return 0

    @property
    def reachable(self) -> bool:
        """Whether it may be picked."""
        return False

    def room(self, leased: int) -> int:
        """How many messages it may be sent now; ``leased``: how many it has."""
        return 0

    def give(self, publication: Publication) -> None:
        """It is never picked."""


class RemoteMember(GroupKeeper):
    """One that is connected there; policies place it by its client id, as they do there."""

    __slots__ = ("peer", "full", "_credit", "_filter", "_up", "_leased", "_forward")

    def __init__(
        self,
        client_id: str,
        peer: int,
        filter: str,
        up: Callable[[], bool],
        leased: Callable[[str, str], int],
        forward: Callable[[Publication, tuple[str, str]], None],
    ) -> None:
        """``peer`` is its node, which is ``up`` or not; ``leased`` is what it has from here."""
        super().__init__(client_id)
        self.peer = peer
        #: Of a durable group: its node has said that it has no room.
        self.full = False
        # How many messages it is sent before it has confirmed any.
        self._credit = CREDIT
        self._filter = filter
        self._up = up
        self._leased = leased
        self._forward = forward

    @property
    def inflight_count(self) -> int:
        """What it has from here; what it has from others its own node knows."""
        return self._leased(self._filter, self.client_id)

    @property
    def reachable(self) -> bool:
        return self._up()

    def room(self, leased: int) -> int:
        return max(0, self._credit - leased) if self.reachable and not self.full else 0

    def has_taken(self, count: int) -> None:
        """It had no room for more than so many."""
        self.full = True
        self._credit = max(1, count)

    def has_confirmed(self) -> None:
        """It may take a little more than it could then."""
        self._credit = min(CREDIT, self._credit + 1)

    def give(self, publication: Publication) -> None:
        """It was picked."""
        self._forward(publication, (self._filter, self.client_id))

    def lend(self, publication: Publication, name: str) -> None:
        """The same with messages of a durable group; ``name``: of the part of it."""
        self._forward(publication, (name, self.client_id))
