"""The resources about admin users: who may log in at the admin port. Passwords are taken, never shown."""

from __future__ import annotations

from iot_mqtt.admin.admins import LONGEST_NAME, LONGEST_PASSWORD, SHORTEST_PASSWORD, AdminDesk, AdminInfo
from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role, role_of
from iot_mqtt.admin.desks import checked, delete_of, one_of, page_of
from iot_mqtt.admin.errors import bad_request, bad_request_if, beyond, not_found
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, schema_of

_TEXT: Json = {"type": "string"}


class AdminResources(Resource):
    """Admin users, for admins."""

    def __init__(self, desk: AdminDesk) -> None:
        self._desk = desk

    @listing("admins", "Admin users.", "Admin", role=Role.ADMIN)
    def _list(self, call: Call) -> Page:
        return page_of(self._desk, call)

    @get("admins/{name}", "One admin user.", "Admin", role=Role.ADMIN)
    def _one(self, call: Call) -> AdminInfo:
        return one_of(self._desk, call, _nobody(call))

    @post("admins", "Add an admin user; known on every node within a second.", "Admin", "NewAdmin", role=Role.ADMIN)
    async def _add(self, call: Call) -> AdminInfo:
        _require_unlimited(call)
        with call.json() as fields:
            name, password, role = fields.text("name"), fields.text("password"), fields.text("role")
            must_change = fields.take("must_change", bool) or False
        if name is None or password is None or role is None:
            raise bad_request("name, password and role must be given")
        return await checked(self._desk.add(name, password, _role(role), must_change=must_change))

    @post(
        "admins/{name}",
        "Change password or role: what is not named stays, and the user's logins end on every node within a second.",
        "Admin",
        "AdminChanges",
        role=Role.ADMIN,
    )
    async def _change(self, call: Call) -> AdminInfo:
        _require_unlimited(call)
        with call.json() as fields:
            password, role = fields.text("password"), fields.text("role")
            must_change = fields.take("must_change", bool)
        wanted = None if role is None else _role(role)
        change = self._desk.change(call.path["name"], password=password, role=wanted, must_change=must_change)
        try:
            return await checked(change)
        except KeyError as error:
            raise not_found(_nobody(call)) from error

    @post("admins/{name}/unlock", "Forget wrong passwords at this name, on every node.", "Admin", role=Role.ADMIN)
    async def _unlock(self, call: Call) -> AdminInfo:
        try:
            return await self._desk.unlock(call.path["name"])
        except KeyError as error:
            raise not_found(_nobody(call)) from error

    @delete("admins/{name}", "Remove an admin user: his logins end on every node within a second.", role=Role.ADMIN)
    async def _delete(self, call: Call) -> None:
        await delete_of(self._desk, call, _nobody(call))

    def schemas(self) -> Schemas:
        changes: Json = {
            "password": {
                **_TEXT,
                "minLength": SHORTEST_PASSWORD,
                "maxLength": LONGEST_PASSWORD,
                "description": "It is kept as an argon2id hash.",
            },
            "role": {**_TEXT, "enum": [one.word for one in Role]},
            "must_change": {"type": "boolean", "description": "He has to set another password before anything else."},
        }
        return {
            "Admin": schema_of(AdminInfo),
            "NewAdmin": body_of(
                {"name": {**_TEXT, "minLength": 1, "maxLength": LONGEST_NAME}, **changes},
                "name",
                "password",
                "role",
                audited=("name",),
            ),
            "AdminChanges": body_of(changes),
        }


def _role(word: str) -> Role:
    with bad_request_if(ValueError):
        return role_of(word)


def _require_unlimited(call: Call) -> None:
    """Who logs in as an admin user has neither a scope nor an end."""
    if call.caller is None or call.caller.limited:
        raise beyond(f"{call.who} may not do this: it has a scope or an end, which an admin user has not")


def _nobody(call: Call) -> str:
    return f"there is no admin user {call.path['name']!r}"
