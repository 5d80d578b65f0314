"""The resource that says who gets what is published to a topic, as far as this node knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from iot_mqtt.admin.call import Call
from iot_mqtt.admin.callers import Role
from iot_mqtt.admin.errors import bad_request_if
from iot_mqtt.admin.routes import Resource, combined
from iot_mqtt.admin.schemas import Json, Schemas, items_of, object_of, schema_of
from iot_mqtt.admin.why.facts import Publisher
from iot_mqtt.admin.why.finding import Finding
from iot_mqtt.admin.why.topics import Retained, Subscriber, TopicFacts, answer, together
from iot_mqtt.devices.asked import Lets, NotHis
from iot_mqtt.errors import MqttError
from iot_mqtt.ports.recent import Trouble
from iot_mqtt.topics import validate_topic
from iot_mqtt.uplink.desk import RuleInfo

Known = Callable[[str], Awaitable[TopicFacts]]


class TopicWhyResources(Resource):
    """Names of clients, rules and topics are in it, so it is for operators."""

    def __init__(self, known: Known, lets: Callable[[], Lets]) -> None:
        """``lets``: the rights of users in whose name somebody asks."""
        self._known = known
        self._lets = lets

    @combined(
        "topics/{topic}/why",
        "Who gets what is published to a topic, by which subscription, and who does not, and why.",
        "TopicWhy",
        together,
        role=Role.OPERATOR,
    )
    async def _why(self, call: Call) -> Json:
        topic = call.path["topic"]
        with bad_request_if(MqttError, about="topic: "):
            validate_topic(topic)
        if call.user is not None and not self._lets()(call.user, "receive", topic):
            raise NotHis(f"{call.user} may not receive {topic!r}")
        return answer(await self._known(topic))

    def schemas(self) -> Schemas:
        text: Json = {"type": "string"}
        denied = {"client_id": text, **schema_of(Trouble)["properties"]}
        answered: Json = {
            "topic": text,
            "findings": items_of(schema_of(Finding)),
            "subscriptions": {"type": "integer", "description": "That match; of subscribers the first are listed."},
            "subscribers": items_of(schema_of(Subscriber)),
            "publishers": items_of(schema_of(Publisher)),
            "denied": items_of({"type": "object", "properties": denied}),
            "retained": {"anyOf": [schema_of(Retained), {"type": "null"}]},
            "recorded": {
                "type": "array",
                "items": {"type": "integer"},
                "description": "QoS of messages that are recorded, whoever wants them.",
            },
            "rules": items_of(schema_of(RuleInfo)),
        }
        return {"TopicWhy": object_of(answered)}
