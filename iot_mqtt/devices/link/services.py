"""What the links of a node share, and what a listener of gateways was told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from iot_mqtt.devices.link.capturing import Captures
from iot_mqtt.devices.link.counters import LinksCounters
from iot_mqtt.devices.link.repetitions import Repetitions
from iot_mqtt.devices.link.turns import FrameTurns
from iot_mqtt.plugins.running import Opened, Sink
from iot_mqtt.sdk import Value


class Verdict(NamedTuple):
    """Whether a command is to leave, and if not, why."""

    send: bool
    why: str = ""


class Codecs(Protocol):
    """``iot_mqtt.plugins.Plugins``, as far as links use it."""

    def open(self, name: str, peer: str, sink: Sink) -> Opened: ...


class KnownDevices(Protocol):
    """``iot_mqtt.devices.Devices``, as far as links use it."""

    def known(self, gateway: str, done: Callable[[], None]) -> None: ...

    def login(self, gateway: str, *, codec: str, version: str, peer: str, epoch: int = 0) -> int: ...

    def left(self, gateway: str, peer: str = "") -> None: ...

    def seen(self, gateway: str, device: str, *, readings: int = 1) -> None: ...

    def values(self, gateway: str, device: str, values: Mapping[str, Value] | bytes, at: int) -> None: ...

    def is_fresh(self, gateway: str, sequence: int, handed: int) -> bool: ...

    def taken(self, gateway: str, sequence: int) -> None: ...

    def not_taken(self, gateway: str, sequence: int) -> None: ...


class CommandStates(Protocol):
    """``iot_mqtt.devices.states.GatewayCommands``, likewise."""

    def begin(
        self, command_id: str, device: str, done: Callable[[Verdict], None], over: Callable[[], None]
    ) -> None: ...

    def answered(
        self, command_id: str, ok: bool, detail: str = "", values: Mapping[str, Value] | None = None
    ) -> None: ...

    def failed(self, command_id: str, reason: str) -> None: ...

    def refused(self, command_id: str, target: str, reason: str) -> None: ...

    def link_lost(self, command_ids: Iterable[str]) -> None: ...

    def allows_retry(self, command_id: str) -> bool: ...

    def deadline(self, command_id: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class LinkServices:
    """One for a node."""

    node_id: str
    plugins: Codecs
    devices: KnownDevices
    #: Those of a gateway, by its name.
    commands: Callable[[str], CommandStates]
    counters: LinksCounters
    captures: Captures
    #: Whose readings are not published, for whoever asks why.
    repetitions: Repetitions
    #: Milliseconds since 1970.
    now: Callable[[], int]
    #: Call something at the end of the turn.
    call_soon: Callable[[Callable[[], None]], None]
    turns: FrameTurns


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """``listeners.<name>`` of a listener with a codec."""

    codec: str
    #: Seconds in which something always comes from a gateway that has not said another number.
    heartbeat: float = 60.0
    #: Seconds for which a gateway's commands wait while it is away.
    session_expiry: int = 7 * 24 * 3600
    #: Commands that one gateway has and has not dealt with.
    commands_at_once: int = 64
