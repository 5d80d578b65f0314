"""This node's entry in the list of members: entered once, and kept up to date as long as its life goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from iot_mqtt.cluster.joining import NoNumber
from iot_mqtt.cluster.links import Condition
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.registry import Member, Registry


class Registration:
    """What the others know of how this node is: by the list, and sooner by its heartbeats."""

    def __init__(
        self,
        entry: Member,
        membership: Membership,
        registry: Registry,
        condition: Condition,
        clock: Clock,
        refresh: float,
    ) -> None:
        """``condition``: what heartbeats say; ``refresh``: seconds between two looks at whether the entry changed."""
        self._entry = self._shown = entry
        self._membership = membership
        self._registry = registry
        self._condition = condition
        self._clock = clock
        self._every = refresh
        self._timer: Timer | None = None

    @property
    def draining(self) -> bool:
        """This node wants no new clients."""
        return self._entry.draining

    async def enter(self) -> None:
        """Be in the list. ``NoNumber``: nodes that do not understand each other are no cluster; the later one goes."""
        await self._registry.register(self._entry)
        for member in self._registry.members.values():
            if not set(member.protocols) & set(self._entry.protocols):
                theirs, ours = (", ".join(map(str, one.protocols)) for one in (member, self._entry))
                raise NoNumber(
                    f"the node {member.node_id} (release {member.version}) speaks version {theirs} of the protocol "
                    f"between nodes and this node (release {self._entry.version}) version {ours}: run a release of both"
                )

    def start(self) -> None:
        """From now on the entry is refreshed regularly."""
        self._timer = self._clock.call_later(self._every, self._refresh_regularly)

    def stop(self) -> None:
        """The life is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def show(self, *, load: float, clients: int) -> None:
        """How this node is, for the others; they see it some seconds later."""
        # Two digits are enough, and spare an update whenever nothing much changed.
        self._entry = replace(self._entry, load=round(load, 2), clients=clients)
        self._condition.load = load

    def reachable_at(self, addresses: Mapping[str, str]) -> None:
        """Where clients find this node, by listener; they are let in from now on."""
        self._entry = replace(self._entry, addresses=addresses)
        self._refresh()

    def drain(self, draining: bool) -> None:
        """Whether this node wants no new clients."""
        self._entry = replace(self._entry, draining=draining)
        self._condition.draining = draining
        self._refresh()

    def _refresh_regularly(self) -> None:
        self._refresh()
        self.start()

    def _refresh(self) -> None:
        if self._entry != self._shown and self._membership.connected():
            self._shown = self._entry
            self._registry.update(self._entry)
