"""Publishers and subscribers with sessions, spread over the nodes of a cluster, and the ledger of all of them.

Each *stream* has a topic and a QoS of its own, and is what the ledger calls a publisher; a publishing client has many
of them. Each subscriber reads two streams, so that every message is wanted twice.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle
from typing import NamedTuple

from ledger import Account, Ledger
from systemkit.plain import Plain

from tests.cluster.roving import RovingClient, stop

#: Every bound on a time is multiplied by this: a machine that runs all tests is busy. The figures that the cluster is
#: meant for are those of 1.
PATIENCE = float(os.environ.get("CLUSTER_PATIENCE", "2"))


class Size(NamedTuple):
    """Of a run under load."""

    rounds: int
    subscribers: int
    #: Messages a second.
    rate: int
    #: Of all that is left to chance; printed, so that it can be asked for.
    seed: int


def size(*, rounds: int = 1, subscribers: int, rate: int) -> Size:
    """What ``CLUSTER_ROUNDS``, ``CLUSTER_SUBSCRIBERS``, ``CLUSTER_RATE`` and ``CLUSTER_SEED`` ask for, else these."""

    def asked(name: str, otherwise: int) -> int:
        return int(os.environ.get(f"CLUSTER_{name}", otherwise))

    return Size(
        asked("ROUNDS", rounds),
        asked("SUBSCRIBERS", subscribers),
        asked("RATE", rate),
        asked("SEED", random.SystemRandom().randrange(1_000_000)),
    )


#: Seconds between two bursts of a publisher.
TICK = 0.02
PUBLISHERS = 20


@dataclass(frozen=True, slots=True)
class Figures:
    """What a run has shown."""

    account: Account
    connections: int
    #: Seconds without connection, of every time that a client lost it: p50, p99, longest.
    outages: tuple[float, float, float]
    #: Longest time in which no publisher heard an acknowledgement.
    stall: float
    drained_in: float
    reasons: dict[str, int]

    def __str__(self) -> str:
        p50, p99, longest = self.outages
        return (
            f"{self.account}\n  connections={self.connections} back_p50={p50:.2f}s back_p99={p99:.2f}s "
            f"back_max={longest:.2f}s stall={self.stall:.2f}s drained_in={self.drained_in:.1f}s reasons={self.reasons}"
        )


class Load:
    """``start`` connects all, subscribes and publishes at ``rate`` messages a second until ``finish``."""

    def __init__(
        self,
        ports: Sequence[int],
        dice: random.Random,
        *,
        subscribers: int,
        rate: int,
        name: str,
    ) -> None:
        self.ledger = Ledger()
        self._rate, self._dice = rate, dice
        self._publishing = True
        self._tasks: list[asyncio.Task[None]] = []
        self._running: dict[RovingClient, asyncio.Task[None]] = {}
        self._last_ack = 0.0
        self._stall = 0.0
        self.streams = [f"{name}/{index}" for index in range(subscribers)]
        qos = {stream: 1 + index % 2 for index, stream in enumerate(self.streams)}
        self._qos = qos
        for stream in self.streams:
            self.ledger.publisher(stream, stream, qos[stream])
        self.publishers = [
            RovingClient(f"{name}-p{index}", ports, dice, version=4 + index % 2)
            for index in range(min(PUBLISHERS, subscribers))
        ]
        for client in self.publishers:
            client.on_acked(partial(self._acked, client))
        #: Message → when and where it was acknowledged.
        self._acked_at: dict[bytes, tuple[float, int]] = {}
        #: Reader and message → when, where and how it was delivered, at QoS 2.
        self._delivered_at: dict[tuple[str, bytes], list[tuple[float, str]]] = {}
        #: What was done to the cluster, for the account of what came of it.
        self.events: list[tuple[float, str]] = []
        self._ports, self._name = ports, name
        #: Subscribers that left for good.
        self._left: list[RovingClient] = []
        self.subscribers = [self._subscriber(index) for index in range(subscribers)]
        for index, client in enumerate(self.subscribers):
            self.ledger.subscribe(client.client_id, self._wanted(index))

    def _wanted(self, index: int) -> list[str]:
        return [self.streams[(index + more) % len(self.streams)] for more in (0, 7)]

    def _subscriber(self, index: int) -> RovingClient:
        client = RovingClient(
            f"{self._name}-s{index}",
            self._ports,
            self._dice,
            version=4 + index % 2,
            filters=tuple((stream, 2) for stream in self._wanted(index)),
        )
        client.on_delivery(partial(self._delivered, client))
        return client

    def _delivered(self, client: RovingClient, subscriber: str, topic: str, payload: bytes) -> None:
        self.ledger.delivered(subscriber, topic, payload)
        message = client.receiving
        if message is not None and message.qos == 2:
            how = f"{client.port} id {message.packet_id}{' DUP' if message.dup else ''}"
            self._delivered_at.setdefault((subscriber, payload), []).append((time.monotonic(), how))

    @property
    def clients(self) -> list[RovingClient]:
        return [*self.publishers, *self.subscribers]

    async def start(self) -> None:
        """Subscribe first, then publish."""
        self._running = {client: asyncio.create_task(client.run()) for client in self.clients}
        try:
            async with asyncio.timeout(60):
                for client in self.clients:
                    await client.connected()
        except TimeoutError:
            out = [client for client in self.clients if not client.is_up]
            told = [f"{client.client_id} at {client.port}, refused {dict(client.reasons)}" for client in out[:10]]
            raise AssertionError(f"{len(out)} of {len(self.clients)} clients were not let in: {told}") from None
        self._last_ack = time.monotonic()
        shares: list[list[str]] = [[] for _ in self.publishers]
        for index, stream in enumerate(self.streams):
            shares[index % len(shares)].append(stream)
        self._tasks += [
            asyncio.create_task(self._publish(client, share))
            for client, share in zip(self.publishers, shares, strict=True)
        ]

    async def _publish(self, client: RovingClient, streams: list[str]) -> None:
        every = self._rate / len(self.publishers)
        owed, turn, last = 0.0, self._dice.randrange(len(streams)), time.monotonic()
        while self._publishing:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            # What could not be sent during a stall is not made up for.
            owed, last = min(owed + (now - last) * every, 50.0), now
            while owed >= 1 and client.room:
                owed -= 1
                turn = (turn + 1) % len(streams)
                stream = streams[turn]
                client.publish(stream, [self.ledger.next(stream)], self._qos[stream])

    def _acked(self, client: RovingClient, payload: bytes) -> None:
        now = time.monotonic()
        self._stall = max(self._stall, now - self._last_ack)
        self._last_ack = now
        self._acked_at[payload] = now, client.port
        self.ledger.acked(payload)

    def take_stall(self) -> float:
        """The longest time without any acknowledgement since this was asked last."""
        stall = max(self._stall, time.monotonic() - self._last_ack)
        self._stall = 0.0
        return stall

    async def finish(self, seconds: float) -> Figures:
        """Stop publishing, wait until all is acknowledged and delivered, and account for it."""
        stall = self.take_stall()
        self._publishing = False
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if not any(client.pending for client in self.clients) and not self.ledger.missing():
                break
            await asyncio.sleep(0.1)
        drained_in = time.monotonic() - began
        await asyncio.sleep(0.5)  # what comes twice comes late
        outages = sorted(seconds for client in self.clients for _, seconds in client.away)
        outages = sorted([*outages, *(client.without_connection() for client in self.clients)])
        reasons: Counter[int] = sum((client.reasons for client in self.clients), Counter())
        return Figures(
            self.ledger.check(),
            sum(client.connections for client in self.clients),
            (_at(outages, 0.5), _at(outages, 0.99), _at(outages, 1.0)),
            stall,
            drained_in,
            {f"{reason:#x}": count for reason, count in sorted(reasons.items())},
        )

    def note(self, event: str) -> None:
        """Something was done to the cluster."""
        self.events.append((time.monotonic(), event))

    def story(self, limit: int = 8) -> str:
        """Where lost messages were acknowledged, where their readers were, and what was done to the cluster then."""
        lines = []
        for reader in self.subscribers:
            for payload in self.ledger.lost(reader.client_id)[:1]:
                at, port = self._acked_at[payload]
                near = [f"{when - at:+.2f}s {where}" for when, where in reader.history if abs(when - at) < 30]
                events = [f"{when - at:+.2f}s {what}" for when, what in self.events if abs(when - at) < 30]
                lines.append(
                    f"{payload.decode()} acknowledged at {port} (wall {time.time() - time.monotonic() + at:.3f}); "
                    f"{reader.client_id} let in {near}; {events}"
                )
            for (subscriber, payload), deliveries in self._delivered_at.items():
                if subscriber == reader.client_id and len(deliveries) > 1:
                    at = deliveries[0][0]
                    ways = [f"{when - at:+.2f}s {how}" for when, how in deliveries]
                    near = [f"{when - at:+.2f}s {where}" for when, where in reader.history if abs(when - at) < 30]
                    events = [f"{when - at:+.2f}s {what}" for when, what in self.events if abs(when - at) < 30]
                    lines.append(
                        f"{payload.decode()} delivered to {subscriber} {ways} "
                        f"(wall {time.time() - time.monotonic() + at:.3f}), let in {near}; {self._sent(payload, at)}; "
                        f"{events}"
                    )
        return "\n".join(lines[:limit])

    def _sent(self, payload: bytes, since: float) -> str:
        """Where the publisher of a message was, and when it was acknowledged."""
        stream = payload.partition(b" ")[0].decode()
        client = self.publishers[self.streams.index(stream) % len(self.publishers)]
        near = [f"{when - since:+.2f}s {where}" for when, where in client.history if abs(when - since) < 40]
        at, port = self._acked_at.get(payload, (0.0, 0))
        return f"{client.client_id} let in {near}, acknowledged {at - since:+.2f}s by {port}"

    def outages_by_event(self) -> str:
        """How long clients were away that lost their connections within a second of what was done."""
        lines = []
        for at, what in self.events:
            if away := self._away_after(at):
                lines.append(f"  {what}: {len(away)} away, p50 {_at(away, 0.5):.1f} s, p99 {_at(away, 0.99):.1f} s")
        return "\n".join(lines)

    def back_after(self, event: str) -> float:
        """For how long 99 of 100 clients were away that lost their connections within a second of this."""
        return _at(sorted(chain(*(self._away_after(at) for at, what in self.events if what == event))), 0.99)

    def _away_after(self, at: float) -> list[float]:
        return sorted(seconds for client in self.clients for when, seconds in client.away if 0 <= when - at < 1)

    async def stay_unsettled(self, move_every: float, leave_every: float) -> None:
        """Until cancelled, clients move to other nodes, subscribers leave for good, and others come."""
        leave_at = time.monotonic() + leave_every
        while True:
            await asyncio.sleep(move_every)
            client = self._dice.choice(self.clients)
            if client.is_up:
                client.move()
            if time.monotonic() >= leave_at:
                leave_at += leave_every
                self._tasks.append(asyncio.create_task(self._exchange(self._dice.choice(self.subscribers))))

    @property
    def left_for_good(self) -> int:
        return len(self._left)

    async def _exchange(self, old: RovingClient) -> None:
        """This one leaves for good, and one that wants as much comes."""
        self.subscribers.remove(old)
        self._left.append(old)
        await stop([self._running.pop(old)])
        self.ledger.leaves(old.client_id)
        leaving = asyncio.create_task(asyncio.to_thread(end_session, old.client_id, old.version, self._ports))
        index = len(self.subscribers) + len(self._left)
        new = self._subscriber(index)
        self.ledger.comes(new.client_id, self._wanted(index))
        self._running[new] = asyncio.create_task(new.run())
        self.subscribers.append(new)
        await new.connected()
        self.ledger.has_come(new.client_id)
        await leaving

    async def stop(self) -> None:
        await stop([*self._tasks, *self._running.values()])

    def faults(self) -> list[str]:
        """What a node did to a client that it may not do."""
        return [fault for client in [*self.clients, *self._left] for fault in client.faults]

    def check(self, figures: Figures, *, ordered: bool = False) -> None:
        """Nothing acknowledged is lost, nothing came twice at QoS 2 or from nowhere, and no session was forgotten.

        ``ordered``: publishers have stayed with their nodes. One that moves goes on in another log, and a reader that
        is behind in both may get the newer messages first (docs/adr/0006).
        """
        account = figures.account
        names = ["lost_acked", "duplicate_qos2", "unexplained", *(["reordered"] if ordered else [])]
        wrong = [name for name in names if getattr(account, name)]
        assert not wrong, f"{', '.join(wrong)}: {figures}\n{self.ledger.details()}\n{self.story()}"
        faults = self.faults()
        assert not faults, f"{len(faults)} faults: {faults[:10]}"


def end_session(client_id: str, version: int, ports: Sequence[int], within: float = 60.0) -> None:
    """The client comes once more, at a node that lets it in, and has its session removed."""
    deadline, turns = time.monotonic() + within, cycle(ports)
    while True:
        try:
            with Plain(next(turns), version=version, timeout=5) as client:
                client.connect(client_id, clean=True)
                client.disconnect()
                return
        except (OSError, AssertionError) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"{client_id} cannot end its session") from error
            time.sleep(0.2)


def _at(ordered: Sequence[float], share: float) -> float:
    """A quantile, of those that are not 0."""
    known = [one for one in ordered if one]
    return known[min(len(known) - 1, int(share * len(known)))] if known else 0.0
