"""What a codec says, one event after the other, as fast as the broker takes it.

::

    before the login    each event is handled
    until ``open``      all are kept
    from then on        Readings, WhenSafe ─▶ posting, any other behind what was posted ─▶ handled

A frame whose readings are being taken is taken to its end, and posted whole. An event that cannot be dealt with yet is
kept with all behind it, and meanwhile nothing is read from the gateway. The end that a bad frame or a fault of the
codec makes is an event, too: what came before it counts, and nothing behind it is taken (``end``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from iot_mqtt.devices.link.posting import Posting
from iot_mqtt.devices.link.wire import Wire
from iot_mqtt.sdk import Close, Event, Readings, WhenSafe


@dataclass(slots=True)
class Ended(Event):
    """Nothing of what comes behind this can be understood."""

    reason: str
    detail: str
    #: What the gateway is told; "": the reason.
    told: str = ""


#: Behind these nothing comes: what was said before them is whole.
_LAST: Final = (Close, Ended)


class Intake:
    """The events of one connection. ``handle`` does what one says that is no data, ``ping`` sends a PINGREQ."""

    __slots__ = (
        "times",
        "_wire",
        "_handle",
        "_ping",
        "_posting",
        "_held",
        "_closed",
        "_over",
        "_kept",
        "_taking",
        "_spoke",
        "_codec_full",
        "_turn_full",
        "_broker_full",
        "_when_settled",
    )

    def __init__(self, wire: Wire, handle: Callable[[Event], None], ping: Callable[[], None]) -> None:
        #: How often the codec has said something.
        self.times = 0
        self._wire = wire
        self._handle = handle
        self._ping = ping
        #: Where data goes, once the broker takes it.
        self._posting: Posting | None = None
        #: The gateway has said who it is: without a posting, events wait for it.
        self._held = False
        self._closed = self._over = False
        #: What cannot be dealt with yet.
        self._kept: deque[Event] = deque()
        self._taking = False
        #: Frames have come that the broker has not heard of.
        self._spoke = False
        self._codec_full = self._turn_full = self._broker_full = False
        self._when_settled: Callable[[], None] | None = None

    def hold(self) -> None:
        """Keep what is said from now on: the broker decides whether it lets the gateway in."""
        self._held = True

    def open(self, posting: Posting) -> None:
        """It has, and takes data."""
        self._posting = posting
        self.drain()

    def close(self) -> None:
        """Nothing is taken any more."""
        self._closed = True
        self._kept.clear()
        # They are of who has this: no cycle stays.
        self._handle = self._ping = _nothing
        self._when_settled = None
        self._posting = None

    def end(self) -> None:
        """Nothing more is read and taken; what was taken is still acknowledged."""
        self._over = True
        self._kept.clear()
        self._regulate()

    @property
    def is_settled(self) -> bool:
        """Whether all that the codec has said is taken, and acknowledged by the broker."""
        if self._kept or self._taking or self._turn_full:
            return False
        return not self._held if self._posting is None else self._posting.is_acknowledged

    def settle(self, then: Callable[[], None]) -> None:
        """``then`` is called once that is so."""
        self._when_settled = then
        self._settle()

    def _settle(self) -> None:
        then = self._when_settled
        if then is not None and self.is_settled:
            self._when_settled = None
            then()

    def frames_came(self) -> None:
        """The gateway has said something, whatever the codec makes of it."""
        self._spoke = True

    def codec_takes(self, more: bool) -> None:
        """Whether the codec takes further frames."""
        self._codec_full = not more
        self._regulate()

    def turn_takes(self, more: bool) -> None:
        """Whether the turn takes further frames; those that came wait otherwise."""
        self._turn_full = not more
        self._regulate()
        self._settle()

    def broker_takes(self, more: bool) -> None:
        """Whether the broker takes further packets."""
        self._broker_full = not more
        self.drain()

    def take(self, events: Sequence[Event]) -> None:
        """The codec has said this. It may say more in the midst of it, which comes behind it."""
        if self._over:
            return
        self.times += 1
        if self._kept or self._taking:
            self._kept.extend(events)
        else:
            self._take(events)
        self.drain()

    def drain(self) -> None:
        """Go on with what was kept, as far as the broker takes it."""
        while self._kept and not self._taking and self._takes_more():
            events, self._kept = self._kept, deque()
            self._take(events)
        # A codec in another process speaks when nobody reads.
        self._wire.flush()
        self._regulate()
        self._settle()

    def _takes_more(self) -> bool:
        posting = self._posting
        if posting is None:
            return not self._held
        return not self._broker_full and not posting.is_full

    def _take(self, events: Sequence[Event]) -> None:
        """Do what the events say; the rest is kept when the broker takes no more."""
        self._taking = True
        try:
            self._take_each(events)
        finally:
            self._taking = False

    def _take_each(self, events: Sequence[Event]) -> None:
        posting = self._posting
        published = 0 if posting is None else posting.published
        for position, event in enumerate(events):
            if self._closed or self._over:
                return
            kind = event.__class__
            if posting is not None:
                if kind is Readings:
                    if (self._broker_full or posting.is_full) and not _goes_on(posting, events, position):
                        self._keep(events, position)
                        break
                    posting.reading(event)  # type: ignore[arg-type]
                    continue
                if kind is WhenSafe:
                    posting.when_safe(event.token)  # type: ignore[attr-defined]
                    continue
                if kind in _LAST:
                    posting.end_of_frames()
                    self._post(posting, published)
                elif not _goes_on(posting, events, position):
                    posting.end_of_frames()
                    posting.flush()
            elif self._held:
                self._keep(events, position)
                break
            self._handle(event)
        if posting is not None and not self._closed:
            posting.end_of_frames()
            self._post(posting, published)

    def _post(self, posting: Posting, published: int) -> None:
        """What has gathered goes to the broker, which had so many messages before."""
        posting.flush()
        if self._closed:
            return
        if posting.published != published:
            self._spoke = False
        elif self._spoke:
            # Something came that was no message: the broker is to know.
            self._spoke = False
            self._ping()
        posting.confirm()

    def _keep(self, events: Sequence[Event], position: int) -> None:
        rest = list(events)[position:]
        self._kept.extendleft(reversed(rest))

    def _regulate(self) -> None:
        """Read from the gateway only while codec, turn and broker take what it says."""
        if not self._closed:
            full = self._codec_full or self._turn_full or self._broker_full
            self._wire.set_reading(not (full or self._kept or self._over))


def _goes_on(posting: Posting, events: Sequence[Event], position: int) -> bool:
    """Whether the next readings with a number are of the frame that is being taken."""
    if not posting.is_within_frame:
        return False
    rest = islice(events, position, None)
    numbered = (event for event in rest if isinstance(event, Readings) and event.sequence is not None)
    following = next(numbered, None)
    return following is not None and posting.goes_on_with(following)


def _nothing(*_: object) -> None:
    """Nobody is there."""
