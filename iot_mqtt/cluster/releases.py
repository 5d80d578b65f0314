"""Asking the home of a client to let go of it, and letting go when another node asks: the words of it. Who may ask, and
what follows, is the business of ``ownership``; what it takes is the broker's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.conversation import Conversation
from iot_mqtt.cluster.links import LinkError, Request
from iot_mqtt.cluster.ownership import BUSY, RELEASED

#: The request by name; the body is the client id.
RELEASE: Final = "release"


class Releases:
    """Of one life of a node."""

    def __init__(self, conversation: Conversation, timeout: float, busy: Callable[[str], bool]) -> None:
        """``timeout``: seconds to wait for a home; ``busy``: whether a client cannot be let go of now."""
        self._conversation = conversation
        self._timeout = timeout
        self._busy = busy
        #: What was answered, so often.
        self.released = self.refused = 0
        conversation.requests[RELEASE] = self._take

    def ask(self, number: int, client_id: str) -> Deferred[bytes | LinkError]:
        """Ask a node; see ``ownership.Ask``."""
        answer: Deferred[bytes | LinkError] = Deferred()
        self._conversation.links.request(number, RELEASE, client_id.encode(), self._timeout, answer.callback)
        self._conversation.flush_soon()
        return answer

    def _take(self, peer: int, request: Request) -> None:
        client_id = request.body.decode(errors="replace")
        if self._busy(client_id):
            self._answer(peer, request, released=False)
        else:
            self._conversation.node.release(client_id, lambda released: self._answer(peer, request, released=released))

    def _answer(self, peer: int, request: Request, *, released: bool) -> None:
        if released:
            self.released += 1
        else:
            self.refused += 1
        self._conversation.links.reply(peer, request, RELEASED if released else BUSY)
        self._conversation.flush_soon()
