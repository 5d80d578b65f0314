"""The resources about limits of identities: documents of the grid, and what holds for a client."""

from __future__ import annotations

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.desks import checked, delete_of, one_of, page_of
from iot_mqtt.admin.errors import bad_request
from iot_mqtt.admin.limit_schemas import limit_schemas, shown
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas
from iot_mqtt.auth.limit_book import LimitsDesk, LimitsInfo
from iot_mqtt.auth.limit_rules import WHO
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.limits import ATTRIBUTES


class LimitResources(Resource):
    """Limits of the grid, for whoever holds the token."""

    def __init__(self, desk: LimitsDesk) -> None:
        self._desk = desk

    @listing("limits", "Limits of the grid, by name.", "LimitRule", role=Role.OPERATOR)
    def _all(self, call: Call) -> Page:
        return page_of(self._desk, call)

    @get("limits/{name}", "One document of limits.", "LimitRule", role=Role.OPERATOR)
    def _one(self, call: Call) -> LimitsInfo:
        return one_of(self._desk, call, _nothing(call))

    @post(
        "limits/{name}",
        "Write limits, all of the document: in force on all nodes within a second, for connected clients, too.",
        "LimitRule",
        "LimitRuleBody",
        role=Role.ADMIN,
    )
    async def _put(self, call: Call) -> LimitsInfo:
        with call.json() as fields:
            version = fields.take("version", int)
            names = (*WHO, *ATTRIBUTES)
            written = {name: value for name in names if (value := fields.take(name, object)) is not None}
        return await checked(self._desk.put(call.path["name"], written, version))

    @delete("limits/{name}", "Take a document of limits away.", role=Role.ADMIN)
    async def _delete(self, call: Call) -> None:
        await delete_of(self._desk, call, _nothing(call))

    @post("auth/limits", "What a client may use up, and where each limit comes from.", "LimitAnswer", "LimitQuestion")
    def _explain(self, call: Call) -> Json:
        with call.json() as fields:
            user, client_id = fields.text("user"), fields.text("client") or ""
            groups = fields.take("groups", list) or []
        if not all(isinstance(one, str) for one in groups):
            raise bad_request("groups is a list of texts")
        who = Principal(client_id, user or None, anonymous=not user, groups=frozenset(groups))
        return {"items": [shown(one) for one in self._desk.explain(who)]}

    def schemas(self) -> Schemas:
        return limit_schemas()


def _nothing(call: Call) -> str:
    return f"the grid has no limits called {call.path['name']!r}"
