"""From the section ``uplink`` to the parts of the uplink."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from iot_mqtt.app.config.folders import failover_dir, uplink_dir
from iot_mqtt.app.config.sections import Config
from iot_mqtt.app.node.rule_desk import Read, RuleDesk
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.turn import Turn
from iot_mqtt.broker.uplink import Holding, Ledger, Uplink
from iot_mqtt.devices import Commands
from iot_mqtt.devices.letters import Letters
from iot_mqtt.grid.places import GridPlaces
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.grid import Grid
from iot_mqtt.ports.log import Followed
from iot_mqtt.ports.registry import Registry
from iot_mqtt.ports.store import CommitOrder
from iot_mqtt.ports.uplink import Sink
from iot_mqtt.uplink.files import FileSink
from iot_mqtt.uplink.inbox.settings import InboxSettings
from iot_mqtt.uplink.kafka.settings import properties
from iot_mqtt.uplink.rulebook import RuleBook
from iot_mqtt.uplink.rules import Rule, rules_of

if TYPE_CHECKING:
    from iot_mqtt.app.node.uplink_failover import UplinkFailovers

#: Topics of the platform that mean something in any case, beside those that the configuration names.
KNOWN_TOPICS = ("iot.dead",)


class Uplinked(NamedTuple):
    """The uplink, its rules, and what operators do with those."""

    uplink: Uplink
    book: RuleBook
    desk: RuleDesk

    async def attach(self, config: Config, broker: Composition) -> None:
        """Before anything is published."""
        await attach(self.uplink, self.book, rules_of(config.uplink.rules)[0], broker)


def make_uplink(
    config: Config,
    broker: Composition,
    grid: Grid,
    number: int,
    cross: Callable[[Callable[[], None]], object],
    read: Read | None = None,
) -> Uplinked | None:
    """The uplink of ``uplink.kind``; None: there is none. ``number`` is the node's in a cluster; ``read`` reads the
    configuration again.
    """
    told = config.uplink
    if told.kind == "none":
        return None
    sink = _make_sink(config, cross)
    reserved = _reserved(config)
    book = RuleBook(grid, number, config.node.id, reserved)
    clock, turn = broker.clock, broker.turn
    ledger = Ledger(GridPlaces(grid, number), broker.log, clock, turn.reserve)
    holding = None
    if told.ack == "kafka":
        holding = Holding(ledger, broker.publishing.budget, turn.call_soon, broker.settings.receive_maximum)
    uplink = Uplink(book, sink, ledger, broker.log, clock, turn.call_soon, holding)
    desk = RuleDesk(book, uplink, broker.log, turn, clock, read, kind=told.kind, reserved=reserved)
    return Uplinked(uplink, book, desk)


async def attach(uplink: Uplink, book: RuleBook, rules: Sequence[Rule], broker: Composition) -> None:
    """Find the rules of before, and the place; what is published from now on goes up by these rules."""
    await book.load(rules, broker.log.end)
    broker.store.enlist(CommitOrder.RULES, book)
    book.changed = broker.routing.steps.changed
    await uplink.attach()
    broker.feed(uplink)
    book.safe = lambda: uplink.safe_position
    broker.turn.reserve()


def make_failovers(
    config: Config,
    broker: Composition,
    grid: Grid,
    registry: Registry,
    number: int,
    follow: Callable[[int], Awaitable[Followed]],
    cross: Callable[[Callable[[], None]], object],
) -> UplinkFailovers | None:
    """What sends up for nodes that are gone; None where nothing is sent up."""
    if config.uplink.kind == "none":
        return None
    # Late: the libraries of a cluster.
    from iot_mqtt.app.node.uplink_failover import UplinkFailovers

    return UplinkFailovers(
        grid,
        registry,
        number,
        follow,
        broker.clock,
        broker.turn.call_soon,
        lambda gone: _make_sink(config, cross, gone),
        lambda: rules_of(config.uplink.rules)[0],
    )


def _make_sink(config: Config, cross: Callable[[Callable[[], None]], object], gone: int | None = None) -> Sink:
    """``gone``: for what that node has recorded, beside this node's own."""
    told = config.uplink
    if told.kind == "kafka":
        # Whoever has no Kafka need not wait for its library.
        from iot_mqtt.uplink.kafka.sink import KafkaSink

        return KafkaSink(told.kafka, cross, time.monotonic)
    folder = uplink_dir(config) if gone is None else failover_dir(config, gone)
    return FileSink(folder, told.file, cross, time.monotonic)


def _reserved(config: Config) -> tuple[str, ...]:
    """Topics of the platform that no client may write to by what it calls itself."""
    commands, pipeline = config.uplink.commands, config.pipeline
    named = (
        commands.topic,
        commands.dead_letters,
        config.uplink.kafka.dead_letters,
        pipeline.clean.topic,
        pipeline.clean.invalid_topic,
        pipeline.alarm.topic,
        pipeline.alarm.commands_topic,
    )
    return (*KNOWN_TOPICS, *(name for name in named if name))


def make_letters(
    config: Config, commands: Commands, turn: Turn, clock: Clock, cross: Callable[[Callable[[], None]], object]
) -> Letters | None:
    """None: no commands come from Kafka."""
    told = config.uplink.commands
    if config.uplink.kind != "kafka" or told.topic is None:
        return None
    # Whoever has no Kafka need not wait for its library.
    from iot_mqtt.uplink.inbox.kafka import KafkaInbox

    settings = InboxSettings(
        connection=properties(config.uplink.kafka),
        topic=told.topic,
        group=told.group,
        member=config.node.id,
        dead_letters=told.dead_letters,
        max_age=told.max_age,
    )
    inbox = KafkaInbox(settings, cross, clock.monotonic, clock.wall)
    return Letters(commands, inbox, turn, clock, told.max_age, told.user or None)
