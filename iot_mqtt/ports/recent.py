"""The last things that went wrong for each client: what was dropped, denied or granted less, with its topic.

For whoever asks "why does it not get its message?" Counters say how many and why; this says of which topics, and since
when. It costs nothing where nothing goes wrong. The memory is bounded: some kinds of trouble for each client, and some
clients; who had trouble last is remembered. Payloads never come here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

__all__ = ["Recent", "Trouble"]

#: Clients that are remembered, kinds of trouble of each, and characters of a topic or a client id.
CLIENTS = 10_000
EACH = 8
LONGEST = 256


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of trouble that a client had, with one topic."""

    #: A reason from ``Drop``, "denied_" and what was asked for, or "refused_subscription", "refused_retained",
    #: "refused_disk_full", "unretained_disk_full", "lowered_qos", "limited", "repeated_readings".
    code: str
    #: A topic or a filter; empty where there is none.
    topic: str
    #: How often, since the first one that is remembered.
    count: int
    #: Wall-clock seconds.
    first: float
    last: float
    #: What else there is to say.
    detail: str
    #: Of the last message; empty where that is not known.
    publisher: str = ""


class Recent:
    """What is remembered, by client id."""

    __slots__ = ("_clients", "_wall")

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        #: Client id → (code, topic) → count, first, last, detail, publisher. Who had trouble last stands last, in both.
        self._clients: OrderedDict[str, dict[tuple[str, str], tuple[int, float, float, str, str]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def note(
        self,
        client_id: str,
        code: str,
        topic: bytes | str = "",
        count: int = 1,
        detail: str = "",
        publisher: str = "",
        *,
        weak: bool = False,
    ) -> None:
        """Something went wrong. ``weak``: it is so common that it pushes out nobody else's."""
        clients = self._clients
        client_id = client_id[:LONGEST]
        known = clients.get(client_id)
        if known is not None:
            clients.move_to_end(client_id)
        else:
            if len(clients) >= CLIENTS:
                if weak:
                    return
                clients.popitem(last=False)
            known = clients[client_id] = {}
        text = topic if isinstance(topic, str) else topic[: LONGEST * 4].decode("utf-8", "replace")
        key = code, text[:LONGEST]
        now = self._wall()
        before = known.pop(key, None)
        if before is None:
            if len(known) >= EACH:
                del known[next(iter(known))]
            known[key] = count, now, now, detail[:LONGEST], publisher[:LONGEST]
        else:
            known[key] = before[0] + count, before[1], now, detail[:LONGEST], publisher[:LONGEST]

    def about(self, concerns: Callable[[str, str], bool], most: int) -> list[tuple[str, Trouble]]:
        """Client ids and what they had of certain trouble, by its code and topic; who had any last comes first."""
        found: list[tuple[str, Trouble]] = []
        for client_id, known in reversed(self._clients.items()):
            for (code, topic), rest in reversed(known.items()):
                if concerns(code, topic):
                    found.append((client_id, Trouble(code, topic, *rest)))
                    if len(found) >= most:
                        return found
        return found

    def latest(self) -> Iterator[tuple[str, Trouble]]:
        """All there is, with client ids, the last first. What is noted meanwhile may come too late."""
        ahead: list[_Left] = []
        for number, client_id in enumerate(list(reversed(self._clients))):
            troubles = self.of(client_id)[::-1]
            if not troubles:
                continue
            # What is ahead cannot be older than a client that had its last trouble before.
            while ahead and -ahead[0][0] >= troubles[-1].last:
                yield _next_of(ahead)
            heappush(ahead, (-troubles[-1].last, number, client_id, troubles))
        while ahead:
            yield _next_of(ahead)

    def of(self, client_id: str) -> list[Trouble]:
        """Of one client, the last first."""
        known = self._clients.get(client_id[:LONGEST], {})
        return [Trouble(code, topic, *rest) for (code, topic), rest in reversed(known.items())]


#: In a heap: when a client had its last trouble (negative), its place, its id, and its troubles, the last at the end.
_Left = tuple[float, int, str, list[Trouble]]


def _next_of(ahead: list[_Left]) -> tuple[str, Trouble]:
    """The last of all that is left, which is taken out."""
    _, number, client_id, troubles = heappop(ahead)
    found = troubles.pop()
    if troubles:
        heappush(ahead, (-troubles[-1].last, number, client_id, troubles))
    return client_id, found
