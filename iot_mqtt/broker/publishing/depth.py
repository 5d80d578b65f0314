"""Topics with more levels than may be: whoever publishes there is told so, and nothing is looked up by them."""

from __future__ import annotations

from iot_mqtt.broker.publication import Publication
from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.broker.publishing.steps import Sender, Step
from iot_mqtt.errors import ReasonCode, Refused


class Depth(Step):
    """Asked once for a topic, as every step; filters, wills and what the API publishes are checked where they come."""

    __slots__ = ("_most",)

    alone = True
    prefixes = ()

    def __init__(self, most: int) -> None:
        self._most = most

    @property
    def slashes(self) -> int:
        return self._most

    def concerns(self, topic: bytes) -> bool:
        return topic.count(b"/") >= self._most

    def take(self, publication: Publication, sender: Sender | None) -> Outcome | None:
        raise Refused(f"topic has more than {self._most} levels", ReasonCode.TOPIC_NAME_INVALID)
