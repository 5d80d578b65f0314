"""The resources about commands, devices and shadows. A target with a slash is one part of the path, percent-encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from iot_mqtt.admin.call import Call, Page, pair
from iot_mqtt.admin.device_shapes import device_schemas, of_command, of_device, of_sequence, of_shadow
from iot_mqtt.admin.errors import bad_request, conflict, existing
from iot_mqtt.admin.routes import Resource, delete, get, listing, post
from iot_mqtt.admin.schemas import Schemas
from iot_mqtt.admin.shapes import Json
from iot_mqtt.devices import Accompanied
from iot_mqtt.devices.asked import NotHis
from iot_mqtt.devices.order import read_order
from iot_mqtt.ports.devices import State, StoredCommand


class DeviceResources(Resource):
    """What one node knows of them. ``now`` is wall-clock seconds."""

    def __init__(self, devices: Accompanied, now: Callable[[], float]) -> None:
        self._commands = devices.commands
        self._devices = devices.devices
        self._shadows = devices.shadows
        self._lets = devices.lets
        self._now = now

    @listing("commands", "Commands, those that are over for a time.", "Command", "target", "state")
    async def _list(self, call: Call) -> Page:
        limit, state = call.limit, call.query.get("state")
        self._check(call, "command", call.query.get("target", ""))
        if state is not None and state not in {one.value for one in State}:
            raise bad_request(f"state must be one of {', '.join(State)}")
        found = await self._commands.page(call.query.get("target"), state, call.after_pair, limit + 1)
        shape = partial(of_command, contents=call.sees_contents)
        return call.page(found, lambda one: pair(one.owner, one.id), shape)

    @post("commands", "Send a command; answered once it is committed.", "Command", "CommandOrder")
    async def _send(self, call: Call) -> Json:
        new = read_order(call.json(), self._now())
        if call.user is not None:
            new = replace(new, users=(call.user, *new.users))
        return of_command(await self._commands.submit(new), contents=call.sees_contents)

    @get("commands/{command}", "One command; its body for operators.", "CommandWithBody", query=("target",))
    async def _show(self, call: Call) -> Json:
        found = await self._commands.with_body(await self._named(call))
        return of_command(found, contents=call.sees_contents, with_body=True)

    @delete("commands/{command}", "Take back a command that was not sent.", query=("target",))
    async def _cancel(self, call: Call) -> None:
        await self._commands.cancel(await self._named(call))

    async def _named(self, call: Call) -> StoredCommand:
        """The one command that a call names. What its user has no right to is none of his business: it is as if it were
        not there.
        """
        found = await self._commands.named(call.path["command"], call.query.get("target"))
        user = call.user
        if user is not None:
            found = [one for one in found if self._lets(user, "command", one.target)]
        if len(found) > 1:
            raise conflict(f"{len(found)} commands to different clients have this id: name the target, too")
        return existing(found[0] if found else None, f"there is no command {call.path['command']!r}")

    @listing("devices", "Gateways and the devices behind them.", "Device", "gateway")
    async def _seen(self, call: Call) -> Page:
        found = await self._devices.page(call.query.get("gateway"), call.after_pair, call.limit + 1)
        return call.page(found, lambda one: pair(one.gateway, one.device), of_device)

    @get("devices/{target}", "One gateway or device.", "Device")
    async def _device(self, call: Call) -> Json:
        gateway, _, device = call.path["target"].partition("/")
        found = await self._devices.find(gateway, device)
        return of_device(existing(found, f"{call.path['target']!r} was never seen"))

    @get("devices/{target}/sequence", "How far the frames of a gateway are safe.", "Sequence")
    async def _sequence(self, call: Call) -> Json:
        gateway = call.path["target"]
        return of_sequence(gateway, existing(await self._devices.sequence(gateway), _no_sequence(call)))

    @delete("devices/{target}/sequence", "Forget that: none of its frames counts as a repetition, in no numbering.")
    async def _forget_sequence(self, call: Call) -> None:
        existing(await self._devices.forget_sequence(call.path["target"]) or None, _no_sequence(call))

    @get("shadows/{target}", "What a device reported and what is desired; values for operators.", "Shadow")
    async def _get(self, call: Call) -> Json:
        target = call.path["target"]
        self._check(call, "shadow-read", target)
        reported, desired = await self._shadows.get(target)
        return of_shadow(target, reported, desired, contents=call.sees_contents)

    @post("shadows/{target}", "Set what is desired of a device.", "Shadow", "Desired")
    async def _desire(self, call: Call) -> Json:
        with call.json() as fields:
            values = fields.take("desired", dict)
            version = fields.take("version", int)
        if values is None:
            raise bad_request("desired is missing: an object of values by tag")
        self._check(call, "shadow-write", call.path["target"])
        await self._shadows.desire(call.path["target"], values, version)
        return await self._get(call)

    @delete("shadows/{target}", "Forget what a device reported, and whose device it is.")
    async def _forget(self, call: Call) -> None:
        self._check(call, "shadow-write", call.path["target"])
        existing(await self._shadows.forget_reported(call.path["target"]) or None, _no_shadow(call))

    def schemas(self) -> Schemas:
        return device_schemas()

    def _check(self, call: Call, action: str, target: str) -> None:
        """Raise unless the user in whose name the call is has the right; the operator's own calls need none."""
        if call.user is not None and not self._lets(call.user, action, target):
            raise NotHis(f"{call.user} may not {action} {target!r}")


def _no_sequence(call: Call) -> str:
    return f"no sequence is known of {call.path['target']!r}"


def _no_shadow(call: Call) -> str:
    return f"nothing was reported of {call.path['target']!r}"
