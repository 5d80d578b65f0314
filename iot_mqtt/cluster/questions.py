"""What nodes ask each other beside homes and interest, by name: one asks, every other member answers.

Most answers are made at once, from memory; those in ``later`` take their time. A node that does not know a name, or
does not answer in time, is told of as text: whoever asked decides what that means.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from twisted.internet.defer import Deferred, ensureDeferred

from iot_mqtt.cluster.links import LinkError, Links, Request

log = logging.getLogger(__name__)

#: Seconds.
ANSWERS_WITHIN = 5.0


class Questions:
    """Of one life of a node."""

    def __init__(
        self,
        links: Links,
        flush_soon: Callable[[], None],
        all_heard: Callable[[], bool],
        words: Callable[[int], str],
    ) -> None:
        """``all_heard``: whether it is known of every member what it wants; ``words``: a node, for people."""
        self._words = words
        self.all_heard = all_heard
        self._links = links
        self._flush_soon = flush_soon
        #: Name → what makes the answer of the body; whatever it raises goes back as a refusal.
        self.answers: dict[str, Callable[[bytes], bytes]] = {}
        #: The same of answers that are waited for.
        self.later: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}

    def take(self, peer: int, request: Request) -> bool:
        """Answer a peer; False if nobody here knows the name."""
        later, answer = self.later.get(request.name), self.answers.get(request.name)
        if later is not None:
            ensureDeferred(self._take_later(peer, request, later))
            return True
        if answer is None:
            return False
        try:
            body = answer(request.body)
        except Exception as error:  # another node's question is no reason to fail here
            log.error("a question of %s cannot be answered", self._words(peer), exc_info=error)
            self._links.refuse(peer, request, f"it failed there: {error}")
        else:
            self._links.reply(peer, request, body)
        self._flush_soon()
        return True

    async def _take_later(self, peer: int, request: Request, later: Callable[[bytes], Awaitable[bytes]]) -> None:
        boot = self._boot(peer)
        try:
            body: bytes | str = await later(request.body)
        except Exception as error:  # as above
            log.error("a question of %s cannot be answered", self._words(peer), exc_info=error)
            body = f"it failed there: {error}"
        # A peer that has begun anew meanwhile counts its questions anew.
        if boot is not None and self._boot(peer) == boot:
            if isinstance(body, str):
                self._links.refuse(peer, request, body)
            else:
                self._links.reply(peer, request, body)
            self._flush_soon()

    def _boot(self, peer: int) -> int | None:
        link = self._links.links.get(peer)
        return None if link is None else link.peer_boot

    def ask_all(
        self, name: str, body: bytes, within: float = ANSWERS_WITHIN, only: Collection[int] | None = None
    ) -> Deferred[Mapping[int, bytes | str]]:
        """Ask every other member; fires with the answers by number, or why there is none, in words. ``only``: these."""
        found: dict[int, bytes | str] = {}
        asked: Deferred[Mapping[int, bytes | str]] = Deferred()
        peers = [number for number in self._links.peers if only is None or number in only]

        def answered(number: int, answer: bytes | LinkError) -> None:
            found[number] = str(answer) if isinstance(answer, LinkError) else answer
            if len(found) == len(peers):
                asked.callback(found)

        for number in peers:
            self._links.request(number, name, body, within, partial(answered, number))
        if peers:
            self._flush_soon()
        else:
            asked.callback(found)
        return asked
