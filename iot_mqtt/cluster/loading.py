"""Clients that are ours by their records, and that the broker does not have yet: nobody gets one until it has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from twisted.internet.defer import Deferred

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
        self._waiting: dict[str, list[Deferred[None]]] = {}
        self._stopped = False
        #: For how many reasons the broker wants everything.
        self._unread = 0
        #: What could not be loaded, so often.
        self.failures = 0

    def stop(self) -> None:
        """The life is over."""
        self._stopped = True

    def begin(self, client_id: str) -> None:
        """It is, or is about to become, ours."""
        self._waiting.setdefault(client_id, [])

    def end(self, clients: Sequence[str]) -> None:
        """The broker has them, or they did not become ours."""
        for client_id in clients:
            for waiting in self._waiting.pop(client_id, ()):
                waiting.callback(None)

    def end_all(self) -> None:
        """The broker has all."""
        self.end(list(self._waiting))

    def __contains__(self, client_id: str) -> bool:
        return client_id in self._waiting

    async def over(self, client_id: str) -> None:
        """Waits until it is not loading; what was read of it before is old then."""
        done: Deferred[None] = Deferred()
        self._waiting[client_id].append(done)
        await done

    async def load(self, clients: Sequence[str]) -> None:
        """Again and again: they are ours, and nobody else can have them."""
        unread = False
        while not self._stopped:
            loaded: Deferred[bool] = Deferred()
            self._owner.node.adopt(clients, loaded.callback)
            if await loaded:
                break
            self.failures += 1
            unread = self.unread(unread, some=True)
            await self._breath()
        self.unread(unread, some=False)
        self.end(clients)

    def unread(self, before: bool, *, some: bool) -> bool:
        """Whether somebody has clients here that could not be read, and whether he had; returns ``some``."""
        if some != before and not self._stopped:
            others = self._unread
            self._unread += 1 if some else -1
            if not others or not self._unread:
                self._owner.node.unread(some)
        return some

    async def _breath(self) -> None:
        waiting: Deferred[None] = Deferred()
        self._clock.call_later(self._pause, partial(waiting.callback, None))
        await waiting
