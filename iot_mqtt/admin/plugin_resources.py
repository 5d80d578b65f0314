"""The resources below ``/api/v1/plugins``: codecs of other protocols, their versions, and changing those."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus
from typing import TypeVar

from iot_mqtt.admin.call import Call, Page
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import ApiError, bad_request, not_found
from iot_mqtt.admin.routes import Resource, get, listing, post
from iot_mqtt.admin.schemas import Schemas, body_of, flag_of, items_of, object_of, schema_of
from iot_mqtt.admin.shapes import Json
from iot_mqtt.plugins.info import CheckReport, PluginError, PluginInfo, PluginPart

T = TypeVar("T")
#: Each node has its own.
_change = partial(post, role=Role.ADMIN, spread="one")


class PluginResources(Resource):
    """The plugins of one node."""

    def __init__(self, plugins: PluginPart) -> None:
        self._plugins = plugins

    @listing("plugins", "Plugins, enabled or not.", "Plugin", spread="merge", by=("name",))
    def _list(self, call: Call) -> Page:
        return call.page_of(self._plugins.info(), lambda one: one.name)

    @_change(
        "plugins",
        "Take in a wheel with this hash on the node's machine; nothing that runs is changed.",
        "Installed",
        "PluginPath",
    )
    async def _install(self, call: Call) -> Json:
        with call.json() as fields:
            path, sha256 = fields.text("path"), fields.text("sha256")
        if not path or "\0" in path:
            raise bad_request("path must name a wheel on the node's machine")
        if not sha256:
            raise bad_request("sha256 must be the hash of the wheel that may be installed")
        return {"items": await _told(self._plugins.install(path, sha256))}

    @_change(
        "plugins/wheels",
        "Take in a wheel that is sent, if it has this hash; nothing that runs is changed.",
        "Installed",
        "PluginWheel",
    )
    async def _take_in(self, call: Call) -> Json:
        with call.json() as fields:
            filename, sha256, content = fields.text("filename"), fields.text("sha256"), fields.text("content_base64")
        if not filename or not sha256 or not content:
            raise bad_request("filename, sha256 and content_base64 must be given")
        try:
            wheel = b64decode(content, validate=True)
        except ValueError as error:
            raise bad_request(f"content_base64 is no base64: {error}") from error
        return {"items": await _told(self._plugins.take_in(wheel, filename, sha256))}

    @_change(
        "plugins/{name}/check",
        "Hold a version, or the one that came last, against the codec kit, in a sandbox; takes up to some minutes.",
        "CheckReport",
        "PluginVersion",
    )
    async def _check(self, call: Call) -> CheckReport:
        with call.json() as fields:
            label = fields.text("label")
        return await _told(self._plugins.check(call.path["name"], label))

    @get("plugins/{name}", "One plugin.", "Plugin", spread="find")
    def _show(self, call: Call) -> PluginInfo:
        name = call.path["name"]
        for one in self._plugins.info():
            if one.name == name:
                return one
        raise not_found(f"there is no plugin {name!r}")

    @_change("plugins/{name}/enable", "Load it.", "Plugin", "PluginIsolation")
    async def _enable(self, call: Call) -> PluginInfo:
        with call.json() as fields:
            isolation = fields.text("isolation")
        if isolation not in (None, "inline", "process"):
            raise bad_request("isolation must be inline or process")
        return await _told(self._plugins.enable(call.path["name"], isolation))

    @_change("plugins/{name}/disable", "Let no connections in, and ask those that are there to close.", "Plugin")
    async def _disable(self, call: Call) -> PluginInfo:
        return await _told(self._plugins.disable(call.path["name"]))

    @_change(
        "plugins/{name}/reload",
        "New connections use the version that came last; others finish on theirs, or are asked to close.",
        "Plugin",
        "PluginReload",
    )
    async def _reload(self, call: Call) -> PluginInfo:
        return await _told(self._plugins.reload(call.path["name"], drain=_drain(call)))

    @_change("plugins/{name}/rollback", "New connections use the version from before.", "Plugin", "PluginReload")
    async def _rollback(self, call: Call) -> PluginInfo:
        return await _told(self._plugins.rollback(call.path["name"], drain=_drain(call)))

    def schemas(self) -> Schemas:
        path = {
            "path": {"type": "string", "minLength": 1, "description": "Absolute, on the node's machine."},
            "sha256": {"type": "string", "minLength": 1, "description": "Of the wheel, in hexadecimal."},
        }
        return {
            "Plugin": schema_of(PluginInfo),
            "Installed": object_of({"items": items_of(schema_of(PluginInfo))}),
            "PluginPath": body_of(path, "path", "sha256", audited=path),
            "PluginWheel": body_of(
                {
                    "filename": {"type": "string", "pattern": r"\.whl$"},
                    "sha256": path["sha256"],
                    "content_base64": {"type": "string", "minLength": 1, "contentEncoding": "base64"},
                },
                "filename",
                "sha256",
                "content_base64",
                audited=("filename", "sha256"),
            ),
            "PluginVersion": body_of(
                {"label": {"type": "string", "description": "Of `versions`."}}, audited=("label",)
            ),
            "CheckReport": schema_of(CheckReport),
            "PluginIsolation": body_of(
                {"isolation": {"type": ["string", "null"], "enum": ["inline", "process", None]}}
            ),
            "PluginReload": body_of({"drain": flag_of("Ask connections on other versions to close.")}),
        }


def _drain(call: Call) -> bool:
    with call.json() as fields:
        return fields.take("drain", bool) or False


async def _told(change: Awaitable[T]) -> T:
    try:
        return await change
    except PluginError as error:
        if error.kind == "unknown":
            raise not_found(error.detail) from error
        raise ApiError(HTTPStatus.CONFLICT, error.kind, error.detail) from error
