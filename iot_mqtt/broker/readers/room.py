"""A session has room: whatever reads the log for it reads on."""

from __future__ import annotations

from iot_mqtt.broker.kept_session import KeptSession
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.shared_groups import SharedGroups


def read_on(groups: SharedGroups, session: Session) -> None:
    """Let the readers that are behind read: its own, and those of its groups."""
    groups.has_room(session)
    if isinstance(session, KeptSession):
        if session.elsewhere:
            _read_in_turn(session)
        elif session.cursor is not None and not session.cursor.live:
            session.cursor.read_on()
    if session.replays:
        for replay in list(session.replays.values()):
            replay.read_on()
    for group in groups.of_member(session):
        group.read_on()


def _read_in_turn(session: KeptSession) -> None:
    """Whoever reads first may take all the room there is: another one each time."""
    behind = [cursor for cursor in session.plain_cursors() if not cursor.live]
    if len(behind) > 1:
        session.turns = (session.turns + 1) % len(behind)
        behind = behind[session.turns :] + behind[: session.turns]
    for cursor in behind:
        cursor.read_on()
