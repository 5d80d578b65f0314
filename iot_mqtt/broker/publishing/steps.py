"""What publishing to some topics means besides handing on: commands, the uplink, recording.

A step says which topics it cares about. It is asked once for each topic, when the topic's receivers are looked up, and
the answer is kept with them: a topic without steps pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome

if TYPE_CHECKING:
    from iot_mqtt.broker.session import Session
    from iot_mqtt.ports.access import Permissions, Principal


class Sender(Protocol):
    """The connection that brought a publication, as far as steps need to know it."""

    @property
    def session(self) -> Session | None:
        """None: nobody is connected."""
        ...

    @property
    def permissions(self) -> Permissions | None: ...

    @property
    def principal(self) -> Principal | None: ...

    @property
    def patient(self) -> bool:
        """It is a gateway's."""
        ...

    @property
    def peer(self) -> str:
        """Where the client is; empty when it is gone."""
        ...


class Absent:
    """Who has published what nobody's connection brought: a will. Who that is and what he may do is known."""

    __slots__ = ("permissions", "principal")

    session: Session | None = None
    patient = False
    peer = ""

    def __init__(self, permissions: Permissions, principal: Principal) -> None:
        self.permissions: Permissions | None = permissions
        self.principal: Principal | None = principal


class Step:
    """What a step may do; each of them does some of it. Everything is called in the reactor's thread."""

    __slots__ = ()

    def concerns(self, topic: bytes) -> bool:
        """Whether it cares about a topic. When that changes, all of them have (``Steps.changed``)."""
        raise NotImplementedError

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """What all topics begin with that concern it, whoever knows no better: anything."""
        return (b"",)

    @property
    def slashes(self) -> int:
        """Topics with so many slashes may concern it too, whatever they begin with."""
        return sys.maxsize

    #: Whether messages that concern it are looked at one by one (``take``), with all that came before them done.
    alone = False

    #: Whether it leaves messages of QoS 0 alone.
    above_qos0 = False

    def take(self, publication: Publication, sender: Sender | None) -> Outcome | None:
        """It may be more than a message; what became of it, if it is not to be handed on."""
        return None

    @property
    def recorded(self) -> Sequence[str]:
        """Filters of the topics whose messages it has logged, or some of them, whoever wants them."""
        return ()

    def records(self, topic: bytes, qos: int) -> bool:
        """Whether messages of a topic that concerns it are logged, whoever wants them."""
        return False

    def before(self, publication: Publication) -> bool:
        """It is about to be handed on; False: to nobody."""
        return True

    def after(self, publication: Publication, outcome: Outcome) -> None:
        """Its receivers have it."""

    def awaited(self, publication: Publication) -> int | None:
        """What the answer to a repeated message waits for, as ``Outcome.position``; None: for nothing of this."""
        return None


class Steps:
    """Those of a node, in the order in which they are taken."""

    __slots__ = ("_steps", "_prefixes", "_slashes", "_changed")

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._prefixes: tuple[bytes, ...] | None = None
        self._slashes = sys.maxsize
        self._changed: Callable[[], None] = lambda: None

    def watch(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when the steps of topics are not what they were."""
        self._changed = changed

    def add(self, step: Step) -> None:
        """From now on."""
        self._steps.append(step)
        self.changed()

    def changed(self) -> None:
        """Other topics may concern one of them now."""
        self._prefixes = None
        self._changed()

    def recorded(self) -> Iterator[str]:
        """Filters of what is logged, whoever wants it."""
        for step in self._steps:
            yield from step.recorded

    def of(self, topic: bytes) -> tuple[Step, ...]:
        """Those that care about a topic. Most topics concern none, which costs two comparisons."""
        prefixes = self._prefixes
        if prefixes is None:
            prefixes = self._prefixes = tuple({prefix for step in self._steps for prefix in step.prefixes})
            self._slashes = min((step.slashes for step in self._steps), default=sys.maxsize)
        if not topic.startswith(prefixes) and topic.count(b"/") < self._slashes:
            return ()
        return tuple([step for step in self._steps if step.concerns(topic)])
