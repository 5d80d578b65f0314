"""What is kept of a node's past: which series there are, and a sample of all of them.

A rate is a counter's growth per second since the sample before; a level is what was true when the sample was taken.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from iot_mqtt.ports.counters import Counters, quantile
from iot_mqtt.ports.status import BrokerInfo, LogInfo, UplinkInfo

#: How samples become one: those of a longer time, and those of several nodes.
OverTime = Literal["mean", "max"]
OverNodes = Literal["sum", "max"]


class Series(NamedTuple):
    """One figure over time."""

    name: str
    unit: str
    over_time: OverTime = "mean"
    over_nodes: OverNodes = "sum"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a sample is made of."""

    counters: Counters
    info: BrokerInfo
    log: LogInfo
    uplink: UplinkInfo | None
    #: The greatest lateness of the event loop since the sample before, in seconds.
    lag: float


_PAGE = os.sysconf("SC_PAGESIZE")


def _memory() -> float:
    """Bytes of this process in memory; 0 where the system does not say so."""
    try:
        return float(int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE)
    except (OSError, ValueError, IndexError):
        return 0.0


#: Growth per second of these.
RATES: tuple[tuple[Series, Callable[[Facts], float]], ...] = (
    (Series("messages_received", "messages/s"), lambda facts: facts.counters.messages_received),
    (Series("messages_delivered", "messages/s"), lambda facts: facts.counters.messages_delivered),
    (Series("messages_dropped", "messages/s"), lambda facts: facts.counters.dropped.total()),
    (Series("bytes_received", "bytes/s"), lambda facts: facts.counters.bytes_received),
    (Series("bytes_sent", "bytes/s"), lambda facts: facts.counters.bytes_sent),
    (Series("connects", "connections/s"), lambda facts: facts.counters.connects_accepted),
    (Series("refusals", "connections/s"), lambda facts: facts.counters.connects_refused.total()),
    (Series("disconnects", "connections/s"), lambda facts: facts.counters.connections_closed),
    (Series("commits", "commits/s"), lambda facts: facts.counters.commits),
    (Series("cpu", "cores"), lambda _: time.process_time()),
)
#: These as they are.
LEVELS: tuple[tuple[Series, Callable[[Facts], float]], ...] = (
    (Series("clients", "clients"), lambda facts: facts.info.clients),
    (Series("sessions", "sessions"), lambda facts: facts.info.sessions),
    (Series("subscriptions", "subscriptions"), lambda facts: facts.info.subscriptions),
    (Series("retained", "messages"), lambda facts: facts.info.retained),
    (Series("queued", "messages"), lambda facts: facts.info.queued),
    (Series("inflight", "messages"), lambda facts: facts.info.inflight),
    (Series("loop_lag", "seconds", "max", "max"), lambda facts: facts.lag),
    (Series("memory", "bytes"), lambda _: _memory()),
    (Series("disk_used", "bytes", over_nodes="max"), lambda facts: facts.log.disk_used),
    (Series("uplink_lag", "messages"), lambda facts: 0 if facts.uplink is None else facts.uplink.lag_messages),
)
#: So large a share of the messages acknowledged since the sample before waited at most so long for their commit; 0
#: where there were none.
WAITS: tuple[tuple[Series, float], ...] = (
    (Series("acknowledgement_p50", "seconds", "max", "max"), 0.5),
    (Series("acknowledgement_p99", "seconds", "max", "max"), 0.99),
)
ALL: tuple[Series, ...] = tuple(series for series, _ in (*RATES, *LEVELS, *WAITS))


class Sampler:
    """Makes samples, each from the growth since the one before."""

    def __init__(self) -> None:
        self._before: tuple[float, list[float], list[int]] | None = None

    def sample(self, facts: Facts, now: float) -> list[float] | None:
        """The values of ``ALL``; None: there was none before. ``now`` is monotonic."""
        totals = [float(total(facts)) for _, total in RATES]
        waits = facts.counters.acknowledgement_wait
        before, self._before = self._before, (now, totals, list(waits.counts))
        if before is None or now <= before[0]:
            return None
        elapsed = now - before[0]
        rates = [max(0.0, total - old) / elapsed for total, old in zip(totals, before[1], strict=True)]
        fresh = [count - old for count, old in zip(waits.counts, before[2], strict=True)]
        levels = [float(level(facts)) for _, level in LEVELS]
        return rates + levels + [quantile(share, waits.bounds, fresh) for _, share in WAITS]
