"""Messages between nodes: at most once, in order per topic and sender. Links make something better of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: (payload)
Receive = Callable[[bytes], None]


class Messaging(Protocol):
    """Everything is called in the reactor's thread, and calls back there."""

    #: Told True when messages flow (again), False when they do not; whatever was under way then may be lost.
    on_flow: Callable[[bool], None]

    @property
    def flowing(self) -> bool: ...

    @property
    def waiting(self) -> int:
        """Bytes handed over that have not left this process: senders pause by it."""
        ...

    async def listen(self, topic: str, receive: Receive) -> None:
        """From when this returns, messages to the topic come to ``receive``; also after a lost connection is back."""
        ...

    def send(self, topic: str, payload: bytes) -> bool:
        """Pass a message on; False if it is lost already because nothing flows."""
        ...
