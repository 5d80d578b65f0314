"""The resources below ``/api/v1/plugins``: codecs of other protocols, their versions, and changing those."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import asdict
from http import HTTPStatus
from typing import TypeVar

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.errors import ApiError, bad_request, not_found
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.plugins.info import PluginError, PluginInfo, PluginPart

T = TypeVar("T")


class PluginResources:
    """The plugins of one node."""

    def __init__(self, plugins: PluginPart) -> None:
        self._plugins = plugins

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route("GET", "plugins", "Plugins, enabled or not.", self._list, answer="Plugin", paged=True),
            Route(
                "POST",
                "plugins",
                "Take in a wheel or a project's directory on the node's machine; nothing that runs is changed.",
                self._install,
                answer="Installed",
                body="PluginPath",
            ),
            Route("GET", "plugins/{name}", "One plugin.", self._show, answer="Plugin"),
            Route("POST", "plugins/{name}/enable", "Load it.", self._enable, answer="Plugin", body="PluginIsolation"),
            Route(
                "POST",
                "plugins/{name}/disable",
                "Let no connections in, and ask those that are there to close.",
                self._disable,
                answer="Plugin",
            ),
            Route(
                "POST",
                "plugins/{name}/reload",
                "New connections use the version that came last; others finish on theirs, or are asked to close.",
                self._reload,
                answer="Plugin",
                body="PluginReload",
            ),
            Route(
                "POST",
                "plugins/{name}/rollback",
                "New connections use the version from before.",
                self._rollback,
                answer="Plugin",
                body="PluginReload",
            ),
        )

    def _list(self, call: Call) -> Json:
        return {"items": [asdict(one) for one in self._plugins.info()], "after": None}

    def _show(self, call: Call) -> Json:
        name = call.path["name"]
        for one in self._plugins.info():
            if one.name == name:
                return asdict(one)
        raise not_found(f"there is no plugin {name!r}")

    async def _install(self, call: Call) -> Json:
        fields = call.json()
        path = fields.text("path")
        fields.finish()
        if not path or "\0" in path:
            raise bad_request("path must name a wheel or a project's directory on the node's machine")
        return {"items": [asdict(one) for one in await _told(self._plugins.install(path))]}

    async def _enable(self, call: Call) -> Json:
        fields = call.json()
        isolation = fields.text("isolation")
        fields.finish()
        if isolation not in (None, "inline", "process"):
            raise bad_request("isolation must be inline or process")
        return await _changed(self._plugins.enable(call.path["name"], isolation))

    async def _disable(self, call: Call) -> Json:
        return await _changed(self._plugins.disable(call.path["name"]))

    async def _reload(self, call: Call) -> Json:
        return await _changed(self._plugins.reload(call.path["name"], drain=_drain(call)))

    async def _rollback(self, call: Call) -> Json:
        return await _changed(self._plugins.rollback(call.path["name"], drain=_drain(call)))


def _drain(call: Call) -> bool:
    fields = call.json()
    drain = fields.take("drain", bool) or False
    fields.finish()
    return drain


async def _changed(change: Awaitable[PluginInfo]) -> Json:
    return asdict(await _told(change))


async def _told(change: Awaitable[T]) -> T:
    try:
        return await change
    except PluginError as error:
        if error.kind == "unknown":
            raise not_found(error.detail) from error
        raise ApiError(HTTPStatus.CONFLICT, error.kind, error.detail) from error
