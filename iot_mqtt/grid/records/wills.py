"""Cache ``wills``: client id to the message it leaves behind; tagged fields."""

from __future__ import annotations

import json
from struct import Struct

from iot_mqtt.grid.records.base import StructError, Unreadable, read_fields, write_fields
from iot_mqtt.grid.records.message import decode_message, encode_message
from iot_mqtt.ports.store import StoredWill
from iot_mqtt.values import NO_STANDING, Standing, Will

_U32 = Struct(">I")
_TIME = Struct(">d")
# On disk for ever: added, never changed or used again.
_MESSAGE, _DELAY, _EXPIRY, _DUE, _OWNER, _STANDING, _LINK = range(1, 8)


def _written(standing: Standing) -> bytes:
    groups = sorted(standing.groups)
    return json.dumps([groups, standing.address, standing.brought_rules], ensure_ascii=False).encode()


def _read(field: bytes | None, link: bytes | None) -> Standing:
    groups, address, brought = ((), "", ()) if field is None else json.loads(field)
    return Standing(frozenset(groups), address, tuple(brought), "" if link is None else link.decode())


def encode_will(record: StoredWill) -> bytes:
    will = record.will
    return write_fields(
        (
            (_MESSAGE, encode_message(will.message)),
            (_DELAY, _U32.pack(will.delay)),
            (_EXPIRY, None if will.expiry is None else _U32.pack(will.expiry)),
            (_DUE, None if record.due_at is None else _TIME.pack(record.due_at)),
            (_OWNER, None if record.owner is None else record.owner.encode()),
            (_STANDING, None if will.standing[:-1] == NO_STANDING[:-1] else _written(will.standing)),
            (_LINK, will.standing.link.encode() or None),
        )
    )


def decode_will(record: bytes) -> StoredWill:
    fields = read_fields(record)
    expiry, due, owner = fields.get(_EXPIRY), fields.get(_DUE), fields.get(_OWNER)
    try:
        will = Will(
            decode_message(fields[_MESSAGE]),
            _U32.unpack(fields[_DELAY])[0],
            None if expiry is None else _U32.unpack(expiry)[0],
            _read(fields.get(_STANDING), fields.get(_LINK)),
        )
        return StoredWill(
            will, None if due is None else _TIME.unpack(due)[0], None if owner is None else owner.decode()
        )
    except (KeyError, StructError, TypeError, ValueError) as lacking:
        raise Unreadable("a will without all its fields") from lacking
