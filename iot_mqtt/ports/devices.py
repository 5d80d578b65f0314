"""Where commands, gateways, devices and shadows are kept: values, and the store that has them.

Writing is staging: each ``put`` adds to a batch that somebody else commits, together with what belongs to it (the
publish of a command, the readings of a sequence). Reading is asynchronous. Keys begin with who owns what hangs on
them, so that one client's commands are found without looking at the others'.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.values import NO_STANDING, Standing

__all__ = [
    "OPERATOR",
    "DeviceFigures",
    "DeviceStore",
    "Half",
    "State",
    "StoredCommand",
    "StoredDevice",
    "StoredSequence",
    "StoredShadow",
    "owner_of",
    "replace",
]


#: Who sends commands in nobody's name (``StoredCommand.user``); no user is called so.
OPERATOR: Final = "\0"


class State(StrEnum):
    """What has become of a command."""

    #: Accepted and committed; the device has not been sent anything.
    QUEUED = "queued"
    #: It has left, or is about to: from here on nobody can say that the device does not have it.
    SENT = "sent"
    #: The device has confirmed it.
    ACKED = "acked"
    #: It will not be done, and everybody knows why.
    FAILED = "failed"
    #: Its deadline was over before it was sent.
    EXPIRED = "expired"
    #: It was sent, nothing came back, and it is not sent again.
    UNCERTAIN = "uncertain"

    @property
    def final(self) -> bool:
        """Whether nothing more is going to be sent for it."""
        return self not in (State.QUEUED, State.SENT)


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """One command. Times are wall-clock seconds."""

    id: str
    #: What stands behind ``down/``: a client id, or a gateway and its device.
    target: str
    state: State
    accepted_at: float
    #: After which it must not be sent any more; None: it was given none.
    deadline: float | None = None
    #: When its sender wrote it, where that is known (a record of Kafka), by a clock that may be ahead.
    written: float | None = None
    retry: bool = False
    wants_reply: bool = False
    idempotency_key: str = ""
    #: Client id of the sender; "" for the API.
    sender: str = ""
    #: The verified user who answers for it, or ``OPERATOR``; "": an anonymous client. None: a release before wrote it,
    #: or wrote it again during an upgrade. All these count as one sender's.
    user: str | None = None
    #: In whose names it was sent (``Principal.identity``), and what else is known of the client that sent it. Empty: in
    #: the operator's, or a release before wrote it.
    identities: tuple[str, ...] = ()
    standing: Standing = NO_STANDING
    response_topic: str = ""
    correlation: bytes = b""
    #: When each state began; the last one of its kind.
    times: Mapping[str, float] = field(default_factory=dict)
    #: How often it was sent.
    attempts: int = 0
    detail: str = ""
    values: Mapping[str, Any] | None = None
    #: If the node that has committed this state dies, nobody succeeds to it who would tell it; until it is told.
    untold: bool = False
    #: The body; only where it was asked for.
    body: bytes | None = None

    @property
    def owner(self) -> str:
        """The client whose session brings it: the gateway, or the MQTT device."""
        return owner_of(self.target)

    def is_by(self, user: str) -> bool:
        """Whether it is this sender's, as far as is known."""
        return self.user is None or self.user == user

    @property
    def changed_at(self) -> float:
        """When its state began."""
        return self.times.get(self.state, self.accepted_at)

    @property
    def kept_from(self) -> float:
        """When the time begins for which one that is over is known. It may come again for as long after ``written``."""
        return self.changed_at if self.written is None else max(self.changed_at, self.written)


def owner_of(target: str) -> str:
    """The client id that a target begins with."""
    return target.partition("/")[0]


@dataclass(frozen=True, slots=True)
class StoredDevice:
    """A gateway (``device`` is empty) or a device behind one."""

    gateway: str
    device: str
    first_seen: float
    last_seen: float
    online: bool = False
    codec: str = ""
    version: str = ""
    address: str = ""
    #: Connections of a gateway; readings of a device.
    logins: int = 0
    readings: int = 0

    @property
    def target(self) -> str:
        """As it stands behind ``down/`` and ``up/``."""
        return f"{self.gateway}/{self.device}" if self.device else self.gateway


class Half(StrEnum):
    """Of a shadow; as its keys begin."""

    REPORTED = "r"
    DESIRED = "d"


#: In place of the highest sequence of a gateway none of whose frames is known: they may count from 0.
NO_SEQUENCE: Final = -1


@dataclass(frozen=True, slots=True)
class StoredSequence:
    """How far the frames of a gateway are safe."""

    #: Of its numbering; in another one it begins anew.
    epoch: int
    highest: int
    #: Whose gateway it is (``Principal.identity``). None: a release before did not write it, perhaps during an upgrade;
    #: then it is of whoever comes next.
    owner: str | None = None

    def is_anothers(self, owner: str | None) -> bool:
        """Whether it says nothing of the gateway of this owner."""
        return self.owner is not None and owner is not None and self.owner != owner


class UnreadableShadow(Unavailable):
    """There is one that this version cannot read: it is neither none, nor to be written over."""


@dataclass(frozen=True, slots=True)
class StoredShadow:
    """One half of a shadow: what a device reported, or what is desired of it."""

    #: Grows by one with every change.
    version: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)
    #: Milliseconds since 1970, by tag.
    times: Mapping[str, int] = field(default_factory=dict)
    #: Of what is reported: whose device it is (``Principal.identity``). None: nobody knows.
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """What a node counts of all this, since its start."""

    #: Times that a command came to a state.
    states: Mapping[str, int]
    #: Commands that are not over.
    waiting: int
    devices: int
    gateways: int
    duplicates: int
    forgotten: int
    bad_replies: int
    #: Of which something was reported, as far as they are counted.
    shadows: int
    shadows_refused: int
    unreadable: int


class DeviceStore(Protocol):
    """Records of devices, on any grid."""

    #: Records that this version cannot read.
    unreadable: int

    # Commands.

    def put_command(self, batch: WriteBatch, command: StoredCommand) -> None:
        """Without the body."""
        ...

    def put_body(self, batch: WriteBatch, target: str, command_id: str, body: bytes) -> None: ...

    def remove_command(self, batch: WriteBatch, target: str, command_id: str) -> None:
        """With its body."""
        ...

    def commands(self, owner: str | None = None) -> AsyncIterator[StoredCommand]:
        """Those of one client, or all; in the order of the keys."""
        ...

    async def command(self, owner: str, command_id: str) -> StoredCommand | None: ...

    async def swap_command(self, before: StoredCommand, after: StoredCommand) -> bool:
        """Committed when this returns; False if another one stands there now."""
        ...

    async def body(self, owner: str, command_id: str) -> bytes | None: ...

    # Gateways and devices.

    def put_device(self, batch: WriteBatch, device: StoredDevice) -> None: ...

    def remove_device(self, batch: WriteBatch, gateway: str, device: str) -> None: ...

    def devices(self, gateway: str | None = None) -> AsyncIterator[StoredDevice]: ...

    # The highest safe sequence of a gateway.

    def put_sequence(self, batch: WriteBatch, gateway: str, sequence: StoredSequence) -> None: ...

    def remove_sequence(self, batch: WriteBatch, gateway: str) -> None: ...

    async def sequence(self, gateway: str) -> StoredSequence | None: ...

    # Shadows.

    def put_reported(self, batch: WriteBatch, target: str, shadow: StoredShadow) -> None: ...

    def remove_reported(self, batch: WriteBatch, target: str) -> None: ...

    async def reported(self, target: str) -> StoredShadow: ...

    async def desired(self, target: str) -> StoredShadow: ...

    async def swap_desired(self, target: str, shadow: StoredShadow) -> bool:
        """Committed when this returns; False if the version in the store is not the one before it."""
        ...

    async def remove_empty_desired(self, target: str) -> bool:
        """Committed when this returns; False if something is desired, or there is no record."""
        ...

    async def remove_damaged(self, half: Half, target: str) -> bool:
        """Committed when this returns; False if it can be read, here or by a later version, or there is none."""
        ...

    async def shadows_after(self, half: Half, after: str, limit: int) -> list[str]:
        """Targets that have this half, in the order of their keys; "" is before all."""
        ...
