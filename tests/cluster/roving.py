"""A client with a session that connects to any node of a cluster, and to another one when that does not serve it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from systemkit import wire
from systemkit.durable import DurableClient
from systemkit.wire import Received

#: Seconds without a sign of life after which a connection is given up, and an attempt to make one.
PATIENCE = 4.0
#: Seconds between two attempts, at least and at most.
AGAIN = (0.1, 0.4)
#: "Not here, not now": server unavailable (3 in CONNACK of 3.1.1), busy, shutting down, use another server; and what
#: CONNACK says to a client that has been taken over while it waited, by an earlier attempt of its own.
ELSEWHERE = frozenset((3, 0x88, 0x89, 0x8B, 0x9C))
TAKEN_OVER = 0x8E
#: What CONNACK of MQTT 5, which has no such reason, says to a client that was taken over while it waited.
OVERTAKEN = b"the client has connected to another node"
#: What the earlier release says, with an unspecified error, to one that comes while it stops; 0x88 since.
STOPPING = b"the server is shutting down"


class RovingClient(DurableClient):
    """``DurableClient`` with a choice of ports. How long it was without a connection is in ``away``."""

    def __init__(self, client_id: str, ports: Sequence[int], dice: random.Random, **options: Any) -> None:
        super().__init__(client_id, ports[0], **options)
        self.ports = ports
        #: Stay with this port as long as it serves us, come back to no other.
        self.fixed: int | None = None
        #: Where ports are that are not on the loopback interface.
        self.hosts: Mapping[int, str] = {}
        #: When each time without a connection began, and how long it was.
        self.away: list[tuple[float, float]] = []
        #: Why it was refused or sent away, by reason code; and how often it gave up by itself.
        self.reasons: Counter[int] = Counter()
        self.given_up = 0
        #: Connections that were left behind by ``hop``, and those of them that the old node has closed since.
        self.hops = self.closed_behind = 0
        #: When it was let in, and where.
        self.history: list[tuple[float, int]] = []
        #: Where to try first.
        self._next: int | None = None
        self._dice = dice
        self._heard = self._lost_at = 0.0
        self._was_up = False

    async def run(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            while True:
                if await self._somewhere():
                    self._was_up = True
                    self.history.append((time.monotonic(), self.port))
                    if self._lost_at:
                        self.away.append((self._lost_at, time.monotonic() - self._lost_at))
                        self._lost_at = 0.0
                    await self._down.wait()
                else:
                    await asyncio.sleep(self._dice.uniform(*AGAIN))
        finally:
            watching.cancel()
            self.drop()

    def hop(self) -> None:
        """Connect to the next port while the old connection is still there: its node has to give the session up."""
        assert self._transport is not None
        self._transport.set_protocol(_Left(self))
        self.fixed = self.ports[(self.ports.index(self.port) + 1) % len(self.ports)]
        self.hops += 1
        self.connection_lost(None)

    def move(self) -> None:
        """The same, and anywhere if that one does not serve us."""
        self.hop()
        self._next, self.fixed = self.fixed, None

    @property
    def is_up(self) -> bool:
        """Whether its session is established."""
        return self._up.is_set()

    def without_connection(self) -> float:
        """Seconds since it was lost; 0 if there is one."""
        return time.monotonic() - self._lost_at if self._lost_at else 0.0

    async def _somewhere(self) -> bool:
        self.port, self._next = self._next or self.fixed or self._dice.choice(self.ports), None
        self.host = self.hosts.get(self.port, "127.0.0.1")
        return await self._connect()

    async def _watch(self) -> None:
        """PINGREQ every second; a node that is paused closes nothing."""
        while True:
            await asyncio.sleep(1.0)
            if self._transport is None:
                continue
            if time.monotonic() - self._heard > PATIENCE + (0 if self._up.is_set() else 6.0):
                self.given_up += 1
                self.drop()
            elif self._up.is_set():
                self._transport.write(b"\xc0\x00")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._heard = time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._was_up and not self._lost_at:
            self._lost_at = time.monotonic()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = time.monotonic()
        super().data_received(data)

    def refused(self, answer: Received) -> None:
        if answer.kind == wire.CONNACK and (
            answer.reason() in ELSEWHERE or any(one in answer.body for one in (OVERTAKEN, STOPPING))
        ):
            self.reasons[answer.reason()] += 1
        else:
            super().refused(answer)

    def sent_away(self, reason: int) -> None:
        if reason in ELSEWHERE or reason == TAKEN_OVER:
            self.reasons[reason] += 1
        else:
            super().sent_away(reason)


class _Left(asyncio.Protocol):
    """Reads an old connection to its end. What still comes there was not received: it is to come again."""

    def __init__(self, client: RovingClient) -> None:
        self._client = client

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.closed_behind += 1


async def stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    """End tasks; what one of them stumbled over is raised."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
