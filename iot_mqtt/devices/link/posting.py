"""What a gateway posts: readings become runs of messages, each once, and what is safe is known.

::

    Readings ─▶ seen before? ─▶ message ─▶ run of one device ─▶ batch of whole frames ─▶ broker ─▶ PUBACK ─▶ safe
                     │                                                     │
                dropped, counted                          served: the number of the last is "taken"

The broker serves a batch whole, at once or later, and says so in the turn in which it does: a frame's messages and its
number are in one commit. It acknowledges in order, so that counting tells what is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from iot_mqtt.codec import AckRun, PublishRun, RunBatch, run_of
from iot_mqtt.devices.link.counters import LinkCounters
from iot_mqtt.devices.link.messages import Composer, Device
from iot_mqtt.devices.link.repetitions import Repetitions
from iot_mqtt.devices.link.services import KnownDevices
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.devices import NO_SEQUENCE
from iot_mqtt.sdk import Readings

#: Packet ids; as many messages can be unacknowledged at most.
_IDS: Final = 65_535


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the broker allows."""

    #: Messages that it has not acknowledged.
    unacknowledged: int
    #: Bytes of a message.
    largest: int


class Posting:
    """Of one connection whose gateway was let in. ``safe``: the greatest number that was safe before it."""

    __slots__ = (
        "is_within_frame",
        "published",
        "_acknowledged",
        "_gateway",
        "_composer",
        "_devices",
        "_counters",
        "_repetitions",
        "_bounds",
        "_now",
        "_publish",
        "_on_safe",
        "_device",
        "_messages",
        "_runs",
        "_latest",
        "_tokens",
        "_sequence",
        "_again",
        "_whole",
        "_handed",
        "_marks",
        "_safe",
    )

    def __init__(
        self,
        gateway: str,
        composer: Composer,
        devices: KnownDevices,
        counters: LinkCounters,
        repetitions: Repetitions,
        bounds: Bounds,
        safe: int,
        now: Callable[[], int],
        publish: Callable[[list[Any]], None],
        on_safe: Callable[[int], None],
    ) -> None:
        self._gateway = gateway
        self._composer = composer
        self._devices = devices
        self._counters = counters
        self._repetitions = repetitions
        self._bounds = bounds
        self._now = now
        self._publish = publish
        self._on_safe = on_safe
        #: Messages that were given to the broker or leave with the next ``flush``, and how many it has acknowledged.
        self.published = self._acknowledged = 0
        #: The messages that gather to a run, and the readings behind the last of them.
        self._device: Device | None = None
        self._messages: list[bytes] = []
        #: Those before it, which leave together.
        self._runs: list[PublishRun] = []
        self._latest: Readings | None = None
        #: What the codec asked to be told, and the messages that stand before it.
        self._tokens: deque[tuple[int, int]] = deque()
        #: The number of the frame whose readings come now, and whether it has come before.
        self._sequence: int | None = None
        self._again = False
        #: More readings of that frame may come.
        self.is_within_frame = False
        #: The last frame all of whose readings have come; None: none since the last batch.
        self._whole: int | None = None
        #: The greatest number that came on this connection.
        self._handed = NO_SEQUENCE
        #: What the registry was told is taken, and the messages that stand before that; and what of it is safe.
        self._marks: deque[tuple[int, int]] = deque()
        self._safe = safe

    @property
    def is_full(self) -> bool:
        """The broker has to acknowledge something first."""
        return len(self._messages) + self.published - self._acknowledged >= self._bounds.unacknowledged

    @property
    def is_acknowledged(self) -> bool:
        """Whether the broker has acknowledged all that was published."""
        return not self._messages and self.published == self._acknowledged

    def goes_on_with(self, readings: Readings) -> bool:
        """Whether these are of the frame that is being taken."""
        return self.is_within_frame and readings.sequence == self._sequence

    def reading(self, readings: Readings) -> None:
        """The next readings. They are published with the next ``flush``."""
        sequence = readings.sequence
        if sequence is not None and not self.goes_on_with(readings):
            self.end_of_frames()
            self._sequence = sequence
            self._again = not self._devices.is_fresh(self._gateway, sequence, self._handed)
            self._handed = max(self._handed, sequence)
            self.is_within_frame = True
        counters = self._counters
        counters.readings += 1
        if sequence is not None and self._again:
            counters.duplicates += 1
            self._repetitions.came(self._gateway, readings.device, sequence, max(self._handed, self._safe))
            return
        device = self._composer.device(readings.device)
        if device is None:
            counters.dropped["bad_name"] += 1
            return
        try:
            message = self._composer.compose(device, readings, self._now())
        except (TypeError, ValueError):
            counters.dropped["bad_value"] += 1
            return
        if len(message) > self._bounds.largest:
            counters.dropped["too_large"] += 1
            return
        if device is not self._device:
            self._end_run()
            self._device = device
        self._messages.append(message)
        self._latest = readings

    def end_of_frames(self) -> None:
        """The frame whose readings came last has no more of them."""
        if self.is_within_frame:
            self.is_within_frame = False
            if self._sequence is not None and not self._again:
                self._whole = self._sequence

    def flush(self) -> None:
        """Publish what has gathered; not in the middle of a frame."""
        self._end_run()
        whole, self._whole = self._whole, None
        if self._runs:
            runs, self._runs = self._runs, []
            self._publish([RunBatch(runs, partial(self._served, self.published, whole))])
        else:
            self._served(self.published, whole)

    def _served(self, published: int, whole: int | None) -> None:
        """So many messages were published, this turn: all of the frames up to this one; None: none has ended."""
        if whole is not None:
            self._devices.taken(self._gateway, whole)
            self._marks.append((published, whole))

    def _end_run(self) -> None:
        """The next message is of another device."""
        messages = self._messages
        if not messages:
            return
        assert self._device is not None and self._latest is not None
        self._messages = []
        device, latest, count = self._device, self._latest, len(messages)
        first = self.published % _IDS
        if first + count <= _IDS:
            ids = list(range(first + 1, first + count + 1))
        else:
            ids = [(first + more) % _IDS + 1 for more in range(count)]
        self.published += count
        self._repetitions.ended(self._gateway, device.name)
        self._devices.seen(self._gateway, device.name, readings=count)
        self._devices.values(self._gateway, device.name, latest.values, latest.time or self._now())
        self._runs.append(run_of(device.topic, messages, ids))

    # What is safe.

    def when_safe(self, token: int) -> None:
        """The codec wants to know when everything until here is."""
        self._tokens.append((token, self.published + len(self._messages)))

    def acknowledged(self, run: AckRun) -> str | None:
        """PUBACKs came. The reason if they say no: what they are of is not safe, and is to be sent again."""
        if run.reason >= ReasonCode.UNSPECIFIED_ERROR:
            reason = run.reason.name.lower()
            self._counters.dropped[reason] += len(run.ids)
            self._devices.not_taken(self._gateway, self._safe)
            return reason
        self._acknowledged += len(run.ids)
        while self._marks and self._marks[0][0] <= self._acknowledged:
            self._safe = self._marks.popleft()[1]
        return None

    def confirm(self) -> None:
        """Tell the codec the last token before which everything is safe, if there is another one than before."""
        tokens, last = self._tokens, None
        while tokens and tokens[0][1] <= self._acknowledged:
            last = tokens.popleft()[0]
            self._counters.confirmed += 1
        if last is not None:
            self._on_safe(last)
