"""A node with commands, devices and shadows on the broker's harness; and what its clients say and hear."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from iot_mqtt.app.node.parts import make_accompanied
from iot_mqtt.codec import Ack, PacketType, Publish
from iot_mqtt.devices import DevicesSettings
from iot_mqtt.devices.link.services import Verdict
from iot_mqtt.grid.devices import GridDeviceStore
from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal
from iot_mqtt.ports.devices import StoredCommand
from tests.unit.broker.harness import Client, Node, run


class LetIn:
    """Everybody is who he says he is; whoever says nothing is anonymous."""

    async def authenticate(self, attempt: ConnectAttempt) -> Principal | Denied:
        return Principal(attempt.client_id, attempt.username, anonymous=attempt.username is None)


class DeviceNode(Node):
    """``restart`` takes everything with it but the grid, as for the broker."""

    def __init__(self, devices: DevicesSettings | None = None, **rest: Any) -> None:
        self.devices_settings = devices or DevicesSettings()
        #: Commands that were begun and of which a link was told that they are over.
        self.over: list[str] = []
        #: Identities of users who were deleted or disabled.
        self.gone: set[str] = set()
        #: What nobody may publish to any more.
        self.forbidden: set[str] = set()
        super().__init__(**rest)

    def _begin(self) -> None:
        super()._begin()
        self.kept = GridDeviceStore(self.grid)
        self.accompanied = make_accompanied(self.broker, self.kept, self.devices_settings, self)
        run(self.accompanied.load(self.broker.routing.accompany))
        self.turn()

    def lets(self, user: str, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        """Whoever is named may do what begins with his name."""
        return asked.startswith(user)

    def allows(self, who: Principal, action: str, asked: str, qos: int = 1, *, retain: bool = False) -> bool:
        """Whoever may come may do what is not forbidden."""
        return self.may_come(who) and asked not in self.forbidden

    def may_come(self, who: Principal) -> bool:
        return who.identity not in self.gone

    def named(self, user: str) -> Principal:
        return Principal("", user)

    def pass_time(self, seconds: float) -> None:
        """With the sweep that the service makes."""
        self.advance(seconds)
        self.accompanied.sweep()
        self.turn()

    def listener(self, *filters: str) -> Client:
        """Somebody who hears all states, across any number of lives."""
        client = self.connect("listener", expiry=3600)
        client.subscribe(*(filters or ("status/#",)), qos=1)
        return client

    def device(self, client_id: str = "d1", *, filter: str | None = None, **rest: Any) -> Client:
        """An MQTT device with a session, connected."""
        client = self.connect(client_id, clean=False, expiry=3600, **rest)
        client.subscribe(filter or f"down/{client_id}/#", qos=1)
        return client

    def record(self, command_id: str) -> StoredCommand:
        """What the store has of a command."""

        async def find() -> StoredCommand:
            async for record in self.kept.commands():
                if record.id == command_id:
                    return record
            raise AssertionError(f"no record of {command_id}")

        return run(find())

    def state(self, command_id: str) -> str:
        return self.record(command_id).state.value

    def find(self, command_id: str, target: str | None = None) -> StoredCommand | None:
        """What the API finds, with its body."""
        commands = self.accompanied.commands
        found = run(commands.named(command_id, target))
        return run(commands.with_body(found[0])) if found else None

    def commands(self) -> list[StoredCommand]:
        """All records of the store."""

        async def everything() -> list[StoredCommand]:
            return [record async for record in self.kept.commands()]

        return run(everything())

    def count(self) -> int:
        """Records of commands in the store."""
        return len(self.commands())

    def begin(self, command_id: str, target: str = "gw/dev1") -> list[Verdict]:
        """What a gateway's link is told."""
        told: list[Verdict] = []
        gateway, _, device = target.partition("/")
        self.accompanied.states.of(gateway).begin(command_id, device, told.append, lambda: self.over.append(command_id))
        self.turn()
        return told


def order(sender: Client, target: str, body: bytes = b"{}", *, id: str = "c1", qos: int = 1, **options: Any) -> None:
    """Send a command; ``options`` are ``retry``, ``key``, ``reply``, ``response_topic`` …"""
    pairs = [("command-id", id)] if id else []
    for name, written in (("retry", "retry"), ("key", "idempotency-key"), ("reply", "wants-reply")):
        if name in options:
            pairs.append((written, options.pop(name)))
    (answer,) = sender.publish(f"down/{target}", body, qos=qos, user_properties=tuple(pairs), **options)
    assert isinstance(answer, Ack)
    assert answer.reason < 0x80, answer


def states(listener: Client) -> list[str]:
    """The states that came since, in order; everything is confirmed."""
    return [status["state"] for status in statuses(listener)]


def statuses(listener: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while messages := listener.messages():
        found += [json.loads(message.payload) for message in messages]
        listener.ack(PacketType.PUBACK, *(message.packet_id for message in messages))
    return found


def confirm(device: Client, messages: list[Publish]) -> None:
    device.ack(PacketType.PUBACK, *(message.packet_id for message in messages))


def command_of(message: Publish) -> str | None:
    return next((value for name, value in message.properties.user_properties or () if name == "command-id"), None)


def until(node: DeviceNode, call: Callable[[], bool], seconds: float = 5.0) -> None:
    """Let time pass until something is so."""
    passed = 0.0
    while not call():
        assert passed < seconds, "it never is"
        node.pass_time(0.25)
        passed += 0.25
