"""Links: what nodes tell each other directly, once and in order, and told when something is missing."""

from iot_mqtt.cluster.links.figures import LinkFigures
from iot_mqtt.cluster.links.link import Condition, Link
from iot_mqtt.cluster.links.links import Done, LinkEvents, Links, topic_of
from iot_mqtt.cluster.links.settings import LinkSettings
from iot_mqtt.cluster.links.values import (
    DURABLE,
    LIVE,
    Heartbeat,
    Item,
    LinkError,
    Reply,
    Request,
    RequestRefused,
    Retained,
    Route,
    Routes,
    RoutesAck,
    Unknown,
)

__all__ = [
    "DURABLE",
    "LIVE",
    "Condition",
    "Done",
    "Heartbeat",
    "Item",
    "Link",
    "LinkError",
    "LinkEvents",
    "LinkFigures",
    "LinkSettings",
    "Links",
    "Reply",
    "Request",
    "RequestRefused",
    "Retained",
    "Route",
    "Routes",
    "RoutesAck",
    "Unknown",
    "topic_of",
]
