"""What is the matter where messages go through: this node, its disk, the grid, other nodes, the uplink."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iot_mqtt.admin.why.facts import Facts
from iot_mqtt.admin.why.finding import Finding, Weight
from iot_mqtt.ports.alarms import AlarmKind

#: Seconds by which an uplink that is behind is worth a word.
_LATE: Final = 10.0

_NETWORK: Final = "look at the network between the two nodes; iot-mqtt ctl cluster status"
#: States of the node that has the session → the code, the weight, what is the matter, and what would help.
_HOMES: Final = {
    "dead": (
        "home_dead",
        Weight.STOPS,
        "its session is on {node}, which is dead: another node is about to take it over",
        "iot-mqtt ctl cluster status",
    ),
    "silent": (
        "link_cut",
        Weight.STOPS,
        "its session is on {node}, which is not heard: what is published here waits in the log",
        _NETWORK,
    ),
    "deaf": (
        "link_cut",
        Weight.DELAYS,
        "its session is on {node}, which does not hear this node: what is published here reaches it late",
        _NETWORK,
    ),
}


def findings(facts: Facts, *, needs_uplink: bool) -> Iterator[Finding]:
    """Nearest to the client first. ``needs_uplink``: something that is asked about waits for the uplink."""
    yield from _home(facts)
    yield from _node(facts)
    yield from _room(facts)
    yield from _links(facts)
    yield from _uplink(facts, Weight.DELAYS if needs_uplink else Weight.SAYS)


def _home(facts: Facts) -> Iterator[Finding]:
    home = facts.home
    if home is None or home.state == "self":
        return
    if home.state in _HOMES:
        code, weight, text, helps = _HOMES[home.state]
        yield Finding(code, weight, text.format(node=home.node), None, facts.node, helps)
    else:
        text = f"its session is on {home.node}"
        yield Finding("at_home_elsewhere", Weight.SAYS, text, None, facts.node, f"ask {home.node}")


def _node(facts: Facts) -> Iterator[Finding]:
    broker = facts.broker
    if broker is None or broker.state == "serving":
        return
    over = None if facts.cluster is None else facts.cluster.over
    if over is not None:
        text = f"this node is cut off, it is not part of the cluster any more ({over}): it has sent its clients away"
        helps = "look at the network between this node, the grid and the registry; iot-mqtt ctl cluster status"
        yield Finding("node_cut_off", Weight.STOPS + 1, text, None, facts.node, helps)
        return
    # Where nobody knows the client it has not tried to come, either.
    weight = Weight.DELAYS if facts.client is not None else Weight.STOPS if facts.known else Weight.SAYS
    if broker.state in ("draining", "drained", "rebalancing"):
        text = f"this node is {broker.state}: it takes no clients, and sends away those that it has"
        yield Finding("node_drained", weight, text, None, facts.node, "iot-mqtt ctl node resume")
    else:
        text = f"this node lets nobody in: it is {broker.state.replace('_', ' ')}"
        yield Finding("node_unavailable", weight, text, None, facts.node, "iot-mqtt ctl cluster status")


def _room(facts: Facts) -> Iterator[Finding]:
    log, cluster = facts.log, facts.cluster
    if log is not None and log.disk_level == "full":
        what = "grid" if cluster is not None and cluster.clustered else "disk"
        room = (
            f"{log.disk_used} of {log.disk_limit} bytes are used"
            if log.disk_limit
            else f"{log.disk_free} bytes are free, which log.disk_reserve keeps"
        )
        room += f", {log.inodes_free} of {log.inodes} inodes are free" if log.inodes else ""
        text = f"the {what} is full: {room}, so nothing of QoS 1 or 2 that would have to be kept is taken"
        helps = (
            "make room; log.disk_limit, log.retention" if what == "disk" else "give the grid more room; log.retention"
        )
        yield Finding(f"{what}_full", Weight.LOSES, text, None, facts.node, helps)
    trouble = cluster.grid_trouble if cluster is not None else None
    if trouble is not None:
        text = f"the grid does not take writes: {trouble}; nothing of QoS 1 or 2 is acknowledged until it does"
        yield Finding("grid_trouble", Weight.LOSES, text, None, facts.node, "iot-mqtt ctl cluster status")
    for alarm in facts.alarms:
        if alarm.kind is AlarmKind.GRID_DAMAGED:
            yield Finding("grid_damaged", Weight.LOSES, alarm.text, None, facts.node, "iot-mqtt backup restore")
    if facts.unanswered:
        text = f"the store did not answer in time, so that this is not known: {', '.join(facts.unanswered)}"
        yield Finding("store_unanswered", Weight.DELAYS, text, None, facts.node, "iot-mqtt ctl cluster status")


def _links(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    if cluster is None or not cluster.clustered:
        return
    if cluster.registry not in ("connected", "none"):
        text = f"the registry is {cluster.registry}: {cluster.registry_trouble or 'it does not answer'}"
        yield Finding("registry_away", Weight.DELAYS, text, None, facts.node, "iot-mqtt ctl cluster status")
    for member in cluster.members:
        if member.state not in ("silent", "deaf"):
            continue
        heard = "is not heard" if member.state == "silent" else "does not hear this node"
        text = f"the link to {member.node_id} is cut: it {heard}; what is published there reaches clients here late"
        yield Finding("link_cut", Weight.DELAYS, text, None, facts.node, _NETWORK)


def _uplink(facts: Facts, weight: Weight) -> Iterator[Finding]:
    uplink = facts.uplink
    if uplink is None:
        return
    helps = "iot-mqtt ctl uplink status"
    since = facts.now - uplink.lag_seconds
    if uplink.trouble is not None:
        text = f"the uplink ({uplink.kind}) takes no messages: {uplink.trouble}; {uplink.lag_messages} messages wait"
        code = "kafka_down" if uplink.kind == "kafka" else "uplink_down"
        yield Finding(code, weight, text, since, facts.node, helps)
    # What stands in a file that is not finished yet waits as well, and is where it should be.
    if uplink.lag_seconds > _LATE and (uplink.unread_messages or uplink.trouble is not None):
        text = (
            f"the uplink ({uplink.kind}) is behind: {uplink.lag_messages} messages wait, "
            f"the oldest for {uplink.lag_seconds:.0f} s"
        )
        yield Finding("uplink_behind", weight, text, since, facts.node, helps)
