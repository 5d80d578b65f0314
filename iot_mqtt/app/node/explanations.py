"""Resources of the API that explain: why a client or a topic gets what it gets, and what flows in a topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iot_mqtt.admin.configuration import ListenerInfo
from iot_mqtt.admin.routes import Resource
from iot_mqtt.admin.topic_resources import TopicResources
from iot_mqtt.admin.why.resource import WhyResources
from iot_mqtt.admin.why.topic_resource import TopicWhyResources
from iot_mqtt.app.node.gateways import Gateways
from iot_mqtt.app.node.knowledge import EndsBefore, HomeOf, Knowledge
from iot_mqtt.app.node.topic_flow import TopicDesk
from iot_mqtt.app.node.topic_knowledge import TopicKnowledge
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.auth.service import Access
from iot_mqtt.broker.composition import Composition
from iot_mqtt.broker.views.view import View
from iot_mqtt.devices import Accompanied
from iot_mqtt.uplink.desk import UplinkDesk


class Explanations:
    """Of one life, once its broker is made."""

    def __init__(
        self, broker: Composition, view: View, devices: Accompanied, access: Access, gateways: Gateways
    ) -> None:
        self._broker = broker
        self._view = view
        self._devices = devices
        self._access = access
        self._gateways = gateways

    def of_clients(
        self,
        bans: BanBook,
        home_of: HomeOf | None,
        ends_before: EndsBefore,
        listeners: Callable[[], Sequence[ListenerInfo]],
        uplink: UplinkDesk | None,
    ) -> Resource:
        """Why a client comes in and gets its messages, or does not."""
        knowledge = Knowledge(
            self._view,
            bans,
            self._access,
            self._gateways,
            self._devices,
            self._broker.clock,
            home_of,
            ends_before,
            listeners,
            self._broker.monitoring.recorder,
            uplink,
            self._held_for,
        )
        return WhyResources(knowledge.facts, lambda: self._access.lets)

    def _held_for(self, client_id: str) -> int:
        """Messages of a client whose acknowledgements wait for the uplink."""
        uplink = self._broker.uplink
        return 0 if uplink is None or uplink.holding is None else uplink.holding.held_for(client_id)

    def of_topics(self, uplink: UplinkDesk | None) -> tuple[Resource, Resource]:
        """Who gets a topic and why, and what is published in it."""
        broker = self._broker
        recorder, steps = broker.monitoring.recorder, broker.routing.steps
        knowledge = TopicKnowledge(self._view, recorder, steps, uplink, self._access, broker.clock)
        desk = TopicDesk(lambda: broker, lambda: self._view.retained, broker.clock)
        return TopicWhyResources(knowledge.facts, lambda: self._access.lets), TopicResources(desk)
