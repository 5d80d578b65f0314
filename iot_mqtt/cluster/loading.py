"""Clients that are ours by their records, and that the broker does not have yet: nobody gets one until it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twisted.internet.defer import Deferred

from iot_mqtt.pause import pause
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster import Node


class Owner(Protocol):
    """Whose clients they are."""

    @property
    def node(self) -> Node: ...


class Loading:
    """Of one life."""

    def __init__(self, owner: Owner, clock: Clock, pause: float) -> None:
        """``pause``: seconds until what could not be loaded is tried again."""
        self._owner = owner
        self._clock = clock
        self._pause = pause
        #: How many load it: who takes a dead node's clients, and who takes back what was let go of, may meet.
        self._begun: dict[str, int] = {}
        self._waiting: dict[str, list[Deferred[None]]] = {}
        self._stopped = False
        #: Who has clients here that could not be read: for them the broker wants everything.
        self._unread: set[object] = set()
        #: What could not be loaded, so often.
        self.failures = 0

    def stop(self) -> None:
        """The life is over."""
        self._stopped = True

    def begin(self, client_id: str) -> None:
        """It is, or is about to become, ours; who says so ends it."""
        self._begun[client_id] = self._begun.get(client_id, 0) + 1

    def end(self, clients: Sequence[str]) -> None:
        """The broker has them, or they did not become ours."""
        for client_id in clients:
            left = self._begun.pop(client_id, 0) - 1
            if left > 0:
                self._begun[client_id] = left
                continue
            for waiting in self._waiting.pop(client_id, ()):
                waiting.callback(None)

    def end_all(self) -> None:
        """The broker has all."""
        self.end(list(self._begun))

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._begun

    async def over(self, client_id: str) -> None:
        """Waits until it is not loading; what was read of it before is old then."""
        done: Deferred[None] = Deferred()
        self._waiting.setdefault(client_id, []).append(done)
        await done

    async def load(self, clients: Sequence[str]) -> None:
        """Again and again: they are ours, and nobody else can have them."""
        why = object()
        while not self._stopped:
            loaded: Deferred[bool] = Deferred()
            self._owner.node.adopt(clients, loaded.callback)
            if await loaded:
                break
            self.failures += 1
            self.unread(why, some=True)
            await pause(self._clock, self._pause)
        self.unread(why, some=False)
        self.end(clients)

    def unread(self, who: object, *, some: bool) -> None:
        """Whether ``who`` has clients here that could not be read."""
        before = bool(self._unread)
        if some:
            self._unread.add(who)
        else:
            self._unread.discard(who)
        if bool(self._unread) != before and not self._stopped:
            self._owner.node.unread(some)
