"""Who is let in: links that are asked in turn. The first decisive answer counts, and no answer means no.

Each listener may have a chain of its own; the others share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from iot_mqtt.auth.vouched import STRANGERS, Vouching
from iot_mqtt.errors import MqttError, ReasonCode
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal


class Link(Protocol):
    """One way to know a client."""

    #: As the configuration has it.
    name: str

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
    """An ``Authenticator`` made of links."""

    def __init__(self, links: Sequence[Link], vouching: Vouching = STRANGERS) -> None:
        """``vouching``: what holds whichever link lets a client in."""
        self.links = tuple(links)
        self._vouching = vouching

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        for link in self.links:
            verdict = await self._consider(link, attempt)
            if verdict is not None:
                return verdict
        return Denied(ReasonCode.NOT_AUTHORIZED, "nobody vouches for this client")

    async def explain(self, attempt: ConnectAttempt) -> tuple[list[Said], Principal | Denied]:
        """What each link says, and what would become of the attempt. It costs what a login costs."""
        said: list[Said] = []
        decided: Principal | Denied | None = None
        for link in self.links:
            known = link.known(attempt)
            if decided is not None:
                said.append(Said(link.name, "not asked", "", known))
                continue
            try:
                verdict = await self._consider(link, attempt)
            except MqttError as error:
                said.append(Said(link.name, "error", error.detail, known))
                decided = Denied(error.reason, error.detail)
                continue
            said.append(Said(link.name, *_words(verdict), known))
            decided = verdict
        if decided is None:
            decided = Denied(ReasonCode.NOT_AUTHORIZED, "nobody vouches for this client")
        return said, decided

    async def _consider(self, link: Link, attempt: ConnectAttempt) -> Principal | Denied | None:
        verdict = await link.consider(attempt)
        if not isinstance(verdict, Principal):
            return verdict
        return self._vouching.vouched(link.name, verdict, attempt)


class Chains:
    """An ``Authenticator`` that asks the chain of the listener that a client came to."""

    def __init__(self, general: Chain, of_listeners: Mapping[str, Chain]) -> None:
        self._general = general
        self._of_listeners = dict(of_listeners)

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return await self.of(attempt.listener).authenticate(attempt)

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
