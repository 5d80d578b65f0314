"""The resources about bans."""

from __future__ import annotations

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.desks import checked
from iot_mqtt.admin.errors import bad_request_if, existing, not_found
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Json, Schemas, body_of, maybe, schema_of
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.ports.bans import Ban


class BanResources(Resource):
    """Bans, for operators."""

    def __init__(self, bans: BanBook) -> None:
        self._bans = bans

    @listing("bans", "Who is not let in.", "Ban", role=Role.OPERATOR)
    def _list(self, call: Call) -> Page:
        return call.page(self._bans.page(call.after, call.limit + 1), lambda one: one.id)

    @get("bans/{id}", "One ban.", "Ban", role=Role.OPERATOR)
    def _one(self, call: Call) -> Ban:
        return existing(self._bans.get(call.path["id"]), _nothing(call))

    @post(
        "bans",
        "Ban whom all of it fits, on every node within a second; who is there is disconnected.",
        "Ban",
        "NewBan",
    )
    async def _add(self, call: Call) -> Ban:
        with call.json() as fields:
            client, user, address = fields.text("client"), fields.text("user"), fields.text("address")
            seconds, reason = fields.take("seconds", int), fields.text("reason") or ""
        with bad_request_if(ValueError):
            return await self._bans.add(
                client=client, user=user, address=address, seconds=seconds, reason=reason, by=call.who
            )

    @delete("bans/{id}", "Take a ban back, on every node within a second.")
    async def _remove(self, call: Call) -> None:
        if not await checked(self._bans.remove(call.path["id"])):
            raise not_found(_nothing(call))

    def schemas(self) -> Schemas:
        text: Json = {"type": "string", "minLength": 1, "maxLength": 256}
        new: Json = {
            "client": {**text, "description": "A client id, or a pattern with * and ?."},
            "user": {**text, "description": "A verified user, or one that somebody says he is."},
            "address": {**text, "description": "An address, or a network such as 10.0.7.0/28."},
            "seconds": {**maybe("integer"), "minimum": 1, "description": "After which it is over; null: never."},
            "reason": {"type": "string", "description": "Clients are told."},
        }
        return {"Ban": schema_of(Ban), "NewBan": body_of(new, audited=("client", "user", "address", "reason"))}


def _nothing(call: Call) -> str:
    return f"there is no ban {call.path['id']!r}"
