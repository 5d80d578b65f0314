"""Asking the home of a client to let go of it, and letting go when another node asks: the words of it. Who may ask, and
what follows, is the business of ``ownership``; what it takes is the broker's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from struct import Struct, error
from typing import Final

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.conversation import Conversation
from iot_mqtt.cluster.links import LinkError, Request, RequestRefused
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.membership import Membership
from iot_mqtt.cluster.ownership import BUSY, FOREIGN, RELEASED
from iot_mqtt.cluster.strays import Strays

#: The request by name; the body is the client id. For what is no client, and from nodes that know of no owners.
RELEASE: Final = "release"
#: The same for a client of this owner: length of the id (2), client id, owner.
RELEASE_TO: Final = "release_to"
_LENGTH: Final = Struct(">H")


class Releases:
    """Of one life of a node."""

    def __init__(
        self, membership: Membership, conversation: Conversation, loading: Loading, strays: Strays, timeout: float
    ) -> None:
        """``timeout``: seconds to wait for a home."""
        self._membership = membership
        self._conversation = conversation
        self._loading = loading
        self._strays = strays
        self._timeout = timeout
        #: What was answered, so often.
        self.released = self.refused = 0
        conversation.requests[RELEASE] = self._take
        conversation.requests[RELEASE_TO] = self._take_to

    def ask(self, number: int, client_id: str, owner: str | None) -> Deferred[bytes | LinkError]:
        """Ask a node; see ``ownership.Ask``."""
        answer: Deferred[bytes | LinkError] = Deferred()
        if owner is None:
            self._request(number, RELEASE, client_id.encode(), answer.callback)
        else:
            name = client_id.encode()
            body = _LENGTH.pack(len(name)) + name + owner.encode()
            self._request(number, RELEASE_TO, body, partial(self._answered, number, client_id, answer))
        return answer

    def _request(self, number: int, name: str, body: bytes, done: Callable[[bytes | LinkError], None]) -> None:
        self._conversation.links.request(number, name, body, self._timeout, done)
        self._conversation.flush_soon()

    def _answered(
        self, number: int, client_id: str, asked: Deferred[bytes | LinkError], answer: bytes | LinkError
    ) -> None:
        if isinstance(answer, RequestRefused):
            # A node of the version before, which knows nothing of owners: there a client id is all that counts.
            self._request(number, RELEASE, client_id.encode(), asked.callback)
        else:
            asked.callback(answer)

    def _take(self, peer: int, request: Request) -> None:
        self._release(peer, request, request.body.decode(errors="replace"))

    def _take_to(self, peer: int, request: Request) -> None:
        try:
            (length,) = _LENGTH.unpack_from(request.body)
            client_id, owner = request.body[2 : 2 + length].decode(), request.body[2 + length :].decode()
        except (error, UnicodeDecodeError):
            self._answer(peer, request, BUSY)
            return
        if not self._busy(client_id) and not self._conversation.node.yields(client_id, owner):
            self._answer(peer, request, FOREIGN)
        else:
            self._release(peer, request, client_id)

    def _busy(self, client_id: str) -> bool:
        """Whether this client cannot be let go of now."""
        return not self._conversation.loaded or self._membership.is_over or client_id in self._loading

    def _release(self, peer: int, request: Request, client_id: str) -> None:
        if self._busy(client_id):
            self._answer(peer, request, BUSY)
            return
        self._conversation.node.release(client_id, partial(self._released, peer, request, client_id))

    def _released(self, peer: int, request: Request, client_id: str, released: bool) -> None:
        # Also if it was not: its session may have left the memory.
        self._strays.add(client_id)
        self._answer(peer, request, RELEASED if released else BUSY)

    def _answer(self, peer: int, request: Request, answer: bytes) -> None:
        if answer == RELEASED:
            self.released += 1
        else:
            self.refused += 1
        self._conversation.links.reply(peer, request, answer)
        self._conversation.flush_soon()
