"""The resources about configuration: what is in force, who says so, and changing what may change while a node runs."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict
from http import HTTPStatus
from typing import TypeVar

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.configuration import (
    ChangesInfo,
    ConfigDesk,
    ConfigRefused,
    InTheWay,
    ListenerInfo,
)
from iot_mqtt.admin.errors import ApiError, bad_request, existing, not_found
from iot_mqtt.admin.routes import Resource, delete, get, listing, patch, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, flag_of, items_of, object_of, schema_of

Answer = TypeVar("Answer")

_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_WHOLE: Json = {"type": "integer"}
_NUMBER: Json = {"type": "number"}
_TEXTS: Json = items_of(_TEXT)
_KEY: Json = {
    "key": _TEXT,
    "value": {"description": "In force."},
    "layer": {**_TEXT, "enum": ["default", "file", "changed", "environment", "set"]},
    "where": _TEXT,
    "live": {**_FLAG, "description": "It may change while the node runs."},
    "restart": {**_FLAG, "description": "It is written otherwise, and will be so after a restart."},
    "written": {},
    "default": {},
}
#: The keys below ``listeners.<name>``.
_LISTENER: Json = {
    **dict.fromkeys(("protocol", "host", "path", "codec"), _TEXT),
    **dict.fromkeys(
        ("port", "max_connections", "connect_burst", "backlog", "command_expiry", "commands_at_once"), _WHOLE
    ),
    **dict.fromkeys(("connect_rate", "heartbeat", "message_rate", "byte_rate"), _NUMBER),
    **dict.fromkeys(("reuse_port", "proxy_protocol", "durable_sessions"), _FLAG),
    **dict.fromkeys(("trusted_proxies", "allowed_origins", "auth_chain"), _TEXTS),
    "tls": {"type": "object", "description": "As listeners.<name>.tls, with absolute paths."},
    "outbox": {"type": "object", "description": "As listeners.<name>.outbox."},
}


class ConfigResources(Resource):
    """The configuration of a node, for operators; admins change it."""

    def __init__(self, desk: ConfigDesk) -> None:
        self._desk = desk

    @listing(
        "config",
        "Keys, in force and as they are written; secrets are masked.",
        "Key",
        "under",
        "contains",
        role=Role.OPERATOR,
        spread="one",
    )
    def _list(self, call: Call) -> Page:
        under, part = call.query.get("under", ""), call.query.get("contains", "").casefold()
        keys = (one for one in self._desk.all_keys() if part in one.key)
        found = (one for one in keys if not under or f"{one.key}.".startswith(f"{under}."))
        return call.page_of(found, lambda one: one.key)

    @get("config/{key}", "One key, with what each layer says of it.", "KeyDetail", role=Role.OPERATOR, spread="one")
    def _one(self, call: Call) -> Json:
        found = existing(self._desk.key(call.path["key"]), f"there is no key {call.path['key']!r}")
        return {**asdict(found.info), "means": found.means, "layers": found.layers}

    @post(
        "config/reload",
        "Read the files again; what needs a restart is named.",
        "Changes",
        "Reload",
        role=Role.ADMIN,
        spread="one",
    )
    async def _reload(self, call: Call) -> ChangesInfo:
        with call.json() as fields:
            dry_run = fields.take("dry_run", bool) or False
        return await refusing(self._desk.reload(dry_run=dry_run))

    @patch(
        "config",
        "Change keys while the node runs, and for its restarts.",
        "Changes",
        "KeyChanges",
        role=Role.ADMIN,
        spread="one",
    )
    async def _change(self, call: Call) -> ChangesInfo:
        with call.json() as fields:
            values, unset = fields.take("set", dict) or {}, fields.take("unset", list) or []
        if not (values or unset) or not all(isinstance(one, str) for one in unset):
            raise bad_request("set must be an object of keys with their values, or unset a list of keys")
        return await refusing(self._desk.change(values, unset))

    def schemas(self) -> Schemas:
        changed = object_of({"key": _TEXT, "before": {}, "now": {}})
        layer = object_of({"layer": _TEXT, "where": _TEXT, "value": {}})
        detail = {"means": _TEXT, "layers": items_of(layer)}
        names = items_of(_TEXT)
        values: Json = {"type": "object", "description": "Keys, such as log.level, with their values."}
        return {
            "Key": object_of(_KEY),
            "KeyDetail": object_of({**_KEY, **detail}),
            "Changes": object_of(
                {"changed": items_of(changed), "opened": names, "closed": names, "restart": names, "notes": names}
            ),
            "KeyChanges": body_of({"set": values, "unset": names}, audited=("set", "unset")),
            "Reload": body_of({"dry_run": flag_of("Change nothing, only say what would change.")}),
        }


class ListenerResources(Resource):
    """The ports that clients connect to, for operators; admins open and close them."""

    def __init__(self, desk: ConfigDesk) -> None:
        self._desk = desk

    @listing(
        "listeners",
        "Ports that clients connect to, open or not.",
        "Listener",
        role=Role.OPERATOR,
        spread="merge",
        by=("name",),
    )
    def _list(self, call: Call) -> Page:
        return call.page_of(self._desk.listeners(), lambda one: one.name)

    @get("listeners/{name}", "One listener.", "Listener", role=Role.OPERATOR, spread="one")
    def _one(self, call: Call) -> ListenerInfo:
        found = (one for one in self._desk.listeners() if one.name == call.path["name"])
        return existing(next(found, None), _nothing(call))

    @post("listeners/{name}", "Open a port, for good.", "Listener", "NewListener", role=Role.ADMIN, spread="one")
    async def _open(self, call: Call) -> ListenerInfo:
        with call.json() as fields:
            told = {name: value for name in _LISTENER if (value := fields.take(name, object)) is not None}
        return await refusing(self._desk.open_listener(call.path["name"], told))

    @delete("listeners/{name}", "Close a port, for good; its clients are told 0x98.", role=Role.ADMIN, spread="one")
    async def _close(self, call: Call) -> None:
        if not await refusing(self._desk.close_listener(call.path["name"])):
            raise not_found(_nothing(call))

    def schemas(self) -> Schemas:
        return {"Listener": schema_of(ListenerInfo), "NewListener": body_of(_LISTENER, audited=_LISTENER)}


async def refusing(change: Awaitable[Answer]) -> Answer:
    """What came of it; what is refused as the API says so."""
    try:
        return await change
    except InTheWay as error:
        raise ApiError(HTTPStatus.CONFLICT, "conflict", str(error)) from error
    except ConfigRefused as error:
        raise bad_request(str(error)) from error


def _nothing(call: Call) -> str:
    return f"there is no listener {call.path['name']!r} that is open; GET listeners shows those that there are"
