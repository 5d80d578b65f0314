"""Which nodes are gone and have not sent up everything: looked for again and again, one survivor at each of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.broker.uplink import Others, Uplink, UplinkFailover
from iot_mqtt.cluster.joining import Known, known_nodes
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.cluster_status import node_words
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.log import Followed
from iot_mqtt.ports.registry import Registry
from iot_mqtt.ports.uplink import Place, Plan, Sink
from iot_mqtt.uplink.rulebook import RuleBook
from iot_mqtt.uplink.rules import Rule

log = logging.getLogger(__name__)


async def places_of_others(grid: Grid, own: int) -> dict[int, Place]:
    """How far the uplinks of all nodes but one's own are, by the number of the node."""
    found: dict[int, Place] = {}
    for known in await known_nodes(grid):
        place = None if known.number == own else await GridPlaces(grid, known.number).load()
        if place is not None:
            found[known.number] = place
    return found


def watch_others(uplink: Uplink | None, grid: Grid, own: int, clock: Clock) -> None:
    """Where acknowledgements wait for the sink, they wait for what other nodes have recorded, too."""
    holding = None if uplink is None else uplink.holding
    if holding is not None:
        holding.others = Others(partial(places_of_others, grid, own), clock, holding.moved)


class UplinkFailovers:
    """Of all nodes that are gone; ``look`` is called every few seconds."""

    def __init__(
        self,
        grid: Grid,
        registry: Registry,
        own: int,
        follow: Callable[[int], Awaitable[Followed]],
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], None],
        make_sink: Callable[[int], Sink],
        rules: Callable[[], Sequence[Rule]],
    ) -> None:
        """``make_sink``: for what the node with this number has recorded; ``rules``: those in force here, which hold
        where a node has kept none.
        """
        self._grid = grid
        self._registry = registry
        self._own = own
        self._follow = follow
        self._clock = clock
        self._call_soon = call_soon
        self._make_sink = make_sink
        self._rules = rules
        #: Number to boot of those of which everything is up.
        self._done: dict[int, int] = {}
        #: Those of which it is known that something is owed, or not known yet.
        self._at_work: dict[int, UplinkFailover | None] = {}
        self._stopped = False

    async def look(self) -> None:
        """Begin with whoever is gone, and cleaned up after: such a node writes nothing any more."""
        for known in await known_nodes(self._grid):
            gone = known.cleaned >= known.boot and not self._is_there(known.number)
            if gone and self._done.get(known.number) != known.boot and known.number not in self._at_work:
                self._at_work[known.number] = None
                running = Deferred.fromCoroutine(self._take(known))
                running.addErrback(self._failed, known).addCallback(self._over, known.number)

    def stop(self) -> None:
        """What is under way is left to others."""
        self._stopped = True
        for failover in self._at_work.values():
            if failover is not None:
                failover.stop()

    def _is_there(self, number: int) -> bool:
        return number == self._own or any(one.number == number for one in self._registry.members.values())

    def _over(self, _: None, number: int) -> None:
        self._at_work.pop(number, None)

    def _failed(self, failure: Failure, known: Known) -> None:
        log.warning(
            "what %s has recorded for the uplink cannot be sent up now: %s",
            node_words(known.number, known.node_id),
            failure.getErrorMessage(),
        )

    async def _take(self, known: Known) -> None:
        lease = await self._registry.acquire(f"uplink-{known.number}")
        if lease is None:
            return
        try:
            reader = await self._follow(known.number)
            failover = UplinkFailover(GridPlaces(self._grid, known.number), reader, self._clock, self._call_soon)
            self._at_work[known.number] = failover
            kept = await failover.owed()
            if kept is not None:
                name = node_words(known.number, known.node_id)
                log.info("sending up what a node that is gone has recorded", extra={"node": name})
                plan = await self._plan(known, reader.end)
                sink = self._make_sink(known.number)
                if not await failover.run(kept, plan, sink, lambda: self._may_go_on(known) and lease.held):
                    return
            self._done[known.number] = known.boot
        finally:
            lease.release()

    def _may_go_on(self, known: Known) -> bool:
        return not self._stopped and not self._is_there(known.number)

    async def _plan(self, known: Known, end: int) -> Plan:
        """By the rules that were in force when it recorded, and in its name."""
        book = RuleBook(self._grid, known.number, known.node_id)
        await book.load(self._rules(), end)
        return book
