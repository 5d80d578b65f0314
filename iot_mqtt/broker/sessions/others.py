"""What other nodes are to know of the sessions of this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.values import Subscription


class OtherNodes(Protocol):
    """Who tells them."""

    #: There are none.
    alone: bool

    def changed(self, session: Session) -> None:
        """Whether it is connected, or kept, or there at all, has changed. Of one that has ended with many filters (see
        ``route_turns``) each is ``removed`` by and by.
        """
        ...

    def added(self, session: Session, filter: str) -> None:
        """It has subscribed to a filter that it did not have."""
        ...

    def removed(self, session: Session, filter: str) -> None:
        """It has no longer subscribed to a filter."""
        ...

    def gone(self, session: Session) -> None:
        """It has ended, and all its filters were removed one by one."""
        ...

    def when_in_force(self, session: Session, call: Callable[[], None]) -> None:
        """``call`` when the session gets whatever is published anywhere for what it has subscribed to."""
        ...

    def begin(self, session: KeptSession, subscription: Subscription) -> bool:
        """A durable session has a plain subscription that it did not have. True: where it begins in the logs of others
        is looked up, and it is stored when that is known.
        """
        ...


class Alone:
    """The ``OtherNodes`` of a sole node."""

    __slots__ = ()

    alone = True

    def changed(self, session: Session) -> None:
        pass

    def added(self, session: Session, filter: str) -> None:
        pass

    def removed(self, session: Session, filter: str) -> None:
        pass

    def gone(self, session: Session) -> None:
        pass

    def when_in_force(self, session: Session, call: Callable[[], None]) -> None:
        call()

    def begin(self, session: KeptSession, subscription: Subscription) -> bool:
        return False
