"""JSON of so many levels that Python can just read it, and not write it any more: it costs nobody anything."""

from __future__ import annotations

import logging

import pytest

from iot_mqtt.devices.link.messages import command_values
from iot_mqtt.grid.devices import encode_command
from iot_mqtt.ports.devices import State, StoredCommand
from iot_mqtt.ports.grid import CacheName, WriteBatch
from iot_mqtt.ports.json_reader import MAX_DEPTH
from tests.unit.broker.harness import run
from tests.unit.devices.devicekit import DeviceNode, order, states

#: Where a member of an object is refused, where Python's limits are, and far behind them.
DEPTHS = (MAX_DEPTH, 300, *range(940, 990, 5), 100_000)


def deep(depth: int) -> bytes:
    """An object with a value of so many levels."""
    return b'{"a":' + b"[" * depth + b"]" * depth + b"}"


def stored(node: DeviceNode, cache: CacheName, key: bytes, value: bytes) -> None:
    batch = WriteBatch()
    batch.put(cache, key, value)
    run(node.grid.commit(batch))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_reply_is_not_understood(depth: int) -> None:
    """The command can be answered all the same, and the node goes on."""
    node = DeviceNode()
    listener, device = node.listener(), node.device()
    order(node.connect("s"), "d1", reply="yes")
    device.messages()
    states(listener)
    device.publish("reply/c1", b'{"values":' + deep(depth) + b"}", qos=1)
    assert (node.accompanied.states.bad_replies, node.state("c1")) == (1, "sent")
    device.publish("reply/c1", b'{"values":' + deep(MAX_DEPTH - 2) + b"}", qos=1)
    assert (states(listener), node.state("c1")) == (["acked"], "acked")


@pytest.mark.parametrize("depth", DEPTHS[1:])
def test_a_record_that_is_too_deep_keeps_no_node_from_starting(depth: int) -> None:
    """It is reported as unreadable, and the commands beside it are there."""
    node = DeviceNode()
    node.device()
    order(node.connect("s"), "d1", id="c2")
    record = encode_command(StoredCommand("c1", "d1", State.ACKED, 1.0, values={"a": 1}))
    key = (2).to_bytes(2, "big") + b"d1cc1"
    stored(node, CacheName.COMMANDS, key, record.replace(b'{"a":1}', deep(depth)))
    node.restart()
    assert [one.id for one in run(node.accompanied.commands.page(None, None, None, 10))] == ["c2"]
    assert node.accompanied.figures().unreadable > 0
    assert run(node.grid.get(CacheName.COMMANDS, key)) is not None


def test_what_cannot_be_encoded_is_not_staged() -> None:
    """Whoever stages it is told; the commit of all others is made."""
    node = DeviceNode()
    node.device()
    sender = node.connect("s")
    order(sender, "d1", reply="yes")
    value: object = 1
    for _ in range(2000):
        value = [value]
    with pytest.raises(RecursionError):
        node.accompanied.states.of("d1").answered("c1", True, values={"a": value})
    order(sender, "d1", id="c2")
    assert (node.state("c1"), node.state("c2")) == ("sent", "sent")
    node.accompanied.states.of("d1").answered("c1", True)
    node.turn()
    assert node.state("c1") == "acked"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_shadow_is_not_understood(depth: int, caplog: pytest.LogCaptureFixture) -> None:
    """Neither half; shadows of others are written."""
    node = DeviceNode()
    device, other = node.connect("d"), node.connect("other")
    device.publish("shadow/d/reported", deep(depth), qos=1)
    device.publish("shadow/d/desired", deep(depth), qos=1)
    other.publish("shadow/other/reported", b'{"t": 1}', qos=1)
    node.pass_time(2)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    shadows = node.accompanied.shadows
    reported, desired = run(shadows.get("d"))
    assert (reported.values, desired.values, shadows.refused) == ({}, {}, 2)
    assert run(shadows.get("other"))[0].values == {"t": 1}


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_command_has_no_values_for_a_codec(depth: int) -> None:
    """Its body goes as it is."""
    assert command_values(deep(depth)) == {}
    assert command_values(b'{"a": [1]}') == {"a": [1]}
