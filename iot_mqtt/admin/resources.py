"""The resources of ``/api/v1``, each a few lines over the broker's facade."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iot_mqtt.admin import shapes
from iot_mqtt.admin.call import Call, Page, pair
from iot_mqtt.admin.capture_resources import CaptureResources
from iot_mqtt.admin.cluster_resources import ClusterResources
from iot_mqtt.admin.device_resources import DeviceResources
from iot_mqtt.admin.errors import bad_request, bad_request_if, existing, not_found
from iot_mqtt.admin.everywhere import Everywhere
from iot_mqtt.admin.log_resources import LogResources
from iot_mqtt.admin.message_schemas import message_schemas
from iot_mqtt.admin.node_resources import NodeResources
from iot_mqtt.admin.openapi import describe
from iot_mqtt.admin.pipeline_resources import PipelineResources, ReadJobs
from iot_mqtt.admin.plugin_resources import PluginResources
from iot_mqtt.admin.publication import read_message, read_messages
from iot_mqtt.admin.routes import Resource, Route, Table, delete, get, listing, post
from iot_mqtt.admin.schemas import Schemas
from iot_mqtt.admin.shapes import Json
from iot_mqtt.admin.subscription_resources import SubscriptionResources, topic_of
from iot_mqtt.admin.uplink_resources import UplinkResources
from iot_mqtt.broker.facade import (
    STATES,
    BacklogInfo,
    BrokerView,
    ClientInfo,
    ClientsWanted,
    Published,
    SessionsWanted,
)
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.asked import NotHis, answered_at, check_answer
from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.devices.link import Captures
from iot_mqtt.errors import MqttError
from iot_mqtt.plugins.info import PluginPart
from iot_mqtt.topics import validate_filter
from iot_mqtt.uplink.desk import UplinkDesk
from iot_mqtt.values import Message

#: What clients are found by, as ``ClientsWanted`` has it.
CLIENTS_BY = ("prefix", "user", "address", "listener", "contains")


class Resources(Resource):
    """``/api/v1`` of one node. ``now`` is wall-clock seconds."""

    def __init__(
        self,
        view: BrokerView,
        now: Callable[[], float],
        plugins: PluginPart | None = None,
        devices: Accompanied | None = None,
        captures: Captures | None = None,
        jobs: ReadJobs | None = None,
        uplink: UplinkDesk | None = None,
        further: Sequence[Resource] = (),
        everywhere: Everywhere | None = None,
    ) -> None:
        self._view = view
        self._devices = devices
        self._now = now
        parts: list[Resource] = [
            LogResources(view.log),
            ClusterResources(view.cluster),
            NodeResources(view, now),
            SubscriptionResources(view.subscribing),
            UplinkResources(view.uplink, self._letters, uplink),
        ]
        parts += [] if jobs is None else [PipelineResources(jobs)]
        parts += [] if plugins is None else [PluginResources(plugins)]
        parts += [] if captures is None else [CaptureResources(captures)]
        parts += [] if devices is None else [DeviceResources(devices, now)]
        parts += further
        own = (*self.routes, *(route for part in parts for route in part.routes))
        #: All there are.
        self.table = Table((everywhere or Everywhere(view.info().node_id)).spread(own))
        for part in parts:
            part.among(self.table)
        schemas = {name: schema for part in (self, *parts) for name, schema in part.schemas().items()}
        self._schemas = schemas
        self._description = describe(tuple(self.table), schemas, view.info().version)

    def body_of(self, route: Route) -> dict[str, Any]:
        """The schema of a call's body; that of nothing where it has none."""
        return self._schemas.get(route.body or "", {})

    def is_for_anybody(self, method: str, segments: Sequence[str]) -> bool:
        """Whether a call is answered without knowing who calls."""
        return any(
            route.asks == "anybody" and route.method == method and route.match(segments) is not None
            for route in self.table.near(segments)
        )

    def schemas(self) -> Schemas:
        return message_schemas()

    def _letters(self) -> LettersInfo | None:
        letters = None if self._devices is None else self._devices.letters
        return None if letters is None else letters.info()

    @get("openapi.json", "This description.", "OpenApi")
    def _openapi(self, call: Call) -> Json:
        return self._description

    @get("status", "The node in one look.", "Status", spread="one")
    def _status(self, call: Call) -> Json:
        return shapes.of_status(self._view.info(), self._view.counters, self._now())

    @listing("clients", "Connected clients.", "Client", *CLIENTS_BY, spread="merge")
    async def _clients(self, call: Call) -> Page:
        wanted = ClientsWanted(*map(call.query.get, CLIENTS_BY))
        with bad_request_if(ValueError):
            found = await self._view.clients(call.after, call.limit + 1, wanted)
        return call.page(found, lambda one: one.client_id)

    @get("clients/{client_id}", "One connected client.", "Client", spread="find")
    def _client(self, call: Call) -> ClientInfo:
        return existing(self._view.client(call.path["client_id"]), _no_client(call))

    @delete("clients/{client_id}", "Close a client's connection.", spread="find")
    async def _kick(self, call: Call) -> None:
        if not await self._view.kick(call.path["client_id"]):
            raise not_found(_no_client(call))

    @get(
        "clients/{client_id}/attempts",
        "What is remembered of a client that was refused, or whose session has ended.",
        "Attempts",
        spread="merge",
        by=("-at",),
    )
    def _attempts(self, call: Call) -> Json:
        return {"items": self._view.attempts(call.path["client_id"])}

    @listing(
        "sessions",
        "Sessions, connected or not.",
        "Session",
        "prefix",
        "user",
        "connected",
        "state",
        "filter",
        spread="merge",
    )
    async def _sessions(self, call: Call) -> Page:
        query = call.query
        wanted = SessionsWanted(
            query.get("prefix"), query.get("user"), call.flag("connected"), query.get("state"), query.get("filter")
        )
        if wanted.state not in (None, *STATES):
            raise bad_request(f"state must be one of {', '.join(STATES)}")
        if wanted.filter == "":
            raise bad_request("filter must be one that can be subscribed to")
        found = await self._view.sessions(call.after, call.limit + 1, wanted)
        return call.page(found, lambda one: one.client_id, shapes.of_session, self._view.counting())

    @get("sessions/{client_id}", "One session.", "Session", spread="find")
    async def _session(self, call: Call) -> Json:
        found = existing(self._view.session(call.path["client_id"]), _no_session(call))
        (session,) = await self._view.counted([found])
        return shapes.of_session(session)

    @get(
        "sessions/{client_id}/backlog",
        "What waits for a session: its claims, and how many messages and bytes.",
        "Backlog",
        spread="find",
    )
    async def _backlog(self, call: Call) -> BacklogInfo:
        return existing(await self._view.backlog(call.path["client_id"]), _no_session(call))

    @delete("sessions/{client_id}", "End a session and all that waits for it.", spread="find")
    async def _purge(self, call: Call) -> None:
        if not await self._view.purge(call.path["client_id"]):
            raise not_found(_no_session(call))

    @listing(
        "subscriptions",
        "Subscriptions, of one client or all.",
        "Subscription",
        "client_id",
        "topic",
        spread="merge",
        by=("client_id", "filter"),
    )
    async def _subscriptions(self, call: Call) -> Page:
        client_id = call.query.get("client_id")
        found = await self._view.subscriptions(client_id, call.after_pair, call.limit + 1, topic_of(call))
        return call.page(found, lambda one: pair(one.client_id, one.subscription.filter), shapes.of_subscription)

    @listing("retained", "Retained messages that a filter matches, without their payloads.", "Message", "filter")
    def _retained(self, call: Call) -> Page:
        limit, filter = call.limit, call.query.get("filter", "#")
        validate_filter(filter)
        after = None if call.after is None else call.after.encode()
        return call.page(
            self._view.retained(filter, after, limit + 1), lambda one: one.topic.decode(), shapes.of_message
        )

    @delete(
        "retained",
        "Remove the retained messages that a filter matches, the first so many; again, while there are more.",
        query=("filter", "limit"),
        answer="Removed",
    )
    async def _remove_all_retained(self, call: Call) -> Json:
        filter, limit = call.query.get("filter"), call.limit
        if filter is None:
            raise bad_request("filter must be given; # is all")
        validate_filter(filter)
        removed = await self._view.remove_all_retained(filter, limit)
        return {"removed": removed, "more": bool(self._view.retained(filter, None, 1))}

    @get("retained/{topic}", "One retained message; its payload for operators.", "MessageWithPayload")
    def _retained_one(self, call: Call) -> Json:
        topic = _topic(call)
        found = self._view.retained(topic, None, 1)
        if not found or found[0].topic != topic.encode():
            raise not_found(f"there is no retained message at {topic!r}")
        return shapes.of_message(found[0], with_payload=call.sees_contents)

    @delete("retained/{topic}", "Remove a retained message.")
    async def _remove_retained(self, call: Call) -> None:
        topic = _topic(call)
        if not await self._view.remove_retained(topic.encode()):
            raise not_found(f"there is no retained message at {topic!r}")

    @post("publish", "Publish as the node; answered once the message is committed.", "Published", "Publication")
    async def _publish(self, call: Call) -> Json:
        message = read_message(call.json(), self._now())
        self._require_right(call, message)
        return (await self._view.publish(message, call.user))._asdict()

    @post(
        "publish/batch",
        "Publish many, in their order, all or none if one is wrong; answered once they are committed.",
        "PublishedAll",
        "Publications",
    )
    async def _publish_all(self, call: Call) -> Json:
        messages = read_messages(call.json(), self._now())
        for message in messages:
            self._require_right(call, message)
        return {"items": list(map(_outcome, await self._view.publish_all(messages, call.user)))}

    def _require_right(self, call: Call, message: Message) -> None:
        user = call.user
        if user is None:
            return
        topic, lets = message.topic.decode(), None if self._devices is None else self._devices.lets
        if lets is None or not lets(user, "publish", topic, message.qos, retain=message.retain):
            raise NotHis(f"{user} may not publish to {topic!r}")
        check_answer(lets, user, answered_at(message))


def _outcome(found: Published | MqttError) -> Json:
    """What became of one of many messages."""
    if isinstance(found, MqttError):
        return {"matched": None, "elsewhere": None, "error": found.reason.name.lower(), "detail": found.detail}
    return {**found._asdict(), "error": None, "detail": None}


def _no_client(call: Call) -> str:
    return f"no client {call.path['client_id']!r} is connected"


def _no_session(call: Call) -> str:
    return f"there is no session {call.path['client_id']!r}"


def _topic(call: Call) -> str:
    topic = call.path["topic"]
    if "+" in topic or "#" in topic:
        raise bad_request("a topic has no wildcards; list with retained?filter=")
    return topic
