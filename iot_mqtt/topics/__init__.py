"""Topics: filters, routes with their memo, shared groups, retained messages. Pure: no clock, no socket."""

from iot_mqtt.topics.filter_set import FilterSet
from iot_mqtt.topics.filters import (
    MAX_LEVELS,
    covers,
    is_wildcard,
    matches,
    overlaps,
    parse_replay,
    parse_shared,
    prefixes_of,
    validate_filter,
    validate_topic,
)
from iot_mqtt.topics.match import MIXED, Match, Mixed, SharedRoute
from iot_mqtt.topics.policies import (
    POLICIES,
    HashClient,
    HashTopic,
    LeastInflight,
    Policy,
    RoundRobin,
    Sticky,
)
from iot_mqtt.topics.reserved import RESERVED, is_notice_of_a_bridge, is_reserved
from iot_mqtt.topics.retained import LOOK, Page, RetainedIndex
from iot_mqtt.topics.route import Receiver, Route, combined, merged
from iot_mqtt.topics.routes import PolicyFactory, Routes
from iot_mqtt.topics.shared import SharedGroup
from iot_mqtt.topics.sorted_topics import Effort

__all__ = [
    "combined",
    "Effort",
    "LOOK",
    "MAX_LEVELS",
    "MIXED",
    "POLICIES",
    "FilterSet",
    "HashClient",
    "HashTopic",
    "LeastInflight",
    "Match",
    "Mixed",
    "Page",
    "Policy",
    "PolicyFactory",
    "RESERVED",
    "Receiver",
    "RetainedIndex",
    "RoundRobin",
    "Route",
    "Routes",
    "SharedGroup",
    "SharedRoute",
    "Sticky",
    "covers",
    "is_notice_of_a_bridge",
    "is_reserved",
    "is_wildcard",
    "matches",
    "merged",
    "overlaps",
    "prefixes_of",
    "parse_replay",
    "parse_shared",
    "validate_filter",
    "validate_topic",
]
