"""From the section ``uplink.commands`` to what takes commands from Kafka."""

from __future__ import annotations

from collections.abc import Callable

from iot_mqtt.app.config.sections import Config
from iot_mqtt.broker.turn import Turn
from iot_mqtt.devices import Commands
from iot_mqtt.devices.letters import Letters
from iot_mqtt.ports.clock import Clock
from iot_mqtt.uplink.inbox.settings import InboxSettings
from iot_mqtt.uplink.kafka.settings import properties


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
