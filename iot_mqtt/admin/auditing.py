"""One call that changes something as a record of the audit log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from urllib.parse import parse_qsl

from iot_mqtt.admin.audit import AuditLog
from iot_mqtt.admin.audit_chain import Record
from iot_mqtt.admin.audit_files import Room
from iot_mqtt.admin.call import Body
from iot_mqtt.admin.callers import OF_USERS, Caller, Kind
from iot_mqtt.admin.paths import readable_query
from iot_mqtt.admin.schemas import AUDITED, Json, audited_of
from iot_mqtt.secrecy import MASK, masked

#: Characters of a path and of a body; of a refused call they only have to say what was tried.
_LONGEST, _LONGEST_REFUSED = 1000, 200
_NUMBERS = frozenset(("integer", "number"))


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody asks for, who has been let in."""

    caller: Caller
    address: str
    method: str
    #: With its query.
    path: str
    body: Body
    #: Of such a body: it says what of it may be written down.
    schema: Json
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
        body = shown(change.body, change.schema, understood=not refused)[:longest]
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
    return Room.MESSAGES if re.split("[/?]", change.path, maxsplit=1)[0] in OF_USERS else Room.CHANGES


def shown_path(path: str, query: bytes, known: Collection[str]) -> str:
    """A path with its query, before anybody has looked whether the query is right: a parameter that nobody knows may
    have a secret.
    """
    pairs = parse_qsl(query.decode("ascii", "replace"), keep_blank_values=True)
    said = readable_query((name, value if name in known else MASK) for name, value in pairs)
    return f"{path}?{said}" if said else path


def shown(body: Body, schema: Json, *, understood: bool = True) -> str:
    """A body as it may be written down: what its schema says is harmless. If it was refused nobody has understood it,
    and a name of somebody's own that is misspelled may be a secret's.
    """
    if body.wrong:
        return f"{body.size} bytes: {body.wrong}"
    if not body.size:
        return ""
    value = masked("", body.value)
    told = _harmless(value, {"properties": {}} | schema, understood) if isinstance(value, Mapping) else MASK
    return json.dumps(told, ensure_ascii=False)


def _harmless(value: object, schema: Json, understood: bool) -> object:
    """The value, with a mask over what the schema does not say may be written down."""
    if value is None or isinstance(value, bool):
        return value
    audited = schema.get(AUDITED, False)
    if isinstance(value, Mapping):
        if (known := schema.get("properties")) is not None:
            return {name: _harmless(inner, known.get(name, {}), understood) for name, inner in value.items()}
        if not audited:
            return MASK
        return value if understood else dict.fromkeys(value, MASK)
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_harmless(one, audited_of(items) if audited else items, understood) for one in value]
    plain = isinstance(value, int | float) and not _NUMBERS.isdisjoint(_types(schema))
    return value if audited or plain or value in schema.get("enum", ()) else MASK


def _types(schema: Json) -> Sequence[str]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else kind
