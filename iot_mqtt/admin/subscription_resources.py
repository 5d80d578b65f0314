"""The resources about who gets what: filters, shared groups, and subscriptions that are made for a client."""

from __future__ import annotations

from http import HTTPStatus

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.errors import ApiError, bad_request, existing
from iot_mqtt.admin.routes import Resource, delete, listing, post
from iot_mqtt.admin.schemas import Json as Schema
from iot_mqtt.admin.schemas import Schemas, body_of, flag_of, schema_of
from iot_mqtt.admin.shapes import Json, of_subscription
from iot_mqtt.broker.facade import GroupInfo, RouteInfo, SubscriptionInfo, SubscriptionPart
from iot_mqtt.topics import validate_topic
from iot_mqtt.values import Subscription


class SubscriptionResources(Resource):
    """Of the sessions that are at home at one node."""

    def __init__(self, part: SubscriptionPart) -> None:
        self._part = part

    @listing("routes", "Filters that somebody has subscribed to, and by how many.", "Route", "topic", spread="merge")
    async def _routes(self, call: Call) -> Page:
        found = await self._part.routes(topic_of(call), call.after, call.limit + 1)
        return call.page(found, lambda one: one.filter)

    @listing("shared-groups", "Shared groups, with their members.", "SharedGroup", spread="merge")
    async def _groups(self, call: Call) -> Page:
        return call.page(await self._part.groups(call.after, call.limit + 1), lambda one: one.filter)

    @post(
        "sessions/{client_id}/subscriptions",
        "Subscribe for a client, connected or not; answered once it is committed and in force at all nodes.",
        "Subscription",
        "NewSubscription",
        spread="find",
    )
    async def _subscribe(self, call: Call) -> Json:
        with call.json() as fields:
            filter = fields.text("filter")
            wanted = Subscription(
                filter or "",
                fields.number("qos", 2) or 0,
                no_local=fields.take("no_local", bool) or False,
                retain_as_published=fields.take("retain_as_published", bool) or False,
                retain_handling=fields.number("retain_handling", 2) or 0,
            )
        if filter is None:
            raise bad_request("filter is missing")
        client_id = call.path["client_id"]
        found = existing(await self._part.subscribe(client_id, wanted), _no_session(call))
        return of_subscription(SubscriptionInfo(client_id, found))

    @delete(
        "sessions/{client_id}/subscriptions/{filter}",
        "Give up a subscription of a client, which is not told; what is under way for it is still completed.",
        spread="find",
    )
    async def _unsubscribe(self, call: Call) -> None:
        filter = call.path["filter"]
        if not existing(await self._part.unsubscribe(call.path["client_id"], filter), _no_session(call)):
            detail = f"{call.path['client_id']!r} has not subscribed to {filter!r}"
            raise ApiError(HTTPStatus.NOT_FOUND, "no_subscription", detail)

    def schemas(self) -> Schemas:
        new: Schema = {
            "filter": {"type": "string", "minLength": 1, "description": "Also $share/GROUP/FILTER."},
            "qos": {"type": "integer", "enum": [0, 1, 2], "default": 0},
            "no_local": flag_of("Not what it publishes itself."),
            "retain_as_published": flag_of("Whether a message is retained stays to be seen."),
            "retain_handling": {
                "type": "integer",
                "enum": [0, 1, 2],
                "default": 0,
                "description": "Retained messages come: 0 now, 1 if it is new, 2 not.",
            },
        }
        return {
            "Route": schema_of(RouteInfo),
            "SharedGroup": schema_of(GroupInfo),
            "NewSubscription": body_of(new, "filter", audited=("filter",)),
        }


def topic_of(call: Call) -> str | None:
    """The topic that is asked about."""
    topic = call.query.get("topic")
    if topic is not None:
        validate_topic(topic)
    return topic


def _no_session(call: Call) -> str:
    return f"there is no session {call.path['client_id']!r}"
