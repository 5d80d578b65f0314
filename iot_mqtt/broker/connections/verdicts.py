"""What a client may publish and receive, by topic: its rights were asked once for each.

The decoder makes batches of what may be published in the form that it has. It looks at one table for each form, which
says of a topic what the routes say, or that it is in no batch because its right to it is to be asked for. A lookup more
for each message would cost a tenth of it.

Who publishes to many topics asks for many once. Where the rules do not tell topics apart that differ in their last
level only, the table names what these begin with, and the decoder asks the routes themselves: such a client costs no
more than one that may do everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from iot_mqtt.ports.access import Action, Permissions, form_of
from iot_mqtt.topics.memo import Classes

V = TypeVar("V")

#: Verdicts that each table of a connection may have.
OWN: Final = 256
#: As many more as there is room for in the node, up to so many.
MOST: Final = 16_384
#: Of one step from one to the other.
_STEP: Final = 1024
#: Longer topics are asked for each time, so that the keys stay small.
_LONGEST: Final = 512


class Room:
    """How many verdicts all connections of a node may remember beyond their own part."""

    __slots__ = ("left",)

    def __init__(self, size: int = 262_144) -> None:
        self.left = size

    def take(self, size: int) -> int:
        """So many, or none."""
        if self.left < size:
            return 0
        self.left -= size
        return size


#: A process is a node.
_room: Final = Room()


class _Table(dict[bytes, V]):
    """Topic → what was found; when it is full it begins anew."""

    __slots__ = ("limit", "_room")

    def __init__(self, room: Room) -> None:
        super().__init__()
        self.limit = OWN
        self._room = room

    def make_room(self) -> None:
        """There are as many as there may be."""
        if self.limit < MOST:
            self.limit += self._room.take(_STEP)
        if len(self) >= self.limit:
            self.clear()

    def keep(self, topic: bytes, value: V) -> V:
        """Remember a value, if its topic is none of the longest."""
        if len(self) >= self.limit:
            self.make_room()
        if len(topic) <= _LONGEST:
            self[topic] = value
        return value

    def close(self) -> None:
        """Others may have the room."""
        self.clear()
        self._room.left += self.limit - OWN
        self.limit = OWN


class Permitted(_Table[Any]):
    """Topics → their classes (``Routes.classes``), None where the client may not publish in one form."""

    __slots__ = ("classes", "free", "_bit", "_permissions")

    def __init__(self, classes: Classes[Any], permissions: Permissions, form: int, room: Room) -> None:
        super().__init__(room)
        self.classes = classes
        #: What topics begin with, up to their last level, to which the client may publish in this form; "": none.
        self.free = b""
        self._bit = form_of(form)
        self._permissions = permissions

    def __missing__(self, topic: bytes) -> Any:
        found = self.classes[topic]
        if found is None and topic not in self.classes:
            # It was not looked up, and may be later.
            return None
        if found is not None:
            text = topic.decode("utf-8", "replace")
            if not self._permissions.forms(text) & self._bit:
                found = None
            elif self._permissions.beside(text) & self._bit:
                self.free = topic[: topic.rfind(b"/") + 1]
        return self.keep(topic, found)

    def begin(self, permissions: Permissions) -> None:
        """Nothing is known of these rights."""
        self.clear()
        self.free = b""
        self._permissions = permissions


class _Nowhere(dict[bytes, Any]):
    """No topic is in a batch."""

    free = b""
    classes: Final[dict[bytes, Any]] = {}

    def __missing__(self, topic: bytes) -> None:
        return None


_NOWHERE: Final = _Nowhere()


class Verdicts:
    """Those of one connection whose client may not do everything; for its decoder the routes by form."""

    __slots__ = ("scanned", "version", "_classes", "_permissions", "_publish", "_receive", "_room", "_seen", "_tables")

    def __init__(self, classes: Classes[Any] | None, room: Room = _room) -> None:
        """``classes``: of the routes; None: nothing is made into batches here."""
        #: Of the rights that were asked.
        self.version = -1
        #: Of those by which the decoder made its last batches.
        self.scanned = -1
        self._classes = classes
        self._permissions: Permissions | None = None
        #: Topic → forms.
        self._publish: _Table[int] | None = None
        self._receive: _Table[bool] | None = None
        #: ``head & 7`` → table; of the forms that have come.
        self._tables: dict[int, Permitted] = {}
        #: What the tables' routes had forgotten.
        self._seen = 0
        self._room = room

    def __getitem__(self, form: int) -> Permitted | _Nowhere:
        """The decoder's table of a form, true at this moment."""
        permissions, classes = self._permissions, self._classes
        if permissions is None or classes is None:
            return _NOWHERE
        if permissions.version != self.version:
            self.begin(permissions)
        if classes.forgotten != self._seen:
            for known in self._tables.values():
                known.clear()
            self._seen = classes.forgotten
        self.scanned = self.version
        table = self._tables.get(form)
        if table is None:
            table = self._tables[form] = Permitted(classes, permissions, form, self._room)
        return table

    def may_publish(self, permissions: Permissions, topic: bytes, head: int) -> bool:
        """Whether the client may publish to a topic what begins with a byte."""
        if self.version != permissions.version:
            self.begin(permissions)
        if self._publish is None:
            self._publish = _Table(self._room)
        forms = self._publish.get(topic)
        if forms is None:
            forms = self._publish.keep(topic, permissions.forms(topic.decode("utf-8", "replace")))
        return forms >> (head & 7) & 1 == 1

    def may_receive(self, permissions: Permissions, topic: bytes) -> bool:
        """Whether the client may be sent what was published to a topic."""
        if self.version != permissions.version:
            self.begin(permissions)
        if self._receive is None:
            self._receive = _Table(self._room)
        verdict = self._receive.get(topic)
        if verdict is None:
            verdict = self._receive.keep(topic, permissions.allows(Action.READ, topic.decode("utf-8", "replace")))
        return verdict

    def begin(self, permissions: Permissions) -> None:
        """Nothing is known of these rights."""
        for table in self._all():
            table.clear()
        for permitted in self._tables.values():
            permitted.begin(permissions)
        self._permissions, self.version = permissions, permissions.version

    def close(self) -> None:
        """The connection is over: others may have the room."""
        for table in self._all():
            table.close()
        self._tables.clear()

    def _all(self) -> Iterator[_Table[Any]]:
        yield from self._tables.values()
        if self._publish is not None:
            yield self._publish
        if self._receive is not None:
            yield self._receive
