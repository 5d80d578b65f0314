"""Clients that come and go without end, or show wrong passwords without end: they are banned for a while.

It is the client id at its address that is banned, not the address: behind it a factory may be, and not the client id
alone: somebody else may be using its name. What is counted is bounded, and leaks away as time passes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from iot_mqtt.broker.connections.connection import Connection
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline.visitors import Pace
from iot_mqtt.ports.bans import Bans, Cause

#: Clients that are counted, of each kind; those heard of longest ago make room.
MOST = 10_000
_WRONG = ReasonCode.BAD_USER_NAME_OR_PASSWORD.name


@dataclass(frozen=True, slots=True)
class Patience:
    """More than ``count`` times in ``seconds`` is a ban for ``ban`` seconds; 0: never."""

    count: int = 0
    seconds: float = 60.0
    ban: float = 300.0


class _Counting:
    """Of one kind of misconduct."""

    __slots__ = ("_of", "_patience")

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._of: OrderedDict[tuple[str, str], Pace] = OrderedDict()

    def once_more(self, client_id: str, source: str, now: float) -> float:
        """Seconds for which the client has to be banned; 0: it has not."""
        patience = self._patience
        if not patience.count:
            return 0.0
        key = client_id, source
        pace = self._of.get(key)
        if pace is None:
            if len(self._of) >= MOST:
                self._of.popitem(last=False)
            pace = self._of[key] = Pace()
        else:
            self._of.move_to_end(key)
        rate = patience.count / patience.seconds
        if pace.ahead(now, rate, patience.count):
            del self._of[key]
            return patience.ban
        pace.take(now, rate)
        return 0.0


class Conduct:
    """Told of every connection that has ended."""

    __slots__ = ("_bans", "_flapping", "_guessing", "_now")

    def __init__(self, flapping: Patience, guessing: Patience, bans: Bans, now: Callable[[], float]) -> None:
        self._flapping = _Counting(flapping)
        self._guessing = _Counting(guessing)
        self._bans = bans
        self._now = now

    def ended(self, connection: Connection) -> None:
        """A connection is gone; what its address counts as is known to its channel, and nothing where it is not."""
        ctx, connect = connection.ctx, connection.connect
        source = "" if ctx is None else ctx.channel.source
        if not source or connect is None or not connect.client_id:
            return
        client_id = connect.client_id
        if connection.session is not None:
            seconds = self._flapping.once_more(client_id, source, self._now())
            if seconds:
                text = "it connected and disconnected too often"
                self._bans.impose(Cause.FLAPPING, client_id, source, seconds, text)
        elif ctx is not None and ctx.channel.close_reason is not None and ctx.channel.close_reason.name == _WRONG:
            seconds = self._guessing.once_more(client_id, source, self._now())
            if seconds:
                self._bans.impose(Cause.GUESSING, client_id, source, seconds, "it showed wrong passwords too often")
