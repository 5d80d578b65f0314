"""What operators see of a node's configuration and of its ports, and what changes them; ``app.node`` has the desk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class ConfigRefused(Exception):
    """The change makes no sense, and nothing has changed; the text has a line for each thing that is wrong."""


class InTheWay(ConfigRefused):
    """The change makes sense, but not now: a port is taken, a listener is open already."""


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """One place that says what a key is."""

    #: default, file, changed, environment or set.
    layer: str
    where: str
    value: object


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One key. Secrets are masked."""

    key: str
    #: In force.
    value: object
    layer: str
    where: str
    #: Whether it may change while the node runs.
    live: bool
    #: It is written otherwise, and will be so after a restart.
    restart: bool
    #: What is written.
    written: object
    #: What it is if nobody says anything.
    default: object


@dataclass(frozen=True, slots=True)
class KeyDetail:
    """All that is said of a key, the lowest layer first."""

    info: KeyInfo
    means: str
    layers: Sequence[LayerInfo]


@dataclass(frozen=True, slots=True)
class Changed:
    """One key that has another value now."""

    key: str
    before: object
    now: object


@dataclass(frozen=True, slots=True)
class ChangesInfo:
    """What became of a change."""

    changed: Sequence[Changed]
    opened: Sequence[str]
    closed: Sequence[str]
    #: Keys that are written otherwise than they are in force, and need a restart.
    restart: Sequence[str]
    #: What the author may want to know.
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ListenerInfo:
    """One listener, open or not."""

    name: str
    open: bool
    protocol: str
    host: str
    #: The one that was bound; while it is closed, as configured.
    port: int
    tls: bool
    #: Of MQTT over WebSocket.
    path: str | None
    codec: str | None
    #: Who says that there is this listener: file, changed, environment, set or default.
    layer: str
    connections: int
    accepted: int
    refused: int
    most: int
    max_connections: int


class ConfigDesk(Protocol):
    """The configuration of one node. Changes raise ``ConfigRefused``, or ``Unavailable`` where files do not come."""

    def all_keys(self) -> Sequence[KeyInfo]:
        """In the order of their names."""

    def key(self, key: str) -> KeyDetail | None:
        """None: there is no such key."""

    async def reload(self, *, dry_run: bool = False) -> ChangesInfo:
        """Read the files again. ``dry_run``: nothing changes."""

    async def change(self, values: Mapping[str, object], unset: Sequence[str]) -> ChangesInfo:
        """Change keys, for restarts as well; ``unset``: keys that are to be as they were before."""

    def listeners(self) -> Sequence[ListenerInfo]:
        """In the order of their names."""

    async def open_listener(self, name: str, told: Mapping[str, object]) -> ListenerInfo:
        """Open a port, and again after each restart; ``told``: its keys, as below ``listeners.<name>``."""

    async def close_listener(self, name: str) -> bool:
        """Close a port for good, and let its clients go; false: there is none that is open."""
