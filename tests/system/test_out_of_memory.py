"""No memory is left: the broker may refuse, close a connection or end at once, but what it acknowledged is there."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess, Options

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto keeps nothing that it acknowledged")

MIB = 1 << 20
#: So much more than it has when it is ready: from a few messages to all of them.
ROOM = (2 * MIB, 5 * MIB, 9 * MIB, 14 * MIB)
MESSAGES, SIZE, WINDOW = 80, 200_000, 10
#: Ended at once, by itself: a commit could not be made, or the database could not go on.
ENDED = (os.EX_SOFTWARE, -signal.SIGABRT)


class Starved(BrokerProcess):
    """What it allocates counts when it does so: an arena of glibc for each thread reserves 64 MiB beforehand."""

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "MALLOC_ARENA_MAX": "1"}


@pytest.fixture
def starved(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Its log has what elsewhere would be faults, and it may have ended."""
    broker = Starved(tmp_path / "broker", Options())
    try:
        yield broker.start()
    finally:
        broker.reap()


def _address_space(broker: BrokerProcess) -> int:
    (line,) = [one for one in Path(f"/proc/{broker.pid}/status").read_text().splitlines() if one.startswith("VmSize:")]
    return int(line.split()[1]) * 1024


def _limit(broker: BrokerProcess, most: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(broker.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def _acknowledged(broker: BrokerProcess, first: int) -> set[int]:
    """The numbers of messages that were published and acknowledged, as long as the broker could."""
    found: set[int] = set()
    with contextlib.suppress(OSError, AssertionError), Plain(broker.ports["mqtt"], version=5, timeout=2) as client:
        client.connect("publisher")
        for number in range(MESSAGES + WINDOW):
            if number < MESSAGES:
                payload = b"%06d" % (first + number) + os.urandom(SIZE)
                client.publish(f"room/{number % 7}", payload, qos=1, packet_id=number + 1)
            if number >= WINDOW:
                got = client.expect(wire.PUBACK)
                assert got.reason() < 0x80
                found.add(first + int.from_bytes(got.body[:2], "big") - 1)
    return found


def _ended(broker: BrokerProcess) -> int | None:
    """Its exit code; None: it goes on."""
    assert broker.process is not None
    deadline = time.monotonic() + 0.5
    while (code := broker.process.poll()) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return code


def _echo(broker: BrokerProcess) -> None:
    with Plain(broker.ports["mqtt"], version=5) as client:
        client.connect("")
        client.subscribe(("echo", 1))
        client.publish("echo", b"here")
        assert client.expect_publication().payload == b"here"


def _assert_delivered(broker: BrokerProcess, wanted: set[int]) -> None:
    with Plain(broker.ports["mqtt"], version=5) as reader:
        reader.connect("keeper", clean=False, expiry=3600)
        while wanted:
            message = reader.expect_publication()
            reader.send(wire.ack(wire.PUBACK, message.packet_id))
            wanted.discard(int(message.payload[:6]))


def test_whatever_memory_is_left_nothing_acknowledged_is_lost(starved: BrokerProcess) -> None:
    """An exception in the middle of a commit is the end of the process: others believe that they are part of it."""
    with Plain(starved.ports["mqtt"], version=5) as reader:
        reader.connect("keeper", clean=False, expiry=3600)
        reader.subscribe(("room/#", 1))
    refused = 0
    for life, room in enumerate(ROOM):
        _limit(starved, _address_space(starved) + room)
        acknowledged = _acknowledged(starved, life * MESSAGES)
        code = _ended(starved)
        refused += code is not None or len(acknowledged) < MESSAGES
        print(f"{room // MIB} MiB: {len(acknowledged)} acknowledged, exit code {code}")
        assert code in (None, *ENDED)
        if code is None:
            _limit(starved, resource.RLIM_INFINITY)
            _echo(starved)
        starved.kill()
        starved.start()
        _assert_delivered(starved, acknowledged)
    assert refused, "there was memory for everything"
