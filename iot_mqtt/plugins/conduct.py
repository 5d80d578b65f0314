"""How one version of a plugin behaves: its faults, and when it is kept from work for them.

Grave faults hurt others (a dead or stuck worker): whoever caused one is held off at once, and the plugin is in
quarantine when several show it. A light fault (an exception) only closes the connection it happened on; who causes it
over and over may as well be one broken gateway, so that one is held off first, and the plugin only if several see it
fail.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable

from iot_mqtt.plugins.running import NotAvailable
from iot_mqtt.plugins.settings import Limits
from iot_mqtt.plugins.suspects import MOST, HoldOffs, Suspect, host_of

_DAY = 86_400.0


class Conduct:
    """``now`` is monotonic seconds; ``quarantined`` is called as a quarantine begins, ``held`` when one is held off."""

    def __init__(
        self,
        limits: Limits,
        now: Callable[[], float],
        quarantined: Callable[[], None],
        held: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._limits = limits
        self._now = now
        self._quarantined = quarantined
        self._held = held
        self.faults: Counter[str] = Counter()
        #: The last fault, for a person.
        self.last = ""
        #: Monotonic; 0: it is free.
        self.until = 0.0
        self.reason = ""
        self.hold_offs = HoldOffs(limits, now)
        #: Calls that took long: "slow" ones by the limit ``slow_frame``, "stalled" ones by ``stall``; and the longest.
        self.slow: Counter[str] = Counter()
        self.slowest = 0.0
        self._times = 0
        #: Who showed grave faults, and how much each counts.
        self._grave: deque[tuple[float, Suspect | None, int]] = deque(maxlen=max(16, 4 * limits.grave_faults))
        self._light: deque[tuple[float, str]] = deque(maxlen=max(1, limits.light_faults))
        self._shares: OrderedDict[Suspect, deque[float]] = OrderedDict()

    def grave(self, kind: str, detail: str, suspect: Suspect | None = None) -> None:
        """A fault that others suffer from. Of nobody in particular, one that kept them waiting until it was noticed
        counts twice.
        """
        now = self.note(kind, detail)
        self._grave.append((now, suspect, 2 if kind == "timeout" and suspect is None else 1))
        recent = [(who, count) for at, who, count in self._grave if now - at <= self._limits.window]
        if suspect is not None:
            self._hold(suspect.kind, suspect.name, detail)
            there = {who for who, _ in recent if who is not None and who.address == suspect.address}
            if len(there) >= self._limits.grave_faults:
                # Names cost nothing: what many of one address show may still be one device that has many.
                self._hold("address", suspect.address, f"{len(there)} of its devices: {detail}")
        # What one address shows counts once, what nobody in particular has shown always.
        shown = {who.address for who, _ in recent if who is not None}
        if len(shown) + sum(count for who, count in recent if who is None) >= self._limits.grave_faults:
            self.condemn(f"too many faults within {self._limits.window:.0f} s, the last one: {detail}")

    def light(self, kind: str, detail: str, suspect: Suspect) -> bool:
        """A fault that one connection suffers from; whether it is held off for that."""
        now = self.note(kind, detail)
        times = self._shares.setdefault(suspect, deque(maxlen=max(1, self._limits.faults_per_peer)))
        self._shares.move_to_end(suspect)
        if len(self._shares) > MOST:
            self._shares.popitem(last=False)
        times.append(now)
        held = len(times) == times.maxlen and now - times[0] <= self._limits.window
        if held:
            self._hold(suspect.kind, suspect.name, f"{len(times)} faults, the last one: {detail}")
        self._light.append((now, suspect.address))
        recent = [one for at, one in self._light if now - at <= self._limits.window]
        if len(recent) == self._light.maxlen and len(set(recent)) >= self._limits.light_peers:
            self.condemn(f"{len(recent)} faults of {len(set(recent))} gateways, the last one: {detail}")
        return held

    def took(self, seconds: float, *, stalled: bool) -> None:
        """A call was slow, or so slow that others had to wait."""
        self.slow["slow"] += 1
        if stalled:
            self.slow["stalled"] += 1
        self.slowest = max(self.slowest, seconds)

    def _hold(self, kind: str, name: str, reason: str) -> None:
        seconds = self.hold_offs.hold(kind, name, reason)
        self._held(f"{kind} {name} is held off for {seconds:.0f} s: {reason}")

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
        self.hold_offs.check(name, "address", host_of(peer))

    def check_device(self, name: str, device: str) -> None:
        """Raises ``NotAvailable`` if this device cannot be served now."""
        self.hold_offs.check(name, "device", device)

    def note(self, kind: str, detail: str) -> float:
        """Count a fault; when it is."""
        self.faults[kind] += 1
        self.last = detail
        return self._now()

    def _forget(self) -> None:
        self._grave.clear()
        self._light.clear()
        self._shares.clear()
