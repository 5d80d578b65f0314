"""What Modbus does not say itself: which registers mean what, and what was asked for.

A response has neither names nor addresses. The gateway asks by itself, as it was configured; the same list stands here
as ``polls``, and a response is recognised by its slave, its function and its size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from iot_mqtt.custom_protocols.names import is_name

Table = Literal["coil", "discrete", "holding", "input"]
RegisterType = Literal["bool", "u16", "i16", "u32", "i32", "f32"]

#: What the reading functions read.
TABLES: Final[dict[int, Table]] = {1: "coil", 2: "discrete", 3: "holding", 4: "input"}
#: Registers that a value takes.
WORDS: Final = {"bool": 1, "u16": 1, "i16": 1, "u32": 2, "i32": 2, "f32": 2}

_SLAVES = range(1, 248)
#: What fits in one response.
_MOST = {1: 2000, 2: 2000, 3: 125, 4: 125}


@dataclass(frozen=True, slots=True)
class Register:
    """One value of a slave."""

    tag: str
    #: From 0, as it goes over the wire: what manuals call 40001 is holding register 0.
    address: int
    type: RegisterType = "u16"
    table: Table = "holding"
    #: Of two registers: whether the first has the higher half ("big") or the lower one.
    words: Literal["big", "little"] = "big"
    #: value = what the registers say × scale + offset
    scale: float = 1.0
    offset: float = 0.0
    #: For people: "°C".
    unit: str = ""
    #: Of one slave only; None: of each.
    slave: int | None = None
    writable: bool = False

    def __post_init__(self) -> None:
        if not self.tag:
            raise ValueError("a register needs a tag")
        if not 0 <= self.address <= 0x10000 - WORDS[self.type]:
            raise ValueError(f"{self.tag}: the address {self.address} is not from 0 to 65535")
        if (self.type == "bool") != (self.table in ("coil", "discrete")):
            raise ValueError(f"{self.tag}: coils and discrete inputs are of type bool, and only they")
        if self.scale == 0:
            raise ValueError(f"{self.tag}: the scale cannot be 0")
        if self.writable and self.table not in ("coil", "holding"):
            raise ValueError(f"{self.tag}: only coils and holding registers can be written")


@dataclass(frozen=True, slots=True)
class Poll:
    """What the gateway asks a slave for, over and over."""

    slave: int
    function: Literal[1, 2, 3, 4]
    start: int
    #: Of registers, or of coils.
    count: int

    def __post_init__(self) -> None:
        if self.slave not in _SLAVES:
            raise ValueError(f"the slave {self.slave} is not from 1 to 247")
        if not 1 <= self.count <= _MOST[self.function]:
            raise ValueError(f"the count {self.count} is not from 1 to {_MOST[self.function]}")
        if not 0 <= self.start <= 0x10000 - self.count:
            raise ValueError(f"{self.count} from {self.start} on end behind 65535")

    @property
    def size(self) -> int:
        """Bytes of values in the response."""
        return self.count * 2 if self.function >= 3 else (self.count + 7) // 8


@dataclass(frozen=True, slots=True)
class Device:
    """What a slave is called."""

    slave: int
    id: str

    def __post_init__(self) -> None:
        if self.slave not in _SLAVES:
            raise ValueError(f"the slave {self.slave} is not from 1 to 247")
        if not is_name(self.id):
            raise ValueError(f"{self.id!r}: an id is 1 to 64 printable characters without / + # $")


@dataclass(frozen=True, slots=True)
class Config:
    """The section ``plugins.modbus.config``, of both forms of the protocol."""

    registers: tuple[Register, ...] = ()
    polls: tuple[Poll, ...] = ()
    #: Slaves without one are called "slave-<number>".
    devices: tuple[Device, ...] = ()
    #: What gateways are called that cannot say it themselves; empty: "modbus-" and their address.
    gateway: str = ""
    #: For the broker's authentication.
    user: str = ""
    password: str = field(default="", repr=False)
    #: ``modbus`` only: what is inside is an RTU frame with its checksum.
    crc: bool = False
    #: ``modbus-rtu`` only: so many bytes that the gateway sends first are its id, for instance 15 for an IMEI.
    registration: int = 0
    #: ``modbus-rtu`` only: what the gateway sends between frames to keep its connection, in hexadecimal.
    heartbeat: str = ""
    #: ``modbus-rtu`` only: what is done when a checksum is wrong: close, or look for the next frame.
    resync: Literal["close", "skip"] = "close"

    def __post_init__(self) -> None:
        if self.gateway and not is_name(self.gateway):
            raise ValueError(f"gateway {self.gateway!r}: 1 to 64 printable characters without / + # $")
        seen: dict[tuple[int, int, int], Poll] = {}
        for poll in self.polls:
            other = seen.setdefault((poll.slave, poll.function, poll.size), poll)
            if other is not poll:
                raise ValueError(
                    f"the responses to the polls of slave {poll.slave}, function {poll.function} from {other.start} "
                    f"and from {poll.start} on have the same size: give one of them another count"
                )
        if len({device.slave for device in self.devices}) < len(self.devices):
            raise ValueError("a slave has two devices")
        if len({device.id for device in self.devices}) < len(self.devices):
            raise ValueError("two slaves have the same device")
        if not 0 <= self.registration <= 64:
            raise ValueError("a registration has 0 to 64 bytes")
        try:
            heartbeat = bytes.fromhex(self.heartbeat)
        except ValueError as error:
            raise ValueError(f"heartbeat: {self.heartbeat!r} is no hexadecimal") from error
        if len(heartbeat) > 64:
            raise ValueError("a heartbeat has at most 64 bytes")
        tags: set[tuple[str, int | None]] = set()
        for register in self.registers:
            if (register.tag, register.slave) in tags or (register.tag, None) in tags:
                raise ValueError(f"the tag {register.tag} is there twice")
            tags.add((register.tag, register.slave))
