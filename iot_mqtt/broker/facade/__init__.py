"""What the admin side may ask of the broker; the only door from ``admin`` into it.

Answers are plain values, safe to turn into JSON. Listings are paged by key so that a node with a hundred
thousand sessions answers in bounded time and memory.
"""

from iot_mqtt.broker.facade.clients import AttemptInfo, ClientInfo, ClientsWanted
from iot_mqtt.broker.facade.cluster import (
    AWAY,
    DEFAULT_RATE,
    MAX_RATE,
    ClusterInfo,
    ClusterPart,
    DrainInfo,
    MemberInfo,
    ShareInfo,
)
from iot_mqtt.broker.facade.drops import DroppedInfo, DroppedWanted
from iot_mqtt.broker.facade.sessions import STATES, BacklogInfo, ClaimInfo, SessionInfo, SessionsWanted
from iot_mqtt.broker.facade.subscriptions import (
    GroupInfo,
    GroupShare,
    NotPermitted,
    RouteInfo,
    SubscriptionInfo,
    SubscriptionPart,
)
from iot_mqtt.broker.facade.view import BrokerView, Published

__all__ = [
    "AWAY",
    "DEFAULT_RATE",
    "MAX_RATE",
    "STATES",
    "AttemptInfo",
    "BacklogInfo",
    "BrokerView",
    "ClaimInfo",
    "ClientInfo",
    "ClientsWanted",
    "ClusterInfo",
    "ClusterPart",
    "DrainInfo",
    "DroppedInfo",
    "DroppedWanted",
    "GroupInfo",
    "GroupShare",
    "MemberInfo",
    "NotPermitted",
    "Published",
    "RouteInfo",
    "SessionInfo",
    "SessionsWanted",
    "ShareInfo",
    "SubscriptionInfo",
    "SubscriptionPart",
]
