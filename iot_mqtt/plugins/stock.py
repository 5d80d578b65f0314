"""Which codecs there are to load, and where the disk that has them crosses into the reactor.

Looking at all that is installed takes milliseconds, and copying what a vendor brought takes as long as the disk wants:
a thread does it, one thing at a time, and clients are served meanwhile. What came of it is noted in the reactor's
thread before the next thing begins: nothing is thrown away that was just found.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import Distribution
from typing import NamedTuple, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThreadPool

from iot_mqtt.plugins.finding import installed, is_editable
from iot_mqtt.plugins.place import Place
from iot_mqtt.plugins.process.bridge import Reactor
from iot_mqtt.plugins.shelf import Shelf

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What there is to load."""

    #: Name → label of what is installed, and not by us.
    site: dict[str, str]
    #: Name → label → place, of all that can be loaded.
    places: dict[str, dict[str, Place]]


class Stock:
    """What is installed, what the shelf keeps, and how one becomes the other."""

    def __init__(self, reactor: Reactor, shelf: Shelf, bundled: Mapping[str, str], version: str) -> None:
        self._reactor = reactor
        self._shelf = shelf
        self._bundled = bundled
        self._version = version
        self._turn = DeferredLock()

    async def aside(self, work: Callable[[], T], note: Callable[[T], R]) -> R:
        """Do something on a thread, and note what came of it here."""
        return await self._turn.run(lambda: self._on_thread(work).addCallback(note))

    async def keep(self, in_use: Callable[[], Collection[str]]) -> None:
        """Write what was decided, and throw away what nobody wants any more. Raises ``OSError``."""
        # Nothing is asked for before its turn: what was found meanwhile has been noted by then.
        await self._turn.run(lambda: self._on_thread(self._shelf.keeping(in_use())))

    def _on_thread(self, work: Callable[[], T]) -> Deferred[T]:
        return deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)

    # On a thread, or before anybody is served.

    def look(self) -> Found:
        """Look at what is installed and kept; a copy of what is new comes to the shelf."""
        site: dict[str, str] = {}
        loose: dict[str, Place] = {}
        for name, (place, distribution) in installed(self._bundled, self._version).items():
            label = self._take_in(place, distribution)
            if label is None:
                loose[name], label = place, place.label
            site[name] = label
        places = self._shelf.places()
        for name, place in loose.items():
            places.setdefault(name, {}).setdefault(place.label, place)
        return Found(site, places)

    def _take_in(self, place: Place, distribution: Distribution | None) -> str | None:
        """Have a copy of what is installed on the shelf; its label. None: it is used where it lies."""
        if distribution is None or place.bundled or is_editable(distribution):
            return None
        try:
            return self._shelf.copy_in(distribution)
        except OSError as error:
            log.warning("%s cannot be copied into %s: %s", place.distribution, self._shelf.folder, error)
            return None
