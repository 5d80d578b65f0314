"""Where a client is sent that this node will not serve: MQTT 5's Server Reference.

It names the member of the cluster with the fewest clients, by the listener of the same name as the one that the client
came by. Members say every few seconds how many clients they have; what was sent to one meanwhile is added, so that a
thousand clients do not all go to the node that was the emptiest a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.registry import Member

#: Listener name → "host:port", or an empty text when nothing can be named.
References = Callable[[str], str]

#: A member that is busier than this is named only if there is no other.
BUSY = 0.95
#: Who has not arrived after so many seconds went elsewhere.
ARRIVES_WITHIN = 10.0

#: What a listener is bound to when it takes connections on every address: no client can be told that.
_ANYWHERE = ("0.0.0.0:", "[::]:", ":")


class LeastLoaded:
    """``References`` over the list of members."""

    __slots__ = ("_members", "_own", "_clock", "_fallback", "_sent")

    def __init__(self, members: Callable[[], Iterable[Member]], own: int, clock: Clock, fallback: str = "") -> None:
        """``own``: the number of this node; ``fallback``: what is said when no member can be named."""
        self._members = members
        self._own = own
        self._clock = clock
        self._fallback = fallback
        # Number → clients and time when the first was sent there, and how many have been since.
        self._sent: dict[int, tuple[int, float, int]] = {}

    def __call__(self, listener: str) -> str:
        best: tuple[bool, int, int] | None = None
        chosen: tuple[Member, str] | None = None
        for member in self._members():
            address = (member.addresses or {}).get(listener, "")
            if member.number == self._own or member.draining or not address or address.startswith(_ANYWHERE):
                continue
            rank = (member.load > BUSY, self.clients_of(member), member.number)
            if best is None or rank < best:
                best, chosen = rank, (member, address)
        if chosen is None:
            return self._fallback
        self._note(chosen[0])
        return chosen[1]

    def clients_of(self, member: Member, counted: int | None = None) -> int:
        """How many clients another node has, with those that are on their way to it. ``counted``: what it says now."""
        clients, since, sent = self._sent.get(member.number, (0, 0.0, 0))
        fresh = clients == member.clients and self._clock.monotonic() - since < ARRIVES_WITHIN
        has = member.clients if counted is None else counted
        arrived = max(0, has - member.clients)
        return has + (max(0, sent - arrived) if fresh else 0)

    def _note(self, member: Member) -> None:
        on_their_way = self.clients_of(member) - member.clients
        since = self._sent[member.number][1] if on_their_way else self._clock.monotonic()
        self._sent[member.number] = (member.clients, since, on_their_way + 1)
