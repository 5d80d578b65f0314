"""A node that registers, takes a lease, and acts every few milliseconds while it holds it.

    registry_child.py hosts path node_id boot session_timeout [lease]

Tells what happens as lines of JSON: ``registered``, ``lease`` (its number), ``state``, ``members``; ``act`` each time
that it acts, and ``hold`` when it finds that it must not.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from twisted.internet import reactor as untyped_reactor
from twisted.internet.defer import Deferred

from iot_mqtt.cluster.registry.settings import ZooKeeperSettings
from iot_mqtt.cluster.registry.zookeeper import ZooKeeperRegistry
from iot_mqtt.pipeline.clock import ReactorClock
from iot_mqtt.ports.registry import Lease, Member

reactor: Any = untyped_reactor


def tell(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


async def live(hosts: str, path: str, node_id: str, boot: str, session_timeout: str, lease_name: str) -> None:
    settings = ZooKeeperSettings(hosts, path, float(session_timeout))
    registry = ZooKeeperRegistry(settings, ReactorClock(reactor), reactor.callFromThread)
    registry.on_state = lambda state: tell(state=state)
    registry.on_members = lambda: tell(members=sorted(registry.members))
    await registry.register(Member(node_id, 1 + "abcdefg".index(node_id), int(boot), "1.2.3"))
    tell(registered=boot)
    if not lease_name:
        return
    lease: Lease | None = None
    while lease is None:
        lease = await registry.acquire(lease_name)
    tell(lease=lease.number)
    act(lease)


def act(lease: Lease) -> None:
    # Before it is asked: whoever is stopped behind the question acts by the answer of before.
    at = time.monotonic()
    tell(**({"act": at} if lease.held else {"hold": at}))
    reactor.callLater(0.02, act, lease)


if __name__ == "__main__":
    arguments = [*sys.argv[1:], ""][:6]
    reactor.callWhenRunning(lambda: Deferred.fromCoroutine(live(*arguments)))
    reactor.run()
