"""The resources of ``/api/v1``, each a few lines over the broker's facade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from iot_mqtt.admin import shapes
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.capture_resources import CaptureResources
from iot_mqtt.admin.cluster_resources import ClusterResources
from iot_mqtt.admin.device_resources import DeviceResources
from iot_mqtt.admin.errors import bad_request, not_found
from iot_mqtt.admin.log_resources import LogResources
from iot_mqtt.admin.openapi import describe
from iot_mqtt.admin.pipeline_resources import PipelineResources, ReadJobs
from iot_mqtt.admin.plugin_resources import PluginResources
from iot_mqtt.admin.publication import read_message
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.admin.uplink_resources import UplinkResources
from iot_mqtt.broker.facade import BrokerView
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.letters import LettersInfo
from iot_mqtt.devices.link import Captures
from iot_mqtt.plugins.info import PluginPart
from iot_mqtt.topics import validate_filter
from iot_mqtt.uplink.desk import UplinkDesk

_PAGE = ("after", "limit")


class Resources:
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
    ) -> None:
        self._uplink = uplink
        self._jobs = jobs
        self._captures = captures
        self._view = view
        self._devices = devices
        self._plugins = plugins
        self._now = now
        self.routes = self._table()
        self._description = describe(self.routes, view.info().version)

    def _table(self) -> tuple[Route, ...]:
        return (
            Route("GET", "openapi.json", "This description.", self._openapi, answer="OpenApi"),
            Route("GET", "status", "The node in one look.", self._status, answer="Status"),
            Route("GET", "clients", "Connected clients.", self._clients, _PAGE, "Client", paged=True),
            Route("GET", "clients/{client_id}", "One connected client.", self._client, answer="Client"),
            Route("DELETE", "clients/{client_id}", "Close a client's connection.", self._kick),
            Route(
                "GET",
                "clients/{client_id}/attempts",
                "What is remembered of a client that was refused, or whose session has ended.",
                self._attempts,
                answer="Attempts",
            ),
            Route("GET", "sessions", "Sessions, connected or not.", self._sessions, _PAGE, "Session", paged=True),
            Route("GET", "sessions/{client_id}", "One session.", self._session, answer="Session"),
            Route(
                "GET",
                "sessions/{client_id}/backlog",
                "What waits for a session: its claims, and how many messages and bytes.",
                self._backlog,
                answer="Backlog",
            ),
            Route("DELETE", "sessions/{client_id}", "End a session and all that waits for it.", self._purge),
            Route(
                "GET",
                "subscriptions",
                "Subscriptions, of one client or all.",
                self._subscriptions,
                ("client_id", *_PAGE),
                "Subscription",
                paged=True,
            ),
            Route(
                "GET",
                "retained",
                "Retained messages that a filter matches, without their payloads.",
                self._retained,
                ("filter", *_PAGE),
                "Message",
                paged=True,
            ),
            Route("GET", "retained/{topic}", "One retained message.", self._retained_one, answer="MessageWithPayload"),
            Route("DELETE", "retained/{topic}", "Remove a retained message.", self._remove_retained),
            Route(
                "POST",
                "publish",
                "Publish as the node; answered once the message is committed.",
                self._publish,
                answer="Published",
                body="Publication",
            ),
            *LogResources(self._view.log).routes,
            *ClusterResources(self._view.cluster).routes,
            *UplinkResources(self._view.uplink, self._letters, self._uplink).routes,
            *(() if self._jobs is None else PipelineResources(self._jobs).routes),
            *(() if self._plugins is None else PluginResources(self._plugins).routes),
            *(() if self._captures is None else CaptureResources(self._captures).routes),
            *(() if self._devices is None else DeviceResources(self._devices, self._now).routes),
        )

    def _letters(self) -> LettersInfo | None:
        letters = None if self._devices is None else self._devices.letters
        return None if letters is None else letters.info()

    def _openapi(self, call: Call) -> Json:
        return self._description

    def _status(self, call: Call) -> Json:
        return shapes.of_status(self._view.info(), self._view.counters, self._now())

    def _clients(self, call: Call) -> Json:
        limit = call.limit
        clients = self._view.clients(call.after, limit + 1)
        cursor = clients[limit - 1].client_id if len(clients) > limit else None
        return shapes.page([shapes.of_client(client) for client in clients], limit, cursor)

    def _client(self, call: Call) -> Json:
        client_id = call.path["client_id"]
        client = self._view.client(client_id)
        if client is None:
            raise not_found(f"no client {client_id!r} is connected")
        return shapes.of_client(client)

    def _attempts(self, call: Call) -> Json:
        found = self._view.attempts(call.path["client_id"])
        return {"items": [shapes.of_attempt(attempt) for attempt in found]}

    async def _kick(self, call: Call) -> None:
        client_id = call.path["client_id"]
        if not await self._view.kick(client_id):
            raise not_found(f"no client {client_id!r} is connected")

    async def _sessions(self, call: Call) -> Json:
        limit = call.limit
        sessions = await self._view.counted(self._view.sessions(call.after, limit + 1))
        cursor = sessions[limit - 1].client_id if len(sessions) > limit else None
        return shapes.page([shapes.of_session(session) for session in sessions], limit, cursor)

    async def _session(self, call: Call) -> Json:
        client_id = call.path["client_id"]
        session = self._view.session(client_id)
        if session is None:
            raise not_found(f"there is no session {client_id!r}")
        (session,) = await self._view.counted([session])
        return shapes.of_session(session)

    async def _backlog(self, call: Call) -> Json:
        client_id = call.path["client_id"]
        backlog = await self._view.backlog(client_id)
        if backlog is None:
            raise not_found(f"there is no session {client_id!r}")
        return asdict(backlog)

    async def _purge(self, call: Call) -> None:
        client_id = call.path["client_id"]
        if not await self._view.purge(client_id):
            raise not_found(f"there is no session {client_id!r}")

    def _subscriptions(self, call: Call) -> Json:
        limit = call.limit
        after = shapes.read_subscription_cursor(call.after)
        found = self._view.subscriptions(call.query.get("client_id"), after, limit + 1)
        cursor = shapes.subscription_cursor(found[limit - 1]) if len(found) > limit else None
        return shapes.page([shapes.of_subscription(info) for info in found], limit, cursor)

    def _retained(self, call: Call) -> Json:
        limit, filter = call.limit, call.query.get("filter", "#")
        validate_filter(filter)
        after = None if call.after is None else call.after.encode()
        found = self._view.retained(filter, after, limit + 1)
        cursor = found[limit - 1].topic.decode() if len(found) > limit else None
        return shapes.page([shapes.of_message(message, with_payload=False) for message in found], limit, cursor)

    def _retained_one(self, call: Call) -> Json:
        topic = _topic(call)
        found = self._view.retained(topic, None, 1)
        if not found or found[0].topic != topic.encode():
            raise not_found(f"there is no retained message at {topic!r}")
        return shapes.of_message(found[0], with_payload=True)

    async def _remove_retained(self, call: Call) -> None:
        topic = _topic(call)
        if not await self._view.remove_retained(topic.encode()):
            raise not_found(f"there is no retained message at {topic!r}")

    async def _publish(self, call: Call) -> Json:
        message = read_message(call.json(), self._now())
        return {"matched": await self._view.publish(message)}


def _topic(call: Call) -> str:
    topic = call.path["topic"]
    if "+" in topic or "#" in topic:
        raise bad_request("a topic has no wildcards; list with retained?filter=")
    return topic
