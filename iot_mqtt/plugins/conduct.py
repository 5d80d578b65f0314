"""How one version of a plugin behaves: its faults, and when it is kept from work for them.

Grave faults hurt others (a dead or stuck worker), so a few of them mean quarantine. A light fault (an exception) only
closes the connection it happened on; who causes it over and over may as well be one broken gateway, so that address is
held off first, and the plugin only if several addresses see it fail.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable

from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.plugins.settings import Limits

#: Addresses that are remembered for their faults.
_PEERS = 1024
_DAY = 86_400.0


class Conduct:
    """``now`` is monotonic seconds; ``quarantined`` is called as a quarantine begins."""

    def __init__(self, limits: Limits, now: Callable[[], float], quarantined: Callable[[], None]) -> None:
        self._limits = limits
        self._now = now
        self._quarantined = quarantined
        self.faults: Counter[str] = Counter()
        #: The last fault, for a person.
        self.last = ""
        #: Monotonic; 0: it is free.
        self.until = 0.0
        self.reason = ""
        self._times = 0
        self._grave: deque[float] = deque(maxlen=max(1, limits.grave_faults))
        self._light: deque[tuple[float, str]] = deque(maxlen=max(1, limits.light_faults))
        self._peers: OrderedDict[str, deque[float]] = OrderedDict()

    def grave(self, kind: str, detail: str) -> None:
        """A fault that others suffer from. One that kept them waiting until it was noticed counts twice."""
        now = self._note(kind, detail)
        self._grave.extend([now] * (2 if kind == "timeout" else 1))
        if len(self._grave) == self._grave.maxlen and now - self._grave[0] <= self._limits.window:
            self.condemn(f"too many faults within {now - self._grave[0]:.0f} s, the last one: {detail}")

    def light(self, kind: str, detail: str, peer: str) -> None:
        """A fault that one connection suffers from."""
        now = self._note(kind, detail)
        host = _host(peer)
        times = self._peers.setdefault(host, deque(maxlen=max(1, self._limits.faults_per_peer)))
        self._peers.move_to_end(host)
        if len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        times.append(now)
        self._light.append((now, host))
        recent = [one for at, one in self._light if now - at <= self._limits.window]
        if len(recent) == self._light.maxlen and len(set(recent)) >= self._limits.light_peers:
            self.condemn(f"{len(recent)} faults of {len(set(recent))} gateways, the last one: {detail}")

    def condemn(self, reason: str) -> None:
        """Begin a quarantine, unless there is one."""
        now = self._now()
        if now < self.until:
            return
        if now - self.until > _DAY:
            self._times = 0
        length = min(self._limits.quarantine_most, self._limits.quarantine * 2.0 ** min(self._times, 20))
        self._times += 1
        self.until, self.reason = now + length, reason
        self._forget()
        self._quarantined()

    def pardon(self) -> None:
        """A person says: try again."""
        self.until, self.reason, self._times = 0.0, "", 0
        self._forget()

    @property
    def remaining(self) -> float:
        """Seconds of quarantine that are left."""
        return max(0.0, self.until - self._now())

    def check(self, name: str, peer: str) -> None:
        """Raises ``NotAvailable`` if this address cannot be served now."""
        if remaining := self.remaining:
            raise NotAvailable(
                "quarantined",
                f"{name} is in quarantine for {remaining:.0f} s more: {self.reason}; "
                f"`ctl plugins reload {name}` ends it",
            )
        times = self._peers.get(_host(peer))
        if times is not None and len(times) == times.maxlen and self._now() - times[0] <= self._limits.window:
            raise NotAvailable(
                "held_off", f"{name} failed {len(times)} times within {self._limits.window:.0f} s on this address"
            )

    def _note(self, kind: str, detail: str) -> float:
        self.faults[kind] += 1
        self.last = detail
        return self._now()

    def _forget(self) -> None:
        self._grave.clear()
        self._light.clear()
        self._peers.clear()


def _host(peer: str) -> str:
    """The address without its port."""
    host, colon, port = peer.rpartition(":")
    return host if colon and port.isdigit() else peer
