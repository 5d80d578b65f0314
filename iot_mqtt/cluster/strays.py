"""Clients that may be at home here by their records, and that nobody has in memory.

::

    another node asked for one, this one let go of it   the other died, gave up, or never heard the answer
    a claim whose answer was lost                       the record may be ours, or not
    a session that could not be read when it was ours   its client was told to come again, and may not

What such a client has subscribed to is recorded for half a minute more (``broker.cluster.interest``), and nobody sees
that its time is over. So this node looks at the record a while later, and if that is still its own, takes the client
back: with a new record, so that whoever is about to take the old one finds it changed, and asks. While that cannot be
done it wants everything.
"""

from __future__ import annotations

import logging
from itertools import islice, takewhile

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.cluster.channels import Channels
from iot_mqtt.cluster.loading import Loading
from iot_mqtt.cluster.settings import ClusterSettings
from iot_mqtt.errors import Unavailable
from iot_mqtt.ports.clock import Clock, Timer
from iot_mqtt.ports.grid import Pair

log = logging.getLogger(__name__)


class Strays:
    """Of one life."""

    def __init__(self, channels: Channels, loading: Loading, clock: Clock, settings: ClusterSettings) -> None:
        self._channels = channels
        self._loading = loading
        self._clock = clock
        self._settings = settings
        #: Client → when it is looked at; earliest first.
        self._due: dict[str, float] = {}
        self._timer: Timer | None = None
        self._stopped = False

    def stop(self) -> None:
        """The life is over."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def add(self, client_id: str) -> None:
        """It may be one."""
        self._due.pop(client_id, None)
        self._due[client_id] = self._clock.monotonic() + self._settings.stray_after
        self._look_later()

    def discard(self, client_id: str) -> None:
        """It is none: the broker is about to have it, and says so if it cannot."""
        self._due.pop(client_id, None)

    def _look_later(self, *, at_once: bool = False) -> None:
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(0.0 if at_once else self._settings.stray_look, self._look)

    def _look(self) -> None:
        now = self._clock.monotonic()
        due = takewhile(lambda entry: entry[1] <= now, self._due.items())
        looking = Deferred.fromCoroutine(self._look_at(dict(islice(due, self._settings.swaps_at_once))))
        looking.addErrback(self._failed)
        looking.addBoth(self._looked)

    def _looked(self, count: int | None) -> None:
        self._timer = None
        if self._due:
            # A crowd has moved: what it wants is forgotten elsewhere, however many they are.
            self._look_later(at_once=bool(count))

    def _failed(self, failure: Failure) -> None:
        """What was looked at is still there."""
        self._loading.unread(self, some=True)
        if failure.check(Unavailable):
            log.warning("clients that nobody may have cannot be looked for now: %s", failure.value)
        else:
            log.error("clients that nobody may have cannot be looked for", exc_info=failure.value)

    async def _look_at(self, due: dict[str, float]) -> int:
        ours = await self._channels.ours([client_id for client_id in due if client_id not in self._loading])
        if ours and not self._stopped:
            await self._take_back(ours)
        for client_id, at in due.items():
            if self._due.get(client_id) == at:
                del self._due[client_id]
        self._loading.unread(self, some=False)
        return len(due)

    async def _take_back(self, ours: list[Pair]) -> None:
        portion = await self._channels.take_some(ours, self._loading.begin)
        self._loading.end([*portion.lost, *portion.failed])
        if portion.taken:
            log.warning("nobody has taken what was let go of: it is here again", extra={"clients": portion.taken[:10]})
            await self._loading.load(portion.taken)
        if portion.failed:
            raise next(iter(portion.failed.values()))
