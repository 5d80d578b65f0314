"""How the nodes of a cluster ask each other, by name; ``cluster.questions`` is one such way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol


class Asking(Protocol):
    """What is answered at once, from memory."""

    #: Name → what makes the answer of a question's body.
    answers: dict[str, Callable[[bytes], bytes]]

    def ask_all(self, name: str, body: bytes) -> Awaitable[Mapping[int, bytes | str]]:
        """Answers by number, or why there is none, in words."""
        ...


class AskingLater(Protocol):
    """What takes its time to be answered."""

    #: Name → what makes the answer of a question's body, in time.
    later: dict[str, Callable[[bytes], Awaitable[bytes]]]

    def ask_all(
        self, name: str, body: bytes, within: float, only: Collection[int] | None = None
    ) -> Awaitable[Mapping[int, bytes | str]]:
        """As ``Asking.ask_all``. ``within``: seconds; ``only``: these nodes."""
        ...
