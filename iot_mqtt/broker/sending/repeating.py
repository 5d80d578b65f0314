"""After a crash: QoS 1 messages that had left, and of which nothing had been written (``readers.progress``).

They are in the log behind the session's stored position, and are read and sent once more, with DUP. So are messages
that had not left: which of them had, nobody knows.

Their packet ids follow from the order of the log: the record has the last id that was given out when it was written,
and from there on they are given out again as they were [MQTT-4.4.0-1]. Where that order is lost, all ids that may have
been used are stepped over: a client that confirms late what came over its last connection must not confirm another
message by that. It is lost where ids may have gone to others in between, because the session reads several logs or is a
member of a group, and when something else gets an id before all of these have theirs.
"""

from __future__ import annotations

from collections.abc import Iterable

from iot_mqtt.broker.claims import IDS_AHEAD
from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.topics import parse_shared


def begin(session: KeptSession) -> None:
    """A session was loaded, with all that was written of it."""
    if session.last_id_kept is None:
        return
    session.outbound.last = session.last_id_kept
    if session.elsewhere or session.unfollowed or any(map(parse_shared, session.subscriptions)):
        out_of_order(session)


def is_in_doubt(session: KeptSession) -> bool:
    """Whether it still has messages to read that an earlier life of the node may have sent."""
    return any(
        cursor.doubt is not None and not cursor.live and cursor.doubt.covers(cursor.position)
        for cursor in session.plain_cursors()
    )


def freed(session: KeptSession, ids: Iterable[int]) -> None:
    """The client gives ids back. An earlier life stepped over those that were in use, so they are stepped over still:
    else the ids behind them would be others than they were.
    """
    if session.cursor is not None and session.cursor.doubt is not None:
        session.outbound.hold(ids, IDS_AHEAD)


def out_of_order(session: Session, cursor: object = None) -> None:
    """A session in doubt has, or gets, an id for something else than the next message of its log: from here on none is
    given out again that may have been used. ``cursor``: whose message it is, if it comes from a log.
    """
    own = session.cursor if isinstance(session, KeptSession) else None
    doubt = own.doubt if own is not None and own is not cursor else None
    if doubt is not None and doubt.in_order:
        doubt.in_order = False
        session.outbound.skip(IDS_AHEAD)
