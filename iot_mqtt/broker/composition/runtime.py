"""What every part of a node's broker runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iot_mqtt.broker.retention_clock import RetentionClock
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.broker.turn import Turn
from iot_mqtt.pipeline import TimingWheel
from iot_mqtt.ports.clock import Clock
from iot_mqtt.ports.counters import Counters
from iot_mqtt.ports.log import Log
from iot_mqtt.ports.store import Store


@dataclass(frozen=True, slots=True)
class Runtime:
    """Handed to the compositions of one node, which give each part what it uses of it."""

    settings: MqttSettings
    store: Store
    log: Log
    counters: Counters
    clock: Clock
    #: By which messages are removed, and what records say is over.
    time: RetentionClock
    wheel: TimingWheel
    turn: Turn
    call_soon: Callable[[Callable[[], None]], None]
