"""What a topic leads to: the sessions that subscribe to it, and the steps that look at its messages."""

from __future__ import annotations

from iot_mqtt.broker.publishing.accompanying import Accompaniment, Accompany, Accompanying
from iot_mqtt.broker.publishing.batches import class_of
from iot_mqtt.broker.publishing.steps import Steps
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.topics import POLICIES, Routes


class Routing:
    """Routes that know the steps of each topic, and who knows commands."""

    def __init__(self, settings: MqttSettings) -> None:
        self.steps = Steps()
        self.routes: Routes[Session] = Routes(
            pick=POLICIES[settings.shared_policy], class_of=class_of, steps_of=self.steps.of
        )
        self.steps.watch(self.routes.forget)
        self.accompaniment = Accompaniment()

    def accompany(self, accompanying: Accompanying) -> None:
        """Somebody knows from now on what a command is."""
        self.accompaniment.by = accompanying
        self.steps.add(Accompany(accompanying))
