"""One change through the API as a record of the audit log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from iot_mqtt.admin.audit import AuditLog, Record
from iot_mqtt.admin.call import Body
from iot_mqtt.admin.callers import Caller
from iot_mqtt.secrecy import MASK, masked

#: Characters of a body.
_BODY = 1000
#: What is too long, or not for everybody's eyes, though its name is no secret's.
_HIDDEN = frozenset(("payload", "payload_base64", "hash", "data", "values"))


@dataclass(frozen=True, slots=True)
class Change:
    """What somebody asks for, who has been let in."""

    caller: Caller
    address: str
    method: str
    path: str
    #: As ``shown``.
    body: str


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
        who, role = change.caller.name, change.caller.role.word
        await self.note(who, role, change.address, change.method, change.path, status, change.body)

    async def note(
        self, who: str, role: str, address: str, method: str, path: str, status: int, body: str = ""
    ) -> None:
        """The same about somebody who was not let in. Raises ``Unavailable``."""
        record: Record = {
            "time": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds"),
            "node": self._node,
            "who": who,
            "role": role,
            "address": address,
            "method": method,
            "path": path[:_BODY],
            "status": status,
            "body": body,
        }
        await self._log.write(record)


def shown(body: Body) -> str:
    """A body as it may be written down."""
    if body.wrong:
        return f"{body.size} bytes: {body.wrong}"
    return json.dumps(_without(masked("", body.value)), ensure_ascii=False)[:_BODY] if body.size else ""


def _without(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: MASK if name in _HIDDEN else _without(inner) for name, inner in value.items()}
    return [_without(one) for one in value] if isinstance(value, list) else value
