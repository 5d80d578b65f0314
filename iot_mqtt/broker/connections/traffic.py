"""Which rates a client's publishing has to keep to: its own, its user's, its address's, its port's and the node's.

::

    mqtt.traffic        all clients · all of one address         listeners.<name>   all of one port
    limits              one client (message_rate) · all of one user (user_message_rate)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.broker.connections.flow import Flow, Way
from iot_mqtt.broker.connections.gates import Gates
from iot_mqtt.broker.publishing.budget import Budget
from iot_mqtt.broker.settings import TrafficSettings
from iot_mqtt.ports.addresses import source_of
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.limits import Limits


class Rates(NamedTuple):
    """Messages and bytes a second; 0: no limit."""

    messages: float = 0.0
    bytes: float = 0.0


class _Wanted(NamedTuple):
    """A gate as it is to be. ``key`` begins with what it is called in counters."""

    key: tuple[str, ...]
    rate: float
    burst: float
    in_bytes: bool
    disconnects: bool = False


class Traffic:
    """The flows of a node. ``ports``: what is said of listeners."""

    __slots__ = ("for_all", "gates", "_budget", "_counters", "_keys", "_ports", "_settings")

    def __init__(
        self,
        settings: TrafficSettings,
        ports: Mapping[str, Rates],
        budget: Budget,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self.change(settings, ports)
        self._budget = budget
        self._counters = counters
        self.gates = Gates(clock)
        #: What each flow uses.
        self._keys: dict[Flow, list[tuple[str, ...]]] = {}

    def change(self, settings: TrafficSettings, ports: Mapping[str, Rates]) -> None:
        """These rates from now on; connections that are there keep theirs until they are led again."""
        self._settings = settings
        self._ports = {name: rates for name, rates in ports.items() if any(rates)}
        of_all = (
            settings.message_rate,
            settings.byte_rate,
            settings.address_message_rate,
            settings.address_byte_rate,
            bool(self._ports),
        )
        #: Whether there are rates for clients of whom nothing is said.
        self.for_all = any(of_all)

    def lead(self, connection: Connection, owner: str, client_id: str, limits: Limits) -> None:
        """Have a connection keep to these rates from now on, and to no others."""
        wanted = [one for one in self._wanted(connection, owner, client_id, limits) if one.rate]
        flow = connection.flow
        if flow is None:
            if not wanted:
                return
            flow = connection.flow = Flow(connection, partial(_serve, connection), (), self._budget, self._counters)
            self._keys[flow] = []
        before = self._keys[flow]
        self._keys[flow] = [one.key for one in wanted]
        gates = [self.gates.use(one.key, one.rate, one.burst) for one in wanted]
        flow.use([Way(gate, one.in_bytes, one.disconnects) for gate, one in zip(gates, wanted, strict=True)])
        for key in before:
            self.gates.let_go(key)
        if not wanted:
            del self._keys[flow]
            connection.flow = None

    def end(self, connection: Connection) -> None:
        """The connection is gone."""
        flow, connection.flow = connection.flow, None
        if flow is not None:
            flow.use(())
            for key in self._keys.pop(flow):
                self.gates.let_go(key)

    def _wanted(self, connection: Connection, owner: str, client_id: str, limits: Limits) -> Iterator[_Wanted]:
        settings, seconds = self._settings, self._settings.burst
        listener = "" if connection.ctx is None else connection.ctx.channel.listener
        address, port = source_of(connection.peer), self._ports.get(listener, Rates())
        closes = limits.rate_action == "disconnect"
        messages, size = limits.message_rate or 0.0, limits.byte_rate or 0.0
        burst = limits.message_burst or max(1.0, messages * seconds)
        yield _Wanted(("message_rate", owner, client_id), messages, burst, in_bytes=False, disconnects=closes)
        burst = limits.byte_burst or max(1.0, size * seconds)
        yield _Wanted(("byte_rate", owner, client_id), size, burst, in_bytes=True, disconnects=closes)
        for of, name, rates, ends in (
            ("user_", owner, Rates(limits.user_message_rate or 0.0, limits.user_byte_rate or 0.0), closes),
            ("address_", address, Rates(settings.address_message_rate, settings.address_byte_rate), False),
            ("listener_", listener, port, False),
            ("node_", "", Rates(settings.message_rate, settings.byte_rate), False),
        ):
            for kind, rate in (("message_rate", rates.messages), ("byte_rate", rates.bytes)):
                yield _Wanted((of + kind, name), rate, max(1.0, rate * seconds), kind == "byte_rate", ends)


def _serve(connection: Connection, items: list[object]) -> None:
    """What serves a connection may be another one once its client is let in."""
    connection.serving.inbound.read(connection, items)
