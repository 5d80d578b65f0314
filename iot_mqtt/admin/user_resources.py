"""The resources about users of the grid, and the question who would be let in. Passwords are taken, never shown."""

from __future__ import annotations

from typing import Protocol

from iot_mqtt.admin.call import Call, Fields, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.desks import checked, delete_of, one_of
from iot_mqtt.admin.errors import bad_request, not_found
from iot_mqtt.admin.limit_schemas import limits_object, said_limit, shown
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, items_of, maybe, object_of
from iot_mqtt.auth.chain import Said
from iot_mqtt.auth.limit_book import LimitsDesk
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.user_desk import Changes, UserDesk, UserInfo
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal

_TEXT: Json = {"type": "string"}


class Prospects(Protocol):
    """Knows what becomes of clients once links have spoken: bans, rules about names, sessions of others, limits."""

    async def of(self, attempt: ConnectAttempt, verdict: Principal | Denied) -> Principal | Denied: ...

    def open_question(self, client_id: str) -> str:
        """What of it another node decides; empty: nothing."""
        ...


class UserResources(Resource):
    """Users, for whoever holds the token."""

    def __init__(self, desk: UserDesk) -> None:
        self._desk = desk

    @listing("users", "Users of the grid.", "User", "contains", role=Role.ADMIN)
    def _users(self, call: Call) -> Page:
        found = self._desk.page(call.after, call.limit + 1, call.query.get("contains", ""))
        return call.page(found, lambda one: one.name)

    @get("users/{name}", "One user of the grid.", "User", role=Role.ADMIN)
    def _user(self, call: Call) -> UserInfo:
        return one_of(self._desk, call, _no_user(call))

    @post("users", "Add a user; it is known on every node within a second.", "User", "NewUser", role=Role.ADMIN)
    async def _add(self, call: Call) -> UserInfo:
        fields = call.json()
        name = fields.text("name")
        if name is None:
            raise bad_request("name is missing")
        return await self._put(name, fields, new=True)

    @post("users/{name}", "Change a user: what is not named stays.", "User", "UserChanges", role=Role.ADMIN)
    async def _change(self, call: Call) -> UserInfo:
        try:
            return await self._put(call.path["name"], call.json(), new=False)
        except KeyError as error:
            raise not_found(_no_user(call)) from error

    @delete(
        "users/{name}", "Delete a user: its clients are disconnected on every node within a second.", role=Role.ADMIN
    )
    async def _delete(self, call: Call) -> None:
        await delete_of(self._desk, call, _no_user(call))

    async def _put(self, name: str, fields: Fields, *, new: bool) -> UserInfo:
        changes = Changes(
            password=fields.text("password"),
            hash=fields.text("hash"),
            scram=fields.take("scram", bool) or False,
            enabled=fields.take("enabled", bool),
            groups=fields.take("groups", list),
            client_ids=fields.take("client_ids", list),
            limits=fields.take("limits", dict),
            version=fields.take("version", int),
        )
        fields.finish()
        return await checked(self._desk.put(name, changes, new=new))

    def schemas(self) -> Schemas:
        changes: Json = {
            "password": {**_TEXT, "description": "It is kept as an argon2id hash."},
            "hash": {**_TEXT, "description": "In place of a password: argon2id, bcrypt, or of mosquitto_passwd."},
            "scram": {"type": "boolean", "description": "With a password: make keys for SCRAM-SHA-256, too."},
            "enabled": {"type": "boolean"},
            "groups": items_of(_TEXT),
            "client_ids": {**items_of(_TEXT), "description": "Patterns with * and ?; none: any client id."},
            "limits": {**limits_object(), "description": "All of them: what is not named is not said any more."},
            "version": {"type": "integer", "description": "That this is based on; without it, what is there."},
        }
        user: Json = {
            "name": _TEXT,
            "version": {"type": "integer"},
            "enabled": {"type": "boolean"},
            "password": {**maybe("string"), "description": "Kind of the password's hash; null: no password fits."},
            "scram": {"type": "boolean"},
            "groups": items_of(_TEXT),
            "client_ids": items_of(_TEXT),
            "limits": {"type": "object"},
            "in_chain": {"type": "boolean", "description": "Whether any listener asks for users of the grid."},
        }
        told = ("groups", "client_ids")
        return {
            "User": object_of(user),
            "NewUser": body_of({"name": {**_TEXT, "minLength": 1}, **changes}, "name", audited=("name", *told)),
            "UserChanges": body_of(changes, audited=told),
        }


class AuthResources(Resource):
    """Who would be let in, and by which link."""

    def __init__(self, access: Access, limits: LimitsDesk, prospects: Prospects) -> None:
        self._access = access
        self._limits = limits
        self._prospects = prospects

    @post(
        "auth/explain", "What each link says of a client, and what would become of it.", "Explanation", "LoginQuestion"
    )
    async def _explain(self, call: Call) -> Json:
        with call.json() as fields:
            password = fields.text("password")
            attempt = ConnectAttempt(
                client_id=fields.text("client_id") or "",
                username=fields.text("username"),
                password=None if password is None else password.encode(),
                peer=f"{fields.text('address') or '127.0.0.1'}:0",
                listener=fields.text("listener") or "mqtt",
                version=5,
                certificate_name=fields.text("certificate_name"),
            )
        said, verdict = await self._access.explain(attempt)
        who = verdict if isinstance(verdict, Principal) else Principal(attempt.client_id, attempt.username)
        limits = [shown(one) for one in self._limits.explain(who._replace(client_id=attempt.client_id))]
        verdict = await self._prospects.of(attempt, verdict)
        outcome = _of_verdict(verdict, self._prospects.open_question(attempt.client_id))
        return {"links": [one._asdict() for one in said], **outcome, "limits": limits}

    def schemas(self) -> Schemas:
        question: Json = {
            "client_id": _TEXT,
            "username": _TEXT,
            "password": {**_TEXT, "description": "Verified as at a login, and counted like one."},
            "address": _TEXT,
            "listener": _TEXT,
            "certificate_name": _TEXT,
        }
        explanation = {
            "links": items_of(object_of(dict.fromkeys(Said._fields, _TEXT))),
            "verdict": _TEXT,
            "detail": {
                **_TEXT,
                "description": "Why it is denied; where it is allowed, what another node decides of it.",
            },
            "reason": maybe("string"),
            "user": maybe("string"),
            "groups": items_of(_TEXT),
            "limits": items_of(said_limit()),
        }
        return {
            "LoginQuestion": body_of(question, audited=question.keys() - {"password"}),
            "Explanation": object_of(explanation),
        }


def _of_verdict(verdict: Principal | Denied, question: str) -> Json:
    if isinstance(verdict, Denied):
        return {"verdict": "deny", "detail": verdict.detail, "reason": verdict.reason.name, "user": None, "groups": []}
    groups = sorted(verdict.groups)
    return {"verdict": "allow", "detail": question, "reason": None, "user": verdict.owner or None, "groups": groups}


def _no_user(call: Call) -> str:
    return f"the grid has no user {call.path['name']!r}"
