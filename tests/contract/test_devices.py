"""What is kept of devices, on every grid."""

from __future__ import annotations

from iot_mqtt.grid.devices import decode_command, decode_device, decode_shadow, encode_command
from tests.contract.devices_suite import FULL, PLAIN, DevicesSuite
from tests.contract.grids import InMemory, OnDisk, OnIgnite


class TestInMemory(InMemory, DevicesSuite):
    """The reference."""


class TestOnDisk(OnDisk, DevicesSuite):
    """RocksDB."""


class TestOnIgnite(OnIgnite, DevicesSuite):
    """A real server."""


def test_the_formats_are_frozen() -> None:
    """Written by an earlier version, with a field of a later one: read by this one."""
    assert decode_command(b'\x10{"id":"c1","target":"d1","state":"queued","accepted_at":1000.5,"new":1}') == PLAIN
    assert encode_command(PLAIN) == b'\x10{"id":"c1","target":"d1","state":"queued","accepted_at":1000.5}'
    assert decode_command(encode_command(FULL)) == FULL
    device = decode_device(b'\x10{"gateway":"g","device":"d","first_seen":1.0,"last_seen":2.0,"new":true}')
    assert (device.gateway, device.device, device.readings) == ("g", "d", 0)
    assert decode_shadow(b'\x11{"version":3,"values":{"t":1}}').values == {"t": 1}


def test_an_infinity_that_an_earlier_version_kept_is_null() -> None:
    """It would be written as what is no JSON."""
    assert decode_shadow(b'\x11{"version":3,"values":{"t":[Infinity,-Infinity,NaN]}}').values == {"t": [None] * 3}
