"""The resources about who calls the API: tokens, and what was changed by whom."""

from __future__ import annotations

from typing import get_args

from iot_mqtt.admin.audit import AuditLog, Wanted
from iot_mqtt.admin.audit_together import (
    NodeKept,
    NodeVerified,
    Part,
    page_of_all,
    part_of,
    read_cursor,
    verified_of_all,
)
from iot_mqtt.admin.call import PAGE, Call, Page
from iot_mqtt.admin.callers import AS, Kind, MadeToken, Role, TokenInfo, Tokens, role_of
from iot_mqtt.admin.desks import checked
from iot_mqtt.admin.errors import bad_cursor, bad_request, beyond, not_found, unauthorized
from iot_mqtt.admin.routes import Resource, Table, combined, delete, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, items_of, maybe, object_of, schema_of

_TEXT: Json = {"type": "string"}
#: May stand in a scope as well, although it is beside the API.
_METRICS = "metrics"
#: Seconds for the verdicts of other nodes: they read all of their records.
VERIFY_WITHIN = 20.0


class TokenResources(Resource):
    """Tokens, for admins."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._table = Table(())

    def among(self, table: Table) -> None:
        self._table = table

    @listing("tokens", "Tokens of the API, without their secrets.", "Token", role=Role.ADMIN)
    def _list(self, call: Call) -> Page:
        return call.page(self._tokens.page(call.after, call.limit + 1), lambda one: one.id)

    @post("tokens", "Make a token; it is told this once.", "MadeToken", "NewToken", role=Role.ADMIN)
    async def _make(self, call: Call) -> MadeToken:
        caller = call.caller
        if caller is None:
            raise unauthorized()
        with call.json() as fields:
            name, role = fields.text("name"), fields.text("role")
            scope, seconds = fields.take("scope", list) or [], fields.take("seconds", int)
        if not all(isinstance(one, str) for one in scope):
            raise bad_request("scope is a list of texts")
        for one in scope:
            if one and not one.startswith(("/", AS)) and one != _METRICS and not self._table.begins(one):
                first = one.partition("/")[0]
                raise bad_request(f"no path below /api/v1 begins with {first!r}; /api/v1/openapi.json lists them")
        try:
            return await self._tokens.make(name or "", role_of(role or ""), scope, seconds, by=caller)
        except PermissionError as error:
            raise beyond(str(error)) from error
        except ValueError as error:
            raise bad_request(str(error)) from error

    @delete("tokens/{id}", "Take a token back, on every node within a second.", role=Role.ADMIN)
    async def _delete(self, call: Call) -> None:
        if not await checked(self._tokens.delete(call.path["id"])):
            raise not_found(f"there is no token {call.path['id']!r}")

    def schemas(self) -> Schemas:
        new: Json = {
            "name": {**_TEXT, "minLength": 1, "maxLength": 64},
            "role": {**_TEXT, "enum": [one.word for one in Role]},
            "scope": {
                **items_of({**_TEXT, "minLength": 1, "maxLength": 128, "pattern": "^[^/]"}),
                "maxItems": 32,
                "description": "Paths below /api/v1 that it may call, with %2F for a slash within a name; none: all. "
                "as:NAME: in his name.",
            },
            "seconds": {**maybe("integer"), "minimum": 1, "description": "After which it ends; null: never."},
        }
        return {
            "Token": schema_of(TokenInfo),
            "MadeToken": schema_of(MadeToken),
            "NewToken": body_of(new, "name", "role", audited=("name", "scope")),
        }


class AuditResources(Resource):
    """What was changed, by whom, at all nodes."""

    def __init__(self, log: AuditLog, node: str) -> None:
        self._log = log
        self._node = node

    @combined(
        "audit",
        "What was changed through all nodes that answer, the last first.",
        "AuditPage",
        page_of_all,
        query=("who", "contains", "refused", *PAGE),
        role=Role.ADMIN,
    )
    async def _list(self, call: Call) -> Part:
        query = call.query
        wanted = Wanted(query.get("who", ""), query.get("contains", ""), call.flag("refused") or False)
        try:
            shown = read_cursor(call.after)
        except ValueError as error:
            raise bad_cursor() from error
        return await part_of(self._log, self._node, shown, call.limit, wanted)

    @combined(
        "audit/verify",
        "Whether the logs of changes are whole, and from when on.",
        "AuditVerified",
        verified_of_all,
        query=("hash",),
        role=Role.ADMIN,
        within=VERIFY_WITHIN,
    )
    async def _verify(self, call: Call) -> Json:
        expected = call.query.get("hash")
        return {"hash": expected, "verified": await self._log.verify(expected)}

    def schemas(self) -> Schemas:
        record: Json = {
            "seq": {"type": "integer"},
            "time": {**_TEXT, "description": "UTC."},
            "node": {**_TEXT, "description": "That was asked for the change."},
            "who": _TEXT,
            "role": _TEXT,
            "address": _TEXT,
            "method": _TEXT,
            "path": {**_TEXT, "description": "With its query. Within a name /, % and ? are percent-encoded."},
            "status": {"type": "integer"},
            "body": {**_TEXT, "description": "Without secrets and payloads, and cut."},
            "previous": _TEXT,
            "hash": _TEXT,
        }
        shown = object_of(record)
        shown["properties"] |= {
            "kind": {**_TEXT, "enum": list(get_args(Kind)), "description": "What `who` is; not in older records."},
            "token": {**_TEXT, "description": "The id of a token; not in older records."},
            "after": {**_TEXT, "description": "The hash of the record before, where that is in another chain."},
        }
        page: Json = {
            "items": items_of(shown),
            "after": maybe("string"),
            "kept": items_of(schema_of(NodeKept)),
        }
        verified: Json = {
            "whole": {"type": "boolean"},
            "fault": {**_TEXT, "description": "What is wrong, and where, or empty."},
            "items": items_of(schema_of(NodeVerified)),
        }
        return {"AuditPage": object_of(page), "AuditVerified": object_of(verified)}
