"""The topics that nodes use unless told otherwise, made in a Kafka that was started.

Kafka makes a topic by itself when somebody writes to it, and none for those who only read: commands wait for theirs.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from iot_mqtt.app.engines.errors import EngineError
from iot_mqtt.app.engines.plan import BROKER, Plan
from iot_mqtt.app.engines.process import wait_until
from iot_mqtt.uplink.kafka.settings import KafkaSettings, SecuritySettings

#: What goes up, the commands that come down, and what is rejected of both.
NAMES: Final = ("iot.readings", "iot.commands", "iot.dead")
_SECONDS: Final = 30.0


def make(plan: Plan) -> None:
    """With as many partitions as the Kafka of the plan gives each; those that are there stay as they are."""
    # Whoever has no Kafka need not wait for its library.
    from iot_mqtt.uplink.kafka.topics import Topics

    pem = plan.pem(BROKER)
    security = SecuritySettings()
    if pem is not None:
        security = SecuritySettings("ssl", str(pem.authority), str(pem.certificate), str(pem.key))
    topics = Topics(KafkaSettings(tuple(plan.addresses("kafka")), security=security))

    def made(name: str) -> bool:
        return topics.make(name) is None

    for name in NAMES:
        if not wait_until(partial(made, name), _SECONDS):
            raise EngineError(f"Kafka runs, but the topic {name} could not be made there within {_SECONDS:.0f} s")
