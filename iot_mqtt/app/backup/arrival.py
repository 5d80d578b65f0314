"""A sole node that has become part of a cluster: a node with number 0 that is dead.

A sole node writes its log under number 0, and positions in that log are everywhere in what it keeps. So nothing is
rewritten: the grid of the cluster gets its entries as they are, and the records that a node leaves which was in the
cluster and died. What follows is what the nodes do anyway: they take its sessions over and read its log to the end.

    META      number/000     boot 1, nothing cleaned
              boot           1
    channels  client id      at home in that life, for each session and will; and so are the groups of its log
    routes    0 │ filter     what its sessions want, until somebody has them
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.broker.shared_groups import home_of
from iot_mqtt.cluster import channels
from iot_mqtt.cluster.joining import Known, boot_record, known_record
from iot_mqtt.cluster.roster import Life
from iot_mqtt.grid.records.keys import ROUTE, route_key, split_prefix
from iot_mqtt.ports.grid import CacheName
from iot_mqtt.topics import parse_replay

#: The life that the sole node had, as the cluster sees it.
LIFE: Final = Life(0, 1)

Entry = tuple[CacheName, bytes, bytes]


def node_records(node_id: str) -> Iterator[Entry]:
    """What a cluster knows of a node. The name is one that no node can be given."""
    yield known_record(Known(LIFE.number, f"{node_id} (migrated)", LIFE.boot, 0))
    yield boot_record(LIFE.boot)
    yield home_record(home_of(LIFE.number).encode())


def derived_record(cache: CacheName, key: bytes) -> Entry | None:
    """What an entry of a sole node's makes necessary in a cluster."""
    if cache in (CacheName.SESSIONS, CacheName.WILLS):
        return home_record(key)
    if cache is CacheName.SUBSCRIPTIONS:
        filter = split_prefix(key)[1].decode()
        replay = parse_replay(filter)
        return CacheName.ROUTES, route_key(LIFE.number, filter if replay is None else replay[1]), ROUTE
    return None


def home_record(client_id: bytes) -> Entry:
    """A client's session was at home there."""
    return CacheName.CHANNELS, client_id, channels.write(channels.Home(LIFE, 1))
