"""Evening out clients between nodes: each sends away what it has more than the mean, and nobody decides for another.

::

    ctl ─▶ one node ─ "rebalance", a dry run ─▶ every other member
             │ ◀──────── its clients now ─────────┘
             └─ "rebalance", all counts ─▶ every other member
             │                                    │   surplus of its own, by these counts ─▶ Draining.shed
             │ ◀──────────── answers ─────────────┘

The counts are asked for first because the list of members has those of some seconds ago. The clients that a
node sends away are told to go to the members with the fewest. A node that is being drained takes no part: its clients
are on their way already, and it takes none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from iot_mqtt.broker.cluster.references import LeastLoaded
from iot_mqtt.broker.connections.draining import Draining
from iot_mqtt.broker.facade import MAX_RATE, ShareInfo
from iot_mqtt.ports.questions import Asking
from iot_mqtt.ports.registry import Member

#: The question by this name.
REBALANCE = "rebalance"
#: A node that has a tenth more than the mean has a surplus; less is not worth a reconnect.
TOLERANCE = 0.1


def surplus(clients: int, others: Iterable[int]) -> tuple[int, int]:
    """How many a node should have and how many it has too many, given those of itself and of the others."""
    counts = [clients, *others]
    mean = sum(counts) / len(counts)
    # Rounded up: a client more than the mean may be nobody's surplus.
    target = -(-sum(counts) // len(counts))
    return target, max(0, clients - target) if clients > mean * (1 + TOLERANCE) else 0


class Rebalancing:
    """This node's part, and the asking of the others."""

    def __init__(
        self,
        draining: Draining,
        clients: Callable[[], int],
        node_id: str,
        number: int,
        asking: Asking,
        members: Callable[[], Iterable[Member]],
        references: LeastLoaded,
    ) -> None:
        self._draining = draining
        self._clients = clients
        self._node_id = node_id
        self._number = number
        self._asking = asking
        self._members = members
        self._references = references
        asking.answers[REBALANCE] = self._answer

    async def everywhere(self, rate: int | None, *, dry_run: bool) -> list[ShareInfo]:
        """Ask every node to do its part, this one included."""
        found = await self._ask({"rate": rate, "dry_run": True})
        counts = {share.number: share.clients for share in found} | {self._number: self._clients()}
        others = await self._ask({"rate": rate, "dry_run": dry_run, "counts": counts})
        return sorted([self.here(rate, counts, dry_run=dry_run), *others], key=lambda share: share.number)

    async def _ask(self, order: Mapping[str, object]) -> list[ShareInfo]:
        """The parts of the others; of one that does not answer what is known of it."""
        answers = await self._asking.ask_all(REBALANCE, json.dumps(order).encode())
        names = {member.number: member for member in self._members()}
        return [_share(number, names.get(number), answer) for number, answer in answers.items()]

    def here(self, rate: int | None, counts: Mapping[int, int], *, dry_run: bool) -> ShareInfo:
        """This node's part. ``counts``: clients that nodes have now, by number; of others what they have said last."""
        draining, clients = self._draining, self._clients()
        if draining.active:
            return self._own(clients, clients, 0, "it is being drained")
        others = [
            self._references.clients_of(member, counts.get(member.number))
            for member in self._members()
            if member.number != self._number and not member.draining
        ]
        mean, too_many = surplus(clients, others)
        progress = draining.progress()
        if progress.state == "rebalancing":
            return self._own(clients, mean, progress.remaining, "it is rebalancing already")
        if not dry_run:
            draining.shed(too_many, rate)
        return self._own(clients, mean, too_many, None)

    def _own(self, clients: int, mean: int, too_many: int, note: str | None) -> ShareInfo:
        return ShareInfo(self._number, self._node_id, clients, mean, too_many, note)

    def _answer(self, body: bytes) -> bytes:
        order = json.loads(body)
        rate = order["rate"]
        if rate is not None and not 1 <= int(rate) <= MAX_RATE:
            raise ValueError(f"a rate of {rate} clients a second")
        # A node of the version before sends no counts.
        counts = {int(number): int(count) for number, count in order.get("counts", {}).items()}
        return json.dumps(asdict(self.here(rate, counts, dry_run=bool(order["dry_run"])))).encode()


def _share(number: int, member: Member | None, answer: bytes | str) -> ShareInfo:
    """What another node answered, or why it did not."""
    node_id = member.node_id if member is not None else ""
    note = answer if isinstance(answer, str) else None
    if isinstance(answer, bytes):
        try:
            said = json.loads(answer)
            return ShareInfo(
                number,
                str(said["node_id"]),
                int(said["clients"]),
                int(said["mean"]),
                int(said["surplus"]),
                None if said["note"] is None else str(said["note"]),
            )
        except (ValueError, KeyError, TypeError):
            note = "its answer cannot be understood"
    return ShareInfo(number, node_id, member.clients if member is not None else 0, 0, 0, note)
