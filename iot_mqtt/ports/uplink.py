"""The uplink: what leaves towards the data platform, and what it leaves through.

The log is the spool. What a rule matches is recorded in the node's own log, and a reader with a kept place hands it
to a *sink* in order. The place moves when the sink says that the records are safe; what it does not take stays in
the log.

    publish ─▶ rule? ─▶ log ─(commit)─▶ PUBACK
                         └─(commit)─▶ reader ─▶ records ─▶ sink ─(safe)─▶ place

A *spool* is one log in one life of its data: positions mean something in it only. Its name and a record's position
are together the id of a message, the same however often it is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from iot_mqtt.ports.grid import WriteBatch
from iot_mqtt.ports.log import LogRun

#: Rejected records that are remembered one by one.
MAX_REJECTED = 50

#: Called once in the reactor's thread: None: the records are safe; else why they are not.
Done = Callable[[BaseException | None], None]


class Mode(StrEnum):
    """Who gets what a rule matches."""

    #: The platform and subscribers.
    ALSO = "also"
    #: The platform; subscribers do not, and nothing is retained.
    ONLY = "only"


class MadeTopic(str):
    """A topic of the platform whose name is made of what clients say. Where the platform can never have it, what is for
    it goes to ``other``: no client's name may hold up the rest.
    """

    __slots__ = ("other",)
    other: str

    def __new__(cls, name: str, other: str) -> MadeTopic:
        made = super().__new__(cls, name)
        made.other = other
        return made


class Record(NamedTuple):
    """One message as the platform gets it."""

    #: Of the platform: a Kafka topic, a directory.
    topic: str
    #: Order is kept among records of one key.
    key: str
    #: One JSON object on one line.
    value: bytes
    #: Names and values; shared by many records, so treat them as frozen. The id is ``spool-position``.
    headers: tuple[tuple[str, bytes], ...]
    #: When it came, in milliseconds since 1970.
    timestamp: int
    #: Its place in the log; it grows from record to record.
    position: int


class Place(NamedTuple):
    """How far the uplink is, as it is kept."""

    spool: str
    #: Everything before it is safe in the sink.
    position: int
    #: Messages and bytes that were recorded for the uplink, and those of them that are done with; since it began.
    recorded: int = 0
    recorded_bytes: int = 0
    taken: int = 0
    taken_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """A record that the platform will never take."""

    #: Of its message: ``spool-position``.
    id: str
    #: Where it should have gone.
    topic: str
    reason: str
    #: Bytes of its value.
    size: int
    #: When its message came, in seconds since 1970.
    came_at: float
    #: The topic of dead letters that has it; None: nothing has.
    kept_in: str | None


class Places(Protocol):
    """Where the place is kept."""

    async def load(self) -> Place | None:
        """None: there never was one."""
        ...

    def stage(self, batch: WriteBatch, place: Place) -> None:
        """Add it to a batch of the store."""
        ...


class Plan(Protocol):
    """The rules, as the broker needs them. A run goes by those that were in force when it was recorded."""

    @property
    def filters(self) -> Sequence[str]:
        """Plain filters that cover what goes up, and what was recorded to go up and has not yet."""
        ...

    def mode(self, topic: bytes, qos: int) -> Mode | None:
        """None: no rule can match. Called for every publish, so it is a lookup. What a message says may still keep it
        from going up, but never changes the mode.
        """
        ...

    def goes_up(self, run: LogRun) -> bool:
        """Whether a run of the log was recorded for the uplink."""
        ...

    def records(self, run: LogRun, spool: str) -> list[Record]:
        """Messages of the log as the platform gets them, in order; none for a message that no rule wants after all."""
        ...


class Sink(Protocol):
    """What takes records. Everything is called in the reactor's thread, and ``done`` is called there."""

    #: "file" or "kafka".
    kind: str
    #: What keeps it from taking records now, in words; None: nothing.
    trouble: str | None
    #: That is want of room.
    lacks_room: bool
    #: It makes records safe together, now and then: that it has some is its way, and no backlog.
    gathers: bool
    #: Records that the platform rejects for ever, since the start: those that lie among its dead letters with the
    #: reason, and those that could not even be put there.
    dead: int
    dropped: int
    #: Set by the reader: there is room again.
    ready: Callable[[], None]

    @property
    def notes(self) -> Sequence[str]:
        """What an operator has to know though nothing is in the way, in words."""
        ...

    @property
    def rejected(self) -> Sequence[Rejected]:
        """The last of what is ``dead`` or ``dropped``, the newest first; at most ``MAX_REJECTED``."""
        ...

    def open(self, place: Place) -> Awaitable[int]:
        """Make ready to take what comes from ``place`` on. Returns the position to begin at: ``place.position`` or, if
        the sink knows that more is safe, behind that. ``Unavailable`` if it can't be done now. Also called again after
        a failure; what was sent before and is not safe is then forgotten, in the sink too.
        """
        ...

    def send(self, records: Sequence[Record], done: Done) -> bool:
        """Take records, of which there is at least one. Batches get safe in the order in which they were sent, and
        ``done`` is called in that order. False: send no more until ``ready`` is called. After an error nothing is
        taken until ``open``; every batch that was sent before is told the error.
        """
        ...

    def close(self) -> Awaitable[None]:
        """Make safe what was sent, and end."""
        ...

    def abandon(self) -> None:
        """End at once; what is not safe is forgotten."""
        ...
