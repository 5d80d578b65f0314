"""Bugs to put into the broker, the client of the grid or the servers, to see whether the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from iot_mqtt.broker.cluster.claims import Claims
from iot_mqtt.broker.connections.handlers import PublishAnswers
from iot_mqtt.broker.readers.in_order import OrderedCursor
from iot_mqtt.compiled import CHOICE
from iot_mqtt.grid.ignite import IgniteGrid
from iot_mqtt.grid.ignite.frames import Status
from iot_mqtt.grid.ignite.writing import Writer
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.session.delivery import Delivery

Replacement = tuple[Any, str, Callable[..., Any]]


def _acknowledge_early() -> Replacement:
    """PUBACK and PUBREC do not wait for the commit."""
    original = PublishAnswers.acknowledge

    def acknowledge(*args: Any) -> None:
        args[-1].ticket = 0
        original(*args)

    return PublishAnswers, "acknowledge", acknowledge


def _trust_absent() -> Replacement:
    """What one server does not have of the log is not there: nobody else is asked."""

    async def get_many(self: Any, cache: CacheName, keys: Sequence[bytes]) -> list[bytes | None]:
        reads = self.reader if cache in (CacheName.LOG, CacheName.LOG_INDEX) else self.pages
        found: list[bytes | None] = await reads.get_many(cache, keys)
        return found

    return IgniteGrid, "_get_many", get_many


def _half_a_turn() -> Replacement:
    """A turn that was to be whole has no note."""
    return Writer, "_note", lambda self, packing: False


def _stale_claim() -> Replacement:
    """A client's records are read before the removal of what was used of them is committed."""

    async def load(self: Any, client_id: str, *, inherited: bool) -> Any:
        return await self._homes.load(client_id, inherited=inherited)

    return Claims, "_load", load


def _not_ready_is_done() -> Replacement:
    """What the grid does not take counts as taken."""
    original = Writer._trouble

    def trouble(self: Any, done: Any) -> Any:
        return None if done is not None and done.status == Status.NOT_READY else original(self, done)

    return Writer, "_trouble", trouble


def _never_expires() -> Replacement:
    """Of messages."""
    return Delivery, "expired", lambda self, wall: False


def _side_by_side() -> Replacement:
    """A session's readers do not wait for each other."""
    return OrderedCursor, "_others", lambda self: iter(())


def _lost_ticks() -> Replacement:
    """A wheel that makes its calls takes itself for idle: what is due on a late node in between never comes."""

    def tick_now(self: Any) -> int:
        if self._timer is None:
            self.tick = self._made = max(self.tick, self._now())
        tick: int = self.tick
        return tick

    return TimingWheel, "tick_now", tick_now


#: By name; None: it is in the servers.
PLANTS: Mapping[str, Callable[[], Replacement] | None] = {
    "acknowledge-early": _acknowledge_early,
    "lost-ticks": _lost_ticks,
    "trust-absent": _trust_absent,
    "half-a-turn": _half_a_turn,
    "stale-claim": _stale_claim,
    "not-ready-is-done": _not_ready_is_done,
    "never-expires": _never_expires,
    "side-by-side": _side_by_side,
    "lying-server": None,
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """One of them is in."""
    plant = PLANTS[name] if name is not None else None
    if plant is None:
        yield
        return
    if CHOICE.use:
        raise SystemExit("a bug can be put into Python, not into what is compiled: set IOT_MQTT_NATIVE=off")
    owner, attribute, replacement = plant()
    original = getattr(owner, attribute)
    setattr(owner, attribute, replacement)
    try:
        yield
    finally:
        setattr(owner, attribute, original)
