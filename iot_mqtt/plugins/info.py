"""What is told about plugins, and what can be asked of them: the admin API and the metrics are made of this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from iot_mqtt.plugins.suspects import HeldOff


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of a plugin: at work, or kept for a rollback."""

    #: Tells versions apart: version and content.
    label: str
    version: str
    #: New connections use it.
    current: bool
    #: At work, if only for connections that began with it.
    loaded: bool
    connections: int


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One plugin."""

    name: str
    #: "disabled", "starting", "ready", "restarting", "quarantined" or "refused".
    state: str
    #: Why, if it does not take connections; or why the last reload came to nothing.
    reason: str | None
    isolation: str
    bundled: bool
    version: str | None
    schema_version: int | None
    connections: int
    versions: list[VersionInfo] = field(default_factory=list)
    #: Since the node started: "exception", "garbage", "slow", "timeout", "died".
    faults: dict[str, int] = field(default_factory=dict)
    #: What there is to say of the last one.
    last_fault: str | None = None
    #: Seconds that are left of it.
    quarantine: float | None = None
    quarantines: int = 0
    #: Of its worker process.
    restarts: int = 0
    pid: int | None = None
    #: Of its sandbox ("user", "files", "calls"): what this host does not enforce, and why.
    unconfined: dict[str, str] = field(default_factory=dict)
    #: Connections that were not let in, by reason.
    turned_away: dict[str, int] = field(default_factory=dict)
    #: Calls that took long: "slow" by ``limits.slow_frame``, "stalled" by ``limits.stall``; and seconds of the longest.
    slow: dict[str, int] = field(default_factory=dict)
    slow_frame: float = 0.0
    stall: float = 0.0
    slowest: float = 0.0
    #: Devices and addresses that are not let in for now, because of what the codec did on their frames; the last ones.
    held_off: list[HeldOff] = field(default_factory=list)
    #: What the codec itself counts.
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckScore:
    """One line of the codec kit's score card."""

    name: str
    #: "pass", "fail", or "none" where it does not apply.
    verdict: str
    figure: str
    complaints: list[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A version of a plugin, held against the codec kit by the node that keeps it."""

    name: str
    label: str
    version: str
    ok: bool
    checks: list[CheckScore]


class PluginError(Exception):
    """What was asked cannot be done, and why. ``kind``: "unknown", "busy" or "refused"."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail


class PluginPart(Protocol):
    """What operators do with plugins. All raise ``PluginError``."""

    def info(self) -> list[PluginInfo]: ...

    async def install(self, path: str, sha256: str) -> list[PluginInfo]:
        """Take in a wheel that has this hash. It changes nothing that runs: ``enable`` or ``reload`` do."""
        ...

    async def take_in(self, wheel: bytes, filename: str, sha256: str) -> list[PluginInfo]:
        """The same of a wheel that was sent."""
        ...

    async def check(self, name: str, label: str | None = None) -> CheckReport:
        """Hold a version, or the one that came last, against the codec kit, in a sandbox; one at a time."""
        ...

    async def enable(self, name: str, isolation: str | None = None) -> PluginInfo: ...

    async def disable(self, name: str) -> PluginInfo: ...

    async def reload(self, name: str, *, drain: bool = False) -> PluginInfo:
        """Use the version that came last for new connections; ``drain``: and ask the others' to close."""
        ...

    async def rollback(self, name: str, *, drain: bool = False) -> PluginInfo:
        """Use the version that was current before."""
        ...
