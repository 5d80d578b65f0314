"""Durable shared groups: ``$share/…`` subscriptions with a member that is kept while it is away.

``SharedGroups`` is what the rest of a node knows; ``GroupCursor`` and ``Leader`` are the origins of what sessions have
under way of groups, and ``RemoteMember`` and ``GroupKeeper`` stand for other nodes in the routing table.
"""

from iot_mqtt.broker.shared_groups.cursor import GroupCursor
from iot_mqtt.broker.shared_groups.leadership import Leadership
from iot_mqtt.broker.shared_groups.member_side import Leader
from iot_mqtt.broker.shared_groups.members import GroupKeeper, RemoteMember
from iot_mqtt.broker.shared_groups.names import home_of, part_name, writer_at_home
from iot_mqtt.broker.shared_groups.shared_groups import SharedGroups

__all__ = [
    "GroupCursor",
    "GroupKeeper",
    "Leader",
    "Leadership",
    "RemoteMember",
    "SharedGroups",
    "home_of",
    "part_name",
    "writer_at_home",
]
