"""One call that changes something as a record of the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.audit_chain import Record
from iot_mqtt.admin.audit_files import Room
from iot_mqtt.admin.call import Body
from iot_mqtt.admin.callers import OF_USERS, Caller, Kind
from iot_mqtt.secrecy import MASK, masked

#: Characters of a path and of a body; of a refused call they only have to say what was tried.
_LONGEST, _LONGEST_REFUSED = 1000, 200
#: What is too long, or not for everybody's eyes, though its name is no secret's.
_HIDDEN = frozenset(("payload", "payload_base64", "hash", "data", "values"))


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody asks for, who has been let in."""

    caller: Caller
    address: str
    method: str
    path: str
    body: Body
    #: What such a body may have, at any depth.
    names: frozenset[str]
    #: It is about whoever asks: his login, his password.
    own: bool = False


class Auditor:
    """Writes changes down, with the node's name and the time."""

    def __init__(self, log: AuditLog, node: str, now: Callable[[], float]) -> None:
        self._log = log
        self._node = node
        self._now = now

    async def check(self) -> None:
        """Raise ``Unavailable`` where a change could not be written down."""
        await self._log.check()

    async def write(self, change: Change, status: int) -> None:
        """It was answered with this status. Raises ``Unavailable``."""
        by, role = change.caller, change.caller.role.word
        refused = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
        longest = _LONGEST_REFUSED if refused else _LONGEST
        body = shown(change.body, change.names if refused else None)[:longest]
        place = change.address, change.method, change.path[:longest]
        room = Room.ACCESS if refused else _room_of(change)
        await self.note(by.name, role, *place, status, body, room=room, kind=by.kind, token=by.token)

    async def note(
        self,
        who: str,
        role: str,
        address: str,
        method: str,
        path: str,
        status: int,
        body: str = "",
        *,
        room: Room = Room.ACCESS,
        kind: Kind = "user",
        token: str = "",
    ) -> None:
        """The same about a user who logs in, or is not let in. Raises ``Unavailable``."""
        record: Record = {
            "time": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds"),
            "node": self._node,
            "who": who,
            "kind": kind,
            "token": token,
            "role": role,
            "address": address,
            "method": method,
            "path": path,
            "status": status,
            "body": body,
        }
        await self._log.write(room, record)


def _room_of(change: Change) -> Room:
    """Where a call is written that was not refused: nobody who only looks can write among changes, and no program that
    sends messages does.
    """
    if change.own:
        return Room.ACCESS
    return Room.MESSAGES if change.path.partition("/")[0] in OF_USERS else Room.CHANGES


def shown(body: Body, names: frozenset[str] | None = None) -> str:
    """A body as it may be written down. ``names``: those under which there may be values, because nobody has understood
    it: a name that is misspelled may be a secret's. None: it was taken.
    """
    if body.wrong:
        return f"{body.size} bytes: {body.wrong}"
    if not body.size:
        return ""
    taken = names is None or isinstance(body.value, Mapping)
    return json.dumps(_without(masked("", body.value), names) if taken else MASK, ensure_ascii=False)


def _without(value: object, names: frozenset[str] | None) -> object:
    if isinstance(value, Mapping):
        return {name: _without(inner, names) if _open(name, names) else MASK for name, inner in value.items()}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def _open(name: str, names: frozenset[str] | None) -> bool:
    return name not in _HIDDEN and (names is None or name in names)
