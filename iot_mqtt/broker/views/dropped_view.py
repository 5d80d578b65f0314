"""The facade for the admin side, about what did not arrive: dropped messages, refused publishes and requests, refused
clients. It reads what is remembered anyway (``ports.recent``, ``sessions.attempts``).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice

from iot_mqtt.broker.facade import AttemptInfo, DroppedInfo, DroppedWanted
from iot_mqtt.broker.sessions.attempts import Attempts
from iot_mqtt.broker.views.paging import pieces
from iot_mqtt.ports.counters import Drop
from iot_mqtt.ports.log import Breath
from iot_mqtt.ports.recent import Recent, Trouble

#: Entries that one question looks at.
MOST = 20_000
#: And between two turns of others; each is put in its place among the others.
PIECE = 40
_DROPS = frozenset(Drop)
_DENIED = "denied_"


class DroppedView:
    """Of one node."""

    def __init__(self, recent: Recent, attempts: Attempts, breathe: Breath) -> None:
        self._recent = recent
        self._breathe = breathe
        self._attempts = attempts

    async def dropped(self, wanted: DroppedWanted, limit: int) -> list[DroppedInfo]:
        """The last ones, the newest first."""
        troubles = (_of_trouble(client_id, one) for client_id, one in self._recent.latest())
        refused = map(_of_attempt, self._attempts.refusals())
        every: Iterator[DroppedInfo] = merge(troubles, refused, key=lambda one: -one.last)
        found: list[DroppedInfo] = []
        async for piece in pieces(islice(every, MOST), self._breathe, PIECE):
            found += (one for one in piece if _fits(one, wanted))
            if len(found) >= limit:
                break
        return found[:limit]


def _of_trouble(client_id: str, one: Trouble) -> DroppedInfo:
    kind = "dropped" if one.code in _DROPS else "denied" if one.code.startswith(_DENIED) else "refused"
    return DroppedInfo(
        kind=kind,
        code=one.code.removeprefix(_DENIED),
        client_id=client_id,
        publisher=one.publisher,
        topic=one.topic,
        count=one.count,
        first=one.first,
        last=one.last,
        detail=one.detail,
        user=None,
        peer="",
    )


def _of_attempt(one: AttemptInfo) -> DroppedInfo:
    # What came from an address that said nothing of itself is kept under no client id that there can be.
    client_id = "" if one.kind == "unnamed" else one.client_id
    return DroppedInfo(
        "connect", one.reason, client_id, "", "", 1, one.at, one.at, one.text, one.username, one.peer, one.claimed_user
    )


def _fits(one: DroppedInfo, wanted: DroppedWanted) -> bool:
    return (
        (wanted.kind is None or one.kind == wanted.kind)
        and (wanted.reason is None or one.code == wanted.reason)
        and all(
            part is None or part.casefold() in text.casefold()
            for part, text in (
                (wanted.topic, one.topic),
                (wanted.client, one.client_id),
                (wanted.publisher, one.publisher),
            )
        )
    )
