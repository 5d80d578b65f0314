"""What the readers of sessions need of the node that they are on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mypy_extensions import mypyc_attr

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.log_cursor import LogCursor
from iot_mqtt.broker.readers.replay_turns import ReplayTurns
from iot_mqtt.broker.sending.outflow import Outflow
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.turn_effort import TurnEffort
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters


class Written(Protocol):
    """What is kept of sessions' ways through the log."""

    def begin(self, session: KeptSession) -> None:
        """A client is back and about to get what waits for it in the log."""
        ...

    def moved(self, session: Session) -> None:
        """What is to be kept of its readers has changed."""
        ...


class Links(Protocol):
    """The other nodes, which offer what they publish."""

    def rests(self, cursor: Any, writer: int) -> bool:
        """Whether a reader that is at the end of that node's log is offered what comes; if not, it is told when."""
        ...

    def wants_more(self, cursor: Any) -> None:
        """It is at the end that is known here, and more is there: it is told when."""
        ...

    def is_ending(self, writer: int) -> bool:
        """Whether that node is gone, and the end of its log is being looked for."""
        ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Unlinked:
    """The ``Links`` of a sole node."""

    __slots__ = ()

    def rests(self, cursor: object, writer: int) -> bool:
        return True

    def wants_more(self, cursor: object) -> None:
        pass

    def is_ending(self, writer: int) -> bool:
        return False


class Reading:
    """One of a node: a ``log_cursor.ReadingNode``, with what the readers of sessions need besides."""

    __slots__ = (
        "outflow",
        "progress",
        "replay_turns",
        "application_turns",
        "counters",
        "clock",
        "call_soon",
        "read_messages",
        "links",
    )

    def __init__(
        self,
        outflow: Outflow,
        progress: Written,
        replay_turns: ReplayTurns,
        application_turns: TurnEffort[LogCursor],
        counters: Counters,
        clock: Clock,
        call_soon: Callable[[Callable[[], None]], None],
        read_messages: int,
    ) -> None:
        self.outflow = outflow
        self.progress = progress
        self.replay_turns = replay_turns
        #: In messages that are read. Applications that are behind read the log in turns, so that devices are not kept
        #: waiting by how fast they take it.
        self.application_turns = application_turns
        self.counters = counters
        self.clock = clock
        self.call_soon = call_soon
        #: Messages that one read brings at most.
        self.read_messages = read_messages
        self.links: Links = Unlinked()
