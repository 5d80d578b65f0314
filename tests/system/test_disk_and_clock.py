"""Disks that fail or are slow, and clocks that step: nothing acknowledged is lost, and others are served."""

from __future__ import annotations

import errno
import statistics
import time
from collections.abc import Iterator

import pytest
from systemkit import wire
from systemkit.faulty import FaultyBroker
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, Options
from systemkit.waiting import AIR, wait_until

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="the faults are those of our own grid")

#: From a disk that works again to the first acknowledgement: the database is opened anew every two seconds.
RESUME_SECONDS = 5.0
#: What a sync takes longer on a slow disk.
SLOW = 0.4
HOUR = 3600


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBroker]:
    """One broker for all tests; they keep apart by client ids and topics."""
    broker = FaultyBroker(tmp_path_factory.mktemp("faulty") / "broker", Options())
    try:
        broker.start()
        yield broker
    except BaseException:
        broker.reap()
        raise
    broker.close()


def _durable(broker: FaultyBroker, name: str, *filters: str, expiry: int = HOUR) -> Plain:
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect(name, clean=False, expiry=expiry)
    if filters:
        client.subscribe(*((filter, 1) for filter in filters))
    return client


def _writer(broker: FaultyBroker) -> Plain:
    client = Plain(broker.ports["mqtt"], version=5)
    client.connect("")
    return client


def _echo(client: Plain, topic: str) -> float:
    """A message at QoS 0 to oneself; the seconds that it takes."""
    began = time.monotonic()
    client.publish(topic, b"echo")
    assert client.expect_publication().payload == b"echo"
    return time.monotonic() - began


def _payloads(client: Plain, count: int) -> list[bytes]:
    """What comes next, acknowledged."""
    found = []
    for _ in range(count):
        message = client.expect_publication()
        client.send(wire.ack(wire.PUBACK, message.packet_id))
        found.append(message.payload)
    return found


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_sync_that_fails_holds_publishers_off_and_loses_nothing(faulty: FaultyBroker, number: int) -> None:
    """No answer while syncs fail, others are served; then all goes on by itself, and survives a kill."""
    topic, name = f"failing/{number}", f"away-{number}"
    _durable(faulty, name, topic).disconnect()
    bystander, writer = _writer(faulty), _writer(faulty)
    bystander.subscribe((f"echo/{number}", 0))
    writer.publish(topic, b"before", qos=1, packet_id=1)
    writer.expect(wire.PUBACK)
    failed = faulty.failed_syncs
    with faulty.disk(error=number):
        writer.publish(topic, b"meanwhile", qos=1, packet_id=2)
        wait_until(lambda: faulty.failed_syncs > failed + 1)
        writer.expect_silence()
        assert _echo(bystander, f"echo/{number}") < AIR
    began = time.monotonic()
    assert writer.expect(wire.PUBACK).reason() == 0
    assert time.monotonic() - began < RESUME_SECONDS + AIR
    faulty.restart()
    reader = _durable(faulty, name)
    assert _payloads(reader, 2) == [b"before", b"meanwhile"]
    reader.expect_silence()
    reader.disconnect()


def test_a_slow_disk_delays_those_who_need_it(faulty: FaultyBroker) -> None:
    """An acknowledgement takes as long as its sync, and never less; QoS 0 does not wait."""
    _durable(faulty, "slow-reader", "slow/kept").disconnect()
    bystander, writer = _writer(faulty), _writer(faulty)
    bystander.subscribe(("slow/echo", 0))
    with faulty.disk(seconds=SLOW):
        echoes = []
        for packet_id in range(1, 5):
            began = time.monotonic()
            writer.publish("slow/kept", b"%d" % packet_id, qos=1, packet_id=packet_id)
            echoes += [_echo(bystander, "slow/echo") for _ in range(5)]
            writer.expect(wire.PUBACK)
            assert time.monotonic() - began >= SLOW, "acknowledged before it was synced"
    assert statistics.median(echoes) < SLOW / 2
    reader = _durable(faulty, "slow-reader")
    assert _payloads(reader, 4) == [b"1", b"2", b"3", b"4"]
    reader.disconnect()


def test_a_wall_clock_that_steps_stops_no_timer(faulty: FaultyBroker) -> None:
    """An hour back: whoever says nothing is closed after one and a half of his keep-alive all the same."""
    with Plain(faulty.ports["mqtt"]) as silent:
        silent.connect("silent", keep_alive=1)
        faulty.wall_clock(-HOUR)
        try:
            silent.until_closed()
        finally:
            faulty.wall_clock(0)


def test_a_wall_clock_that_steps_closes_nobody(faulty: FaultyBroker) -> None:
    """An hour ahead, and two back: connections stay, sessions and messages that have longer to live are there."""
    _durable(faulty, "stepped", "clock/kept", expiry=24 * HOUR).disconnect()
    with Plain(faulty.ports["mqtt"]) as lively, _writer(faulty) as writer:
        lively.connect("lively", keep_alive=60)
        lively.subscribe(("clock/echo", 0))
        for packet_id, ahead in enumerate((HOUR, -HOUR, 0), start=1):
            faulty.wall_clock(ahead)
            writer.publish("clock/kept", b"%d" % packet_id, qos=1, packet_id=packet_id)
            writer.expect(wire.PUBACK)
            # Some rounds of whatever looks at the clock once a second.
            for _ in range(15):
                assert _echo(lively, "clock/echo") < AIR
                writer.ping()
                time.sleep(0.1)
    reader = Plain(faulty.ports["mqtt"], version=5)
    assert reader.connect("stepped", clean=False, expiry=24 * HOUR).body[0] == 1, "the session is gone"
    assert _payloads(reader, 3) == [b"1", b"2", b"3"]
    reader.disconnect()
