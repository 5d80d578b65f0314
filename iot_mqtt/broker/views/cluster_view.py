"""The facade for the admin side, about the cluster: who is there, how it is, what is degraded and why.

A sole node answers with itself. ``join`` is called once by whoever makes a node one of several.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from iot_mqtt.broker.cluster.rebalancing import Rebalancing
from iot_mqtt.broker.connections.draining import Draining
from iot_mqtt.broker.connections.registry import Connections
from iot_mqtt.broker.facade import ClusterInfo, DrainInfo, MemberInfo, ShareInfo
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.publishing.fullness import DiskLevel
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from iot_mqtt.ports.cluster_status import AbsentNode, ClusterStatus, Ending, PeerStatus, clock_words, node_words
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.fields import made_of
from iot_mqtt.ports.store import Store

#: What is not confirmed by a peer is named beyond this.
LAG_BYTES = 4 * 1024 * 1024


class Together(Protocol):
    """The part of ``cluster.ClusterNode`` that operators deal with."""

    @property
    def number(self) -> int: ...

    def status(self) -> ClusterStatus: ...

    async def remove(self, node_id: str) -> bool:
        """See ``facade.ClusterPart``."""
        ...


class ClusterView:
    """``facade.ClusterPart`` over a running broker."""

    def __init__(
        self,
        draining: Draining,
        connections: Connections,
        store: Store,
        budget: Budget,
        counters: Counters,
        *,
        node_id: str,
        version: str,
    ) -> None:
        self._draining = draining
        self._connections = connections
        self._store = store
        self._budget = budget
        self._counters = counters
        self._node_id = node_id
        self._version = version
        self._node: Together | None = None
        self._rebalancing: Rebalancing | None = None

    def join(self, node: Together, rebalancing: Rebalancing) -> None:
        """Be one of several."""
        self._node = node
        self._rebalancing = rebalancing

    @property
    def number(self) -> int:
        """Of this node; 0: it is by itself."""
        return 0 if self._node is None else self._node.number

    # Clients on their way.

    def progress(self) -> DrainInfo:
        """How far the draining is."""
        return self._draining.progress()

    def drain(self, rate: int | None, *, moved: bool) -> DrainInfo:
        """Let no clients in, and send all away."""
        self._draining.begin(rate, ReasonCode.SERVER_MOVED if moved else ReasonCode.USE_ANOTHER_SERVER)
        return self._draining.progress()

    def resume(self) -> None:
        """Let clients in again."""
        self._draining.resume()

    async def rebalance(self, rate: int | None, *, dry_run: bool) -> list[ShareInfo]:
        """Each node's part; a sole node has nobody to send clients to."""
        if self._rebalancing is None:
            clients = self._connections.clients
            return [ShareInfo(0, self._node_id, clients, clients, 0, "it is not one of a cluster")]
        return await self._rebalancing.everywhere(rate, dry_run=dry_run)

    async def remove(self, node_id: str) -> bool:
        """Of a sole node there is nothing to be removed."""
        return self._node is not None and await self._node.remove(node_id)

    # The state of things.

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Of what is degraded, that which does not pass by itself and that nobody else tells."""
        if self._node is None:
            return ()
        facts = self._node.status()
        found = (
            (AlarmKind.GRID_READS, _unread(facts), facts.read_trouble or ""),
            (AlarmKind.CLOCK, _clocks(facts), ""),
            (AlarmKind.NODE_GONE, _gone(facts), ""),
        )
        return tuple(Alarm(kind, text, cause) for kind, texts, cause in found for text in texts)

    def info(self) -> ClusterInfo:
        """All of it, from memory."""
        store = self._store
        grid_trouble = (store.trouble or "it does not say why") if store.failing else None
        if self._node is None:
            return self._alone(grid_trouble)
        return self._together(self._node.status(), grid_trouble)

    def _alone(self, grid_trouble: str | None) -> ClusterInfo:
        return self._cluster(
            clustered=False,
            node_id=self._node_id,
            grid_trouble=grid_trouble,
            members=[self._self(0, 0)],
            degraded=[*self._own_troubles(grid_trouble)],
        )

    def _together(self, facts: ClusterStatus, grid_trouble: str | None) -> ClusterInfo:
        members = [self._self(facts.number, facts.boot), *_others(facts)]
        return self._cluster(
            facts,
            clustered=True,
            grid_trouble=grid_trouble,
            members=sorted(members, key=lambda member: member.number),
            routes_agree=all(one.routes_agree and not one.routes_behind for one in members if _is_listed(one)),
            dead=sorted(facts.dead),
            incompatible=list(facts.incompatible),
            degraded=[*_troubles(facts), *self._own_troubles(grid_trouble), *_of_members(members, facts)],
        )

    def _cluster(self, *facts: ClusterStatus, **rest: object) -> ClusterInfo:
        """With what the broker counts of the others, and the room that there is."""
        dropped = dict(self._counters.forwards_dropped)
        budget = self._budget
        room = {"room_used": budget.disk_used, "room_limit": budget.disk_limit, "room_level": budget.level.value}
        return made_of(ClusterInfo, *facts, self._counters, forwards_dropped=dropped, **room, **rest)

    def _self(self, number: int, boot: int) -> MemberInfo:
        draining, clients = self._draining.active, self._connections.clients
        return MemberInfo(number, self._node_id, boot, self._version, "self", draining, clients)

    def _own_troubles(self, grid_trouble: str | None) -> Iterator[str]:
        if grid_trouble is not None:
            yield f"the grid does not take writes ({grid_trouble}): nothing is acknowledged until it does"
        if self._budget.level is DiskLevel.FULL:
            yield "the grid is full: what would be stored is refused or waits until something is removed"
        elif self._budget.level is DiskLevel.ALARM:
            yield "the grid is nearly full: at its limit, what would be stored is refused or waits"
        if self._draining.active:
            yield "this node is being drained: it takes no clients"


def _is_listed(member: MemberInfo) -> bool:
    return member.state != "dead" and not member.away


def _others(facts: ClusterStatus) -> Iterator[MemberInfo]:
    """Those that there are, and those that are lacking. One that was removed is none, whatever its link has counted."""
    absent = {one.number: one for one in facts.absent}
    linked = {peer.number for peer in facts.peers}
    for peer in facts.peers:
        if peer.member or peer.number in absent or peer.number in facts.dead:
            yield _peer(peer, facts, absent.get(peer.number))
    for one in facts.absent:
        if one.number not in linked:
            yield MemberInfo(
                one.number,
                one.node_id,
                one.boot,
                "",
                _left(one.number, one, facts),
                draining=False,
                clients=0,
                left_at=one.since,
            )


def _peer(peer: PeerStatus, facts: ClusterStatus, absent: AbsentNode | None) -> MemberInfo:
    if not peer.member:
        left_at = None if absent is None else absent.since
        return made_of(MemberInfo, peer, state=_left(peer.number, absent, facts), left_at=left_at)
    behind = max(0, facts.routes_version - max(0, peer.acts_on))
    return made_of(MemberInfo, peer, state=_state(peer), routes_behind=behind)


def _left(number: int, absent: AbsentNode | None, facts: ClusterStatus) -> str:
    if number in facts.dead:
        return "dead"
    return Ending.LEFT if absent is None else absent.ending


def _state(peer: PeerStatus) -> str:
    if not peer.up:
        return "silent"
    return "up" if peer.hears_us else "deaf"


def _troubles(facts: ClusterStatus) -> Iterator[str]:
    """Of the node as a part of the cluster."""
    if facts.over is not None:
        yield f"this node is not one of the cluster any more ({facts.over}): it serves nobody until it has begun anew"
    elif facts.registry != "connected":
        why = facts.registry_trouble or "it does not answer"
        yield (
            f"the registry is {facts.registry} ({why}): clients whose session is elsewhere are refused, "
            "and no node is declared dead"
        )
    yield from _unread(facts)
    if facts.copies_missing:
        yield (
            f"{facts.copies_missing} partitions of the grid have fewer copies than they should: until they are made, "
            "losing another server of it, or taking one away, may lose data"
        )
    for member in facts.incompatible:
        yield f"{member} speaks no version of the links that this node speaks: nothing is forwarded between the two"
    yield from _clocks(facts)
    yield from _gone(facts)
    shown = {peer.number for peer in facts.peers} | {one.number for one in facts.absent}
    for number in sorted(facts.dead.keys() - shown):
        yield _unclean(node_words(number))


def _unread(facts: ClusterStatus) -> Iterator[str]:
    if facts.read_trouble is not None:
        yield (
            f"the log cannot be read from the grid ({facts.read_trouble}): durable sessions get nothing that was "
            "published while they were away or behind"
        )


def _gone(facts: ClusterStatus) -> Iterator[str]:
    for one in facts.absent:
        if one.ending is Ending.GONE:
            yield (
                f"{one.node_id} (number {one.number}) is gone without having been stopped: "
                f"start it again, or remove it (iot-mqtt ctl cluster remove {one.node_id})"
            )


def _clocks(facts: ClusterStatus) -> Iterator[str]:
    for name, ahead in sorted(facts.clocks_wrong.items()):
        yield (
            f"{clock_words(name, ahead)}: messages, commands, bans and delayed wills end too early or too late, "
            "there or elsewhere, and messages may be out of order"
        )


def _unclean(name: str) -> str:
    return f"{name} is dead, and its sessions are being adopted: what comes for them is kept"


def _of_members(members: list[MemberInfo], facts: ClusterStatus) -> Iterator[str]:
    """Of the others, as far as they matter here."""
    for member in members:
        name = f"{member.node_id or 'a node'} (number {member.number})"
        if member.state == "dead":
            yield _unclean(name)
        elif member.state == "silent":
            yield (
                f"{name} is on the list but is not heard: its connected clients get nothing from here until it is, "
                "durable sessions find it in the log"
            )
        elif member.state == "deaf":
            yield f"{name} does not hear this node: what is published here reaches it late, from the log"
        if member.state not in ("up", "deaf"):
            continue
        if member.draining:
            yield f"{name} is being drained: it takes no clients"
        if not member.routes_agree:
            yield f"{name} wants what this node does not know of yet: some of it is not forwarded there"
        if member.routes_behind:
            yield f"{name} does not act on {member.routes_behind} changes of what clients here want"
        if member.crowded:
            yield f"{name} does not keep up: QoS 0 for it is dropped"
        elif member.unconfirmed > LAG_BYTES:
            yield f"{name} has not confirmed {member.unconfirmed} bytes that were sent to it"
    if facts.over is None and not any(one.state in ("up", "deaf", "silent") for one in members):
        yield "no other node is there: if this one dies, nobody takes its clients"
