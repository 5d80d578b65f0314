"""What durable groups need of the node that they are on, as small interfaces.

A member is a session of this node, or a ``members.RemoteMember``. The routing table holds both as receivers and is
typed by the former, so a group from there is a ``SharedGroup[Any]`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from iot_mqtt.broker.publication import Publication
from iot_mqtt.ports.log import Log, LogReader, LogRun, Reference
from iot_mqtt.session import Flight, Outbound
from iot_mqtt.topics import SharedGroup

Group: TypeAlias = SharedGroup[Any]
#: The groups that the routing table has for a filter without ``$share/<group>/``.
GroupsOf: TypeAlias = Callable[[str], Sequence[Group]]


class MemberConnection(Protocol):
    """Where a member is connected."""

    writable: bool

    def send_qos0(self, publication: Publication, retain: bool, identifiers: tuple[int, ...]) -> None: ...


class Member(Protocol):
    """A session that is in a group, or may be."""

    client_id: str
    durable: bool
    ended: bool
    outbound: Outbound

    @property
    def connection(self) -> MemberConnection | None: ...

    @property
    def subscriptions(self) -> Mapping[str, object]: ...


class Sessions(Protocol):
    """Those of this node."""

    def get(self, client_id: str) -> Member | None: ...

    def __iter__(self) -> Iterator[Member]: ...


class Sending(Protocol):
    """What sessions have under way."""

    def take(
        self,
        session: Any,
        publication: Publication,
        reference: Reference,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        cursor: Any,
        *,
        again: bool,
        had: Sequence[int],
    ) -> int:
        """Put as much under way as the window has room for; how many messages that is. ``again``: they may have been
        sent before; ``had``: with these ids, if that is known.
        """
        ...


class Progress(Protocol):
    """What is kept of sessions' ways through the log."""

    def numbered(self, session: Any, flights: Sequence[Flight]) -> None: ...

    def finished(self, session: Any, flight: Flight) -> None: ...

    def changed(self, flight: Flight) -> None: ...


class Logs(Protocol):
    """This node's log, and those that it reads."""

    own: Log

    async def reader(self, writer: int) -> LogReader:
        """The log of a node, up to its end of now; ``Unavailable``: not now."""
        ...

    async def fetch(self, references: Sequence[Reference]) -> list[LogRun | None]: ...


class Turn(Protocol):
    """The turn of the reactor, which ends with a commit."""

    def call_soon(self, call: Callable[[], None], /) -> None: ...

    def plan(self) -> None:
        """There is something for its end."""
        ...

    def reserve(self) -> int:
        """There will be something in its commit, whose number it is."""
        ...


class OtherNodes(Protocol):
    """The peers, as the routing table knows them."""

    def member(self, number: int, filter: str, client_id: str) -> Any:
        """The ``RemoteMember`` that is connected there, if it is."""
        ...

    def kept_groups(self) -> Iterator[str]:
        """The shared filters that somebody durable on another node has."""
        ...

    def reachable(self) -> Sequence[int]:
        """The numbers of those that can be told something now."""
        ...
