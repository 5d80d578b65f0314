"""A gateway's connection to a broker in this process, with a codec of lines that says just what a test wants.

::

    world = World()
    gateway = world.gateway("line-1")           # connected and logged in
    gateway.say('r press {"t": 1} 7', "safe 7")  # a reading with the number 7, and "tell me when it is safe"
    assert gateway.heard() == ["safe 7"]
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from iot_mqtt.broker.connections.connection import Connection, Kind
from iot_mqtt.devices.link import Captures, DeviceStage, LinkServices, LinkSettings
from iot_mqtt.devices.link.counters import LinkCounters, LinksCounters
from iot_mqtt.devices.link.repetitions import Repetitions
from iot_mqtt.devices.link.services import KnownDevices, Verdict
from iot_mqtt.devices.link.turns import FrameTurns
from iot_mqtt.framing import Framing
from iot_mqtt.pipeline import Layout
from iot_mqtt.plugins.calling import Calling
from iot_mqtt.plugins.inline import InlineRunner
from iot_mqtt.plugins.running import NotAvailable, Opened, Runner, Sink
from iot_mqtt.ports.devices import NO_SEQUENCE
from iot_mqtt.sdk import (
    Answer,
    BadFrame,
    CannotEncode,
    Close,
    Codec,
    Command,
    Event,
    Heartbeat,
    Line,
    Login,
    Readings,
    Schema,
    Send,
    Value,
    WhenSafe,
)
from iot_mqtt.sdk.checking import Checker
from tests.doubles.channel import EmbeddedChannel
from tests.unit.broker.harness import Node


class Lines(Codec):
    """Every line is one event."""

    framing = Line(max_frame=4096)
    schema = Schema(version=3)
    version = "1.2"

    def decode(self, frame: bytes) -> Iterable[Event]:
        word, _, rest = frame.decode().partition(" ")
        match word:
            case "login":
                name, _, user = rest.partition(" ")
                return [Login(name, user or None, b"secret" if user else None, heartbeat=10)]
            case "r":
                device, _, values = rest.partition(" ")
                found, end = json.JSONDecoder().raw_decode(values)
                number = values[end:].strip()
                return [Readings(device, found, time=1_000, sequence=int(number) if number else None)]
            case "safe":
                return [WhenSafe(int(rest))]
            case "answer":
                number, _, text = rest.partition(" ")
                return [Answer(int(number), text == "ok", "" if text == "ok" else text, {"seen": 1})]
            case "beat":
                return [Heartbeat(), Send(b"beat\n")]
            case "bye":
                return [Close("it said so")]
            case "crash":
                raise RuntimeError("a bug")
        raise BadFrame("unknown_word", word)

    def welcome(self) -> bytes:
        return b"welcome\n"

    def refuse(self, reason: str) -> bytes:
        return f"refused {reason}\n".encode()

    def safe(self, token: int) -> bytes:
        return f"safe {token}\n".encode()

    def encode(self, command: Command) -> bytes:
        if command.values.get("impossible"):
            raise CannotEncode("no such register")
        if command.values.get("bug"):
            return str(command.values["bug"])  # type: ignore[return-value]
        return f"do {command.number} {command.device} {command.body.decode()}\n".encode()

    def idle(self) -> Iterable[Event]:
        return [Send(b"there?\n")]


class OneCodec:
    """``Plugins`` with one codec, which can be away."""

    def __init__(self) -> None:
        self.away: str | None = None
        self.framing: Framing = Lines.framing
        self.answers = True
        #: What it has still to do; None: it does all at once.
        self.later: deque[Callable[[], object]] | None = None
        self.opened: list[Opened] = []

    def open(self, name: str, peer: str, sink: Sink) -> Opened:
        if self.away is not None:
            raise NotAvailable("disabled", self.away)
        calling = Calling(
            Lines, None, Checker(), peer=peer, log=logging.getLogger("lines"), count=lambda _name, _count: None
        )
        runner = InlineRunner(calling, sink, Lenient(), peer=peer, slow=1e9, now=lambda: 0.0)
        used: Runner = runner if self.later is None else cast("Runner", Later(runner, self.later))
        opened = Opened(used, self.framing, name, Lines.version, Lines.schema.version, answers=self.answers)
        self.opened.append(opened)
        return opened


class Later:
    """A runner whose codec does everything later, in its order, as one in a worker process."""

    def __init__(self, runner: Runner, later: deque[Callable[[], object]]) -> None:
        self._runner = runner
        self._later = later

    def decode(self, frames: list[bytes]) -> bool:
        for frame in frames:
            self._later.append(partial(self._runner.decode, [frame]))
        return True

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._runner, name)
        return act if name == "close" else lambda *given: self._later.append(partial(act, *given))


class Lenient:
    """Nobody is judged."""

    def failed(self, runner: InlineRunner, kind: str, detail: str) -> None: ...

    def failed_to_encode(self, runner: InlineRunner, kind: str, detail: str) -> None: ...

    def took(self, runner: InlineRunner, seconds: float, frames: int) -> None: ...

    def admits(self, runner: InlineRunner) -> bool:
        return True

    def closed(self, runner: InlineRunner) -> None: ...


class Notes:
    """``Devices`` and ``Commands`` that write down what they are told."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []
        self.highest: dict[str, int] = {}
        self.verdict = Verdict(send=True)
        self.retry: set[str] = set()
        self.over: dict[str, Callable[[], None]] = {}
        self.waiting: list[Callable[[], None]] | None = None

    def known(self, gateway: str, done: Callable[[], None]) -> None:
        if self.waiting is None:
            done()
        else:
            self.waiting.append(done)

    def login(self, gateway: str, *, codec: str, version: str, peer: str, epoch: int = 0) -> int:
        self.log.append(("login", gateway, codec, version))
        return self.highest.get(gateway, NO_SEQUENCE)

    def left(self, gateway: str, peer: str = "") -> None:
        self.log.append(("left", gateway))

    def seen(self, gateway: str, device: str, *, readings: int = 1) -> None:
        self.log.append(("seen", gateway, device, readings))

    def values(self, gateway: str, device: str, values: Mapping[str, Value] | bytes, at: int) -> None:
        self.log.append(("values", device, json.loads(values) if isinstance(values, bytes) else dict(values), at))

    def is_fresh(self, gateway: str, sequence: int, handed: int) -> bool:
        return sequence > max(handed, self.highest.get(gateway, NO_SEQUENCE))

    def taken(self, gateway: str, sequence: int) -> None:
        self.highest[gateway] = sequence

    def not_taken(self, gateway: str, sequence: int) -> None:
        self.highest[gateway] = sequence

    def begin(self, command_id: str, device: str, done: Callable[[Verdict], None], over: Callable[[], None]) -> None:
        self.log.append(("begin", command_id))
        if self.verdict.send:
            self.over[command_id] = over
        done(self.verdict)

    def answered(self, command_id: str, ok: bool, detail: str = "", values: Mapping[str, Value] | None = None) -> None:
        self.log.append(("answered", command_id, ok, detail))
        self.is_over(command_id)

    def failed(self, command_id: str, reason: str) -> None:
        self.log.append(("failed", command_id, reason))
        self.is_over(command_id)

    def is_over(self, command_id: str) -> None:
        """It has its end; its link is told once."""
        over = self.over.pop(command_id, None)
        if over is not None:
            over()

    def refused(self, command_id: str, target: str, reason: str) -> None:
        self.log.append(("refused", command_id, target, reason))

    def link_lost(self, command_ids: Iterable[str]) -> None:
        if ids := list(command_ids):
            self.log.append(("lost", *ids))
        for one in ids:
            self.over.pop(one, None)

    def allows_retry(self, command_id: str) -> bool:
        return command_id in self.retry

    def deadline(self, command_id: str) -> int | None:
        return None


class World:
    """A node with a listener of gateways."""

    def __init__(
        self,
        node: Node | None = None,
        captures: Path | None = None,
        devices: KnownDevices | None = None,
        **settings: int,
    ) -> None:
        self.node = node or Node()
        self.plugins = OneCodec()
        self.notes = Notes()
        self.links = LinksCounters()
        node = self.node
        self.captures = Captures(captures or Path("captures"), node.clock)

        def now() -> int:
            return int(node.clock.wall() * 1000)

        services = LinkServices(
            "n1",
            self.plugins,
            self.notes if devices is None else devices,
            lambda _: self.notes,
            self.links,
            self.captures,
            Repetitions(now, node.broker.counters.recent.note),
            now=now,
            call_soon=node._soon.append,
            turns=FrameTurns(node.clock.monotonic, node._soon.append),
        )
        self.turns = services.turns
        told = LinkSettings("lines", **settings)
        broker = node.broker
        self.layout = Layout(
            [
                ("device", lambda: DeviceStage(services, told)),
                ("broker", lambda: Connection(broker.serving(Kind(patient=True)))),
            ]
        )

    @property
    def counters(self) -> LinkCounters:
        return self.links.of("lines")

    def catch_up(self) -> None:
        """The codec does what it has still to do, and the turns end."""
        later = self.plugins.later
        while later:
            later.popleft()()
            self.node.turn()

    def open(self) -> Gateway:
        """A gateway that has said nothing."""
        return Gateway(self)

    def gateway(self, name: str = "line-1", user: str = "") -> Gateway:
        """A gateway that is let in."""
        gateway = self.open()
        gateway.say(f"login {name} {user}".strip())
        assert gateway.heard() == ["welcome"]
        return gateway


class Gateway:
    """One connection from the gateway's side."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.wire = EmbeddedChannel(world.layout, clock=world.node.clock, wheel=world.node.wheel)
        world.node.turn()

    def say(self, *lines: str) -> None:
        """These lines in one piece; then the turn ends."""
        self.wire.feed("".join(f"{line}\n" for line in lines).encode())
        self.world.node.turn()

    def heard(self) -> list[str]:
        """What came since the last time."""
        return self.wire.take().decode().split("\n")[:-1]

    @property
    def closed(self) -> bool:
        return self.wire.closed

    def hang_up(self) -> None:
        """The cable is pulled."""
        self.wire.peer_closes()
        self.world.node.turn()


def command(world: World, body: bytes, device: str = "press", **properties: Any) -> None:
    """Somebody sends it to a device of ``line-1``."""
    sender = world.node.connect("sender")
    sender.publish(f"down/line-1/{device}", body, qos=1, **properties)
