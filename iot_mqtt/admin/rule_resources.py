"""The resources about rules of the grid, and the question who may do what, and by which rule."""

from __future__ import annotations

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.desks import checked, delete_of, one_of, page_of
from iot_mqtt.admin.errors import bad_request, bad_request_if
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, items_of, maybe, object_of
from iot_mqtt.auth.explaining import QUESTIONS, Answer, Question
from iot_mqtt.auth.grid_rules import AclDesk, RulesInfo
from iot_mqtt.auth.service import Access
from iot_mqtt.ports.access import Principal


class RuleResources(Resource):
    """Rules of the grid, for whoever holds the token."""

    def __init__(self, desk: AclDesk, access: Access) -> None:
        self._desk = desk
        self._access = access

    @listing("auth/rules", "Rules of the grid, in their order.", "AclRules", role=Role.ADMIN)
    def _rules(self, call: Call) -> Page:
        return page_of(self._desk, call)

    @get("auth/rules/{name}", "One document of rules.", "AclRules", role=Role.ADMIN)
    def _one(self, call: Call) -> RulesInfo:
        return one_of(self._desk, call, _nothing(call))

    @post(
        "auth/rules/{name}",
        "Write rules: in force on all nodes within a second.",
        "AclRules",
        "AclText",
        role=Role.ADMIN,
    )
    async def _put(self, call: Call) -> RulesInfo:
        with call.json() as fields:
            text, version = fields.text("text"), fields.take("version", int)
        if text is None:
            raise bad_request("text is missing")
        return await checked(self._desk.put(call.path["name"], text, version))

    @delete("auth/rules/{name}", "Take a document of rules away.", role=Role.ADMIN)
    async def _delete(self, call: Call) -> None:
        await delete_of(self._desk, call, _nothing(call))

    @post("auth/may", "Whether a client may do something, and by which rule.", "RightAnswer", "RightQuestion")
    def _may(self, call: Call) -> Answer:
        with call.json() as fields:
            user, client_id, address = fields.text("user"), fields.text("client_id") or "", fields.text("address") or ""
            groups, rules = fields.take("groups", list) or [], fields.take("rules", list) or []
            action, asked = fields.text("action"), fields.text("asked")
            qos, retain = fields.take("qos", int) or 0, fields.take("retain", bool) or False
        if action not in QUESTIONS or asked is None:
            raise bad_request(f"action must be one of {', '.join(QUESTIONS)}, and asked be given")
        if not 0 <= qos <= 2 or not all(isinstance(one, str) for one in (*groups, *rules)):
            raise bad_request("qos is 0, 1 or 2; groups and rules are lists of texts")
        who = Principal(client_id, user, user is None, groups=frozenset(groups), address=address)
        with bad_request_if(ValueError):
            return self._access.may(who._replace(brought_rules=tuple(rules)), Question(action, asked, qos, retain))

    def schemas(self) -> Schemas:
        text: Json = {"type": "string"}
        number: Json = {"type": "integer"}
        truth: Json = {"type": "boolean"}
        asked: Json = {**truth, "description": "Whether the node asks for rules of the grid (auth.acl_grid)."}
        rules: Json = {"name": text, "version": number, "text": text, "rules": number, "asked": asked}
        question: Json = {
            "action": {**text, "enum": list(QUESTIONS)},
            "asked": {**text, "description": "A topic, a filter, the target of a command or shadow, or a name."},
            "qos": {**number, "minimum": 0, "maximum": 2},
            "retain": truth,
            "client_id": text,
            "user": {**text, "description": "Verified; without it, an anonymous client."},
            "groups": {**items_of(text), "description": "Beside those that the user is in."},
            "address": text,
            "rules": {**items_of(text), "description": "That it brings with a token."},
        }
        answer: Json = {
            "allowed": truth,
            "detail": text,
            "source": maybe("string"),
            "line": maybe("integer"),
            "rule": maybe("string"),
        }
        return {
            "AclRules": object_of(rules),
            "AclText": body_of({"text": text, "version": number}, "text", audited=("text",)),
            "RightQuestion": body_of(
                question, "action", "asked", audited=("asked", "client_id", "user", "groups", "address", "rules")
            ),
            "RightAnswer": object_of(answer),
        }


def _nothing(call: Call) -> str:
    return f"the grid has no rules called {call.path['name']!r}"
