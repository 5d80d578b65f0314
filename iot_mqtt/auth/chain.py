"""Who is let in: links that are asked in turn. The first decisive answer counts, and no answer means no.

Each listener may have a chain of its own; the others share one.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, Protocol

from iot_mqtt.auth.vouched import STRANGERS, Vouching
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.addresses import source_of

#: What an ``async def`` of such a verdict returns; it is handed on as it is, for each that is awaited costs a client.
Asking = Coroutine[Any, Any, Principal | Denied]
NOBODY: Final = Denied(ReasonCode.NOT_AUTHORIZED, "nobody vouches for this client")


class Link(Protocol):
    """One way to know a client."""

    #: As the configuration has it.
    name: str
    #: Whether it counts the wrong passwords that it refuses.
    counts: bool

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        """Decide, or leave it to the next link with None."""
        ...

    def known(self, attempt: ConnectAttempt) -> str:
        """What this link knows of such a client, for the operator; nothing is verified for it."""
        ...


class Said(NamedTuple):
    """What one link says of an attempt."""

    link: str
    #: allow, deny, pass, error, or "not asked" where a link before it had decided.
    verdict: str
    detail: str
    known: str


class Chain:
    """An ``Authenticator`` made of links.

    A password that is wrong counts once for its address. The link that refuses it counts it, or this chain does, where
    one that would have counted it passed it on, and nobody lets the client in: what a later link lets in was no guess.
    """

    def __init__(
        self,
        links: Sequence[Link],
        vouching: Vouching = STRANGERS,
        guessed_wrong: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``vouching``: what holds whichever link lets a client in; ``guessed_wrong`` counts for an address."""
        self.links = tuple(links)
        self._vouching = vouching
        self._guessed_wrong = guessed_wrong

    def authenticate(self, attempt: ConnectAttempt) -> Asking:
        return self._ask(attempt, [])

    async def explain(self, attempt: ConnectAttempt) -> tuple[list[Said], Principal | Denied]:
        """What each link says, and what would become of the attempt. It costs what a login costs."""
        heard: list[Principal | Denied | None] = []
        failed: list[tuple[str, str]] = []
        try:
            decided = await self._ask(attempt, heard)
        except MqttError as error:
            decided = Denied(error.reason, error.detail)
            failed = [("error", error.detail)]
        words = chain([_words(verdict) for verdict in heard], failed, repeat(("not asked", "")))
        return [Said(link.name, *next(words), link.known(attempt)) for link in self.links], decided

    async def _ask(self, attempt: ConnectAttempt, heard: list[Principal | Denied | None]) -> Principal | Denied:
        """The first decisive answer; ``heard`` gets every answer."""
        uncounted = False
        for link in self.links:
            verdict = await link.consider(attempt)
            wrong = isinstance(verdict, Denied) and verdict.reason is ReasonCode.BAD_USER_NAME_OR_PASSWORD
            if isinstance(verdict, Principal):
                verdict = self._vouching.vouched(link.name, verdict, attempt)
            heard.append(verdict)
            if link.counts:
                uncounted = verdict is None and attempt.username is not None and bool(attempt.password)
            if verdict is not None:
                if wrong and uncounted:
                    self._guessed_wrong(source_of(attempt.peer))
                return verdict
        if uncounted:
            self._guessed_wrong(source_of(attempt.peer))
        return NOBODY


class Chains:
    """An ``Authenticator`` that asks the chain of the listener that a client came to."""

    def __init__(self, general: Chain, of_listeners: Mapping[str, Chain]) -> None:
        self._general = general
        self._of_listeners = dict(of_listeners)

    def authenticate(self, attempt: ConnectAttempt) -> Asking:
        return self.of(attempt.listener).authenticate(attempt)

    def use(self, listener: str, chain: Chain | None) -> None:
        """Ask this chain for the clients of a listener; None: the general one."""
        if chain is None:
            self._of_listeners.pop(listener, None)
        else:
            self._of_listeners[listener] = chain

    def of(self, listener: str) -> Chain:
        return self._of_listeners.get(listener, self._general)


def _words(verdict: Principal | Denied | None) -> tuple[str, str]:
    if verdict is None:
        return "pass", ""
    if isinstance(verdict, Denied):
        return "deny", verdict.detail
    return "allow", f"as user {verdict.owner!r}" if verdict.owner else "anonymously"
