"""The resources about commands, devices and shadows. A target with a slash is one part of the path, percent-encoded."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote

from iot_mqtt.admin import shapes
from iot_mqtt.admin.call import Call
from iot_mqtt.admin.device_shapes import of_command, of_device, of_shadow
from iot_mqtt.admin.errors import bad_request, not_found
from iot_mqtt.admin.routes import Route
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.order import read_order
from iot_mqtt.devices.shadows import difference
from iot_mqtt.ports.devices import State

_PAGE = ("after", "limit")


class DeviceResources:
    """What one node knows of them. ``now`` is wall-clock seconds."""

    def __init__(self, devices: Accompanied, now: Callable[[], float]) -> None:
        self._commands = devices.commands
        self._devices = devices.devices
        self._shadows = devices.shadows
        self._now = now

    @property
    def routes(self) -> tuple[Route, ...]:
        """Its part of the table."""
        return (
            Route(
                "GET",
                "commands",
                "Commands, those that are over for a time.",
                self._list,
                ("target", "state", *_PAGE),
                "Command",
                paged=True,
            ),
            Route(
                "POST",
                "commands",
                "Send a command; answered once it is committed.",
                self._send,
                answer="Command",
                body="CommandOrder",
            ),
            Route("GET", "commands/{command}", "One command.", self._show, answer="CommandWithBody"),
            Route("DELETE", "commands/{command}", "Take back a command that was not sent.", self._cancel),
            Route(
                "GET",
                "devices",
                "Gateways and the devices behind them.",
                self._seen,
                ("gateway", *_PAGE),
                "Device",
                paged=True,
            ),
            Route("GET", "devices/{target}", "One gateway or device.", self._device, answer="Device"),
            Route("GET", "shadows/{target}", "What a device reported and what is desired.", self._get, answer="Shadow"),
            Route(
                "POST",
                "shadows/{target}",
                "Set what is desired of a device.",
                self._desire,
                answer="Shadow",
                body="Desired",
            ),
        )

    async def _list(self, call: Call) -> Json:
        limit, state = call.limit, call.query.get("state")
        if state is not None and state not in {one.value for one in State}:
            raise bad_request(f"state must be one of {', '.join(State)}")
        found = await self._commands.page(call.query.get("target"), state, _read_cursor(call.after), limit + 1)
        cursor = _cursor(found[limit - 1].owner, found[limit - 1].id) if len(found) > limit else None
        return shapes.page([of_command(command) for command in found], limit, cursor)

    async def _send(self, call: Call) -> Json:
        return of_command(await self._commands.submit(read_order(call.json(), self._now())))

    async def _show(self, call: Call) -> Json:
        command = await self._commands.find(call.path["command"])
        if command is None:
            raise _no_command(call)
        return of_command(command, with_body=True)

    async def _cancel(self, call: Call) -> None:
        if await self._commands.cancel(call.path["command"]) is None:
            raise _no_command(call)

    async def _seen(self, call: Call) -> Json:
        limit = call.limit
        found = await self._devices.page(call.query.get("gateway"), _read_cursor(call.after), limit + 1)
        cursor = _cursor(found[limit - 1].gateway, found[limit - 1].device) if len(found) > limit else None
        return shapes.page([of_device(device) for device in found], limit, cursor)

    async def _device(self, call: Call) -> Json:
        gateway, _, device = call.path["target"].partition("/")
        found = await self._devices.find(gateway, device)
        if found is None:
            raise not_found(f"{call.path['target']!r} was never seen")
        return of_device(found)

    async def _get(self, call: Call) -> Json:
        target = call.path["target"]
        reported, desired = await self._shadows.get(target)
        return of_shadow(target, reported, desired, difference(reported, desired))

    async def _desire(self, call: Call) -> Json:
        fields = call.json()
        values = fields.take("desired", dict)
        version = fields.take("version", int)
        fields.finish()
        if values is None:
            raise bad_request("desired is missing: an object of values by tag")
        await self._shadows.desire(call.path["target"], values, version)
        return await self._get(call)


def _no_command(call: Call) -> Exception:
    return not_found(f"there is no command {call.path['command']!r}")


def _cursor(first: str, second: str) -> str:
    return f"{quote(first, safe='')}/{quote(second, safe='')}"


def _read_cursor(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    first, slash, second = cursor.partition("/")
    if not slash:
        raise bad_request("after must be what the page before gave")
    return unquote(first), unquote(second)
