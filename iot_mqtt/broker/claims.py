"""What a kept session claims of one log for its plain subscriptions: from where on, and until where.

Who reads for these claims, and how, is not known here (``readers.cursors``).
"""

from __future__ import annotations

from collections.abc import Sequence

from iot_mqtt.broker.log_cursor import LogCursor, ReadingNode
from iot_mqtt.broker.publication import Publication
from iot_mqtt.ports.log import LogReader, LogRun
from iot_mqtt.ports.store import StoredCount, StoredPast
from iot_mqtt.values import Subscription

#: Ended or replaced subscriptions that a session may still be owed messages for.
MAX_PAST = 100
#: Packet ids that a session may use before its record is written again.
IDS_AHEAD = 8192


class Doubt:
    """Up to where one reader finds messages that may have been sent (``sending.repeating``)."""

    __slots__ = ("end", "left", "in_order")

    def __init__(self, end: int) -> None:
        self.end = end
        #: How many at most; there was an id for each.
        self.left = IDS_AHEAD
        #: Their ids are those that they had.
        self.in_order = True

    def covers(self, position: int) -> bool:
        """Whether a message that is read now may have been sent."""
        return position < self.end and self.left > 0

    def taken(self, count: int) -> None:
        """So many are sent once more."""
        self.left -= count


class Unfollowed:
    """What a session is owed of a log that nobody here reads: written back as it was found."""

    __slots__ = ("position", "past", "since")

    def __init__(self, position: int = 0, past: tuple[StoredPast, ...] = ()) -> None:
        self.position = position
        self.past = past
        #: Filter → where its claim begins.
        self.since: dict[str, int] = {}


class ClaimCursor(LogCursor):
    """The reader of one log for the plain subscriptions of a session."""

    __slots__ = ("since", "past", "doubt", "until")

    def __init__(self, node: ReadingNode, log: LogReader, position: int, *, live: bool) -> None:
        super().__init__(node, log, position, live=live)
        #: Filter → where its claim on the log begins.
        self.since: dict[str, int] = {}
        self.past: list[StoredPast] | None = None
        self.doubt: Doubt | None = None
        #: Of another node's log: it is not live before here, where its newest claim begins, or what was counted ends.
        self.until = 0

    def filters(self) -> list[str]:
        names = list(self.since)
        if self.past:
            names.extend({past.subscription.filter for past in self.past} - self.since.keys())
        return names

    def may_have_more(self) -> None:
        """Something may be there that nobody has told it of: it has to look before others go on."""

    def subscribed(self, filter: str, end: int, replaced: Subscription | None) -> None:
        """A plain filter is wanted from the end of the log on, with new options perhaps."""
        if replaced is not None:
            self._keep_past(replaced, end)
        self.since[filter] = end
        self.version += 1

    def unsubscribed(self, subscription: Subscription, end: int) -> None:
        """A plain filter is wanted no more; what is owed for it stays owed [MQTT-3.10.4-3]."""
        self._keep_past(subscription, end)
        self.since.pop(subscription.filter, None)
        self.version += 1

    def _keep_past(self, subscription: Subscription, end: int) -> None:
        since = self.since.get(subscription.filter, end)
        if not self.live and max(since, self.position) < end:
            if self.past is None:
                self.past = []
            self.past.append(StoredPast(subscription, since, end))

    def take_over(self, counted: StoredCount | None) -> None:
        """Who had the session before has said what he had counted of this log; None: he did not know it."""
        self.told = counted is None or counted.told
        if counted is not None:
            # What the link has still to bring from before that end was counted, and is not counted a second time.
            self.until = max(self.until, counted.end)
            self.owe(counted.messages)
            self.node.counters.messages_restored += counted.messages
            self.node.counters.messages_taken_over += counted.messages

    @property
    def crowded(self) -> bool:
        """Whether no further subscription may begin, which could end in its turn, before it has caught up."""
        return self.past is not None and len(self.past) >= MAX_PAST

    # Of another node's log.

    def hold(self) -> None:
        """A claim is about to be made: what comes now may have been published before it."""
        if self.live:
            self.fall_behind(self.front, 0)

    def begin(self, filter: str, position: int) -> None:
        """A new filter claims what is appended from a position on."""
        self.subscribed(filter, position, None)
        self.until = max(self.until, position)

    # Messages.

    def offer(
        self, publication: Publication, logged: LogRun, qos: int, retain: bool, identifiers: tuple[int, ...]
    ) -> None:
        """A message that it wants was published."""
        raise NotImplementedError

    def offer_row(self, publications: Sequence[Publication], identifiers: tuple[int, ...]) -> None:
        """The same with several of QoS 1, which are in its log."""
        raise NotImplementedError
