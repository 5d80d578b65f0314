"""After a crash: QoS 1 messages that had left, and of which nothing had been written (``broker.progress``).

They are in the log behind the session's stored position, and are read and sent once more, with DUP. So are messages
that had not left: which of them had, nobody knows.

Their packet ids follow from the order of the log: the record has the last id that was given out when it was written,
and from there on they are given out again as they were [MQTT-4.4.0-1]. Where ids may have gone to others in between,
because the session reads several logs or is a member of a group, all that may have been used are stepped over: a
client that confirms late what came over its last connection must not confirm another message by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iot_mqtt.session.outbound import MAX_PACKET_ID
from iot_mqtt.topics import parse_shared

if TYPE_CHECKING:
    from iot_mqtt.broker.session import Session

#: Packet ids that a session may use before its record is written again.
IDS_AHEAD = 8192


class Doubt:
    """Up to where one cursor finds messages that may have been sent."""

    __slots__ = ("end", "left", "in_order")

    def __init__(self, end: int) -> None:
        self.end = end
        #: How many at most; there was an id for each.
        self.left = IDS_AHEAD
        #: None of them is missing.
        self.in_order = True

    def covers(self, position: int) -> bool:
        """Whether a message that is read now may have been sent."""
        return position < self.end and self.left > 0

    def taken(self, count: int) -> None:
        """So many are sent once more."""
        self.left -= count


def begin(session: Session, last_id: int | None) -> None:
    """A session was loaded, with all that was written of it."""
    if last_id is None:
        return
    session.last_id_kept = session.outbound.last = last_id
    alone = not session.elsewhere and not session.unfollowed
    if not alone or any(parse_shared(filter) is not None for filter in session.subscriptions):
        step_over(session)


def step_over(session: Session) -> None:
    """Give out no id again that may have been used."""
    outbound = session.outbound
    outbound.last = (outbound.last + IDS_AHEAD - 1) % MAX_PACKET_ID + 1


def missing(session: Session, doubt: Doubt) -> None:
    """A message that may have been sent is not sent again: from here on ids do not follow from the order."""
    if doubt.in_order:
        doubt.in_order = False
        step_over(session)
