"""A bridge of mosquitto's, as its manual has it: ``connection``, ``address``, ``topic``, and all else as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.waiting import wait_until

from tests.ports import free_port

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="mosquitto is at the other end")

#: Seconds in which what comes back would be back.
BACK = 0.5


@pytest.fixture(params=[None, "mqttv311", "mqttv50"], ids=["defaults", "mqttv311", "mqttv50"])
def far(broker: BrokerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of a mosquitto that is a bridge to the broker."""
    port = free_port()
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        f"user {os.environ.get('USER', 'root')}",
        f"connection {request.node.name.translate(str.maketrans('[]', '--'))}",
        f"address 127.0.0.1:{broker.ports['mqtt']}",
        "topic db/# both 1",
        *([] if request.param is None else [f"bridge_protocol_version {request.param}"]),
    ]
    (tmp_path / "bridge.conf").write_text("\n".join([*lines, ""]))
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    with (tmp_path / "bridge.log").open("wb") as log:
        mosquitto = subprocess.Popen([program, "-v", "-c", str(tmp_path / "bridge.conf")], stdout=log, stderr=log)
    try:
        # The bridge has subscribed, at the first attempt.
        wait_until(lambda: b"SUBACK" in (tmp_path / "bridge.log").read_bytes(), 5)
        yield port
    finally:
        mosquitto.terminate()
        mosquitto.wait()
        print((tmp_path / "bridge.log").read_text()[-2000:])


def reader(port: int, name: str) -> Plain:
    client = Plain(port)
    client.connect(name)
    client.subscribe(("db/#", 0))
    return client


def test_it_connects_at_once_and_each_message_crosses_once(broker: BrokerProcess, far: int) -> None:
    """Both ways; what came over it does not go back."""
    here, there = reader(broker.ports["mqtt"], "reads-here"), reader(far, "reads-there")
    with here, there, Plain(broker.ports["mqtt"]) as from_here, Plain(far) as from_there:
        from_here.connect("writes-here")
        from_there.connect("writes-there")
        for number in range(20):
            for writer, name in ((from_here, b"here"), (from_there, b"there")):
                writer.publish("db/x", b"%s %d" % (name, number), qos=1, packet_id=1)
                writer.expect(wire.PUBACK)
        for client in (here, there):
            came = [client.expect_publication().payload for _ in range(40)]
            for name in (b"here", b"there"):
                assert [one for one in came if one.startswith(name + b" ")] == [b"%s %d" % (name, n) for n in range(20)]
            client.expect_silence(BACK)


def test_retained_is_retained_on_the_other_side(broker: BrokerProcess, far: int) -> None:
    """For those who subscribe there later."""
    with Plain(broker.ports["mqtt"]) as here, Plain(far) as there:
        here.connect("sets-here")
        there.connect("asks-there")
        here.publish("db/kept", b"1", qos=1, packet_id=1, retain=True)
        here.expect(wire.PUBACK)

        def kept() -> bool:
            there.subscribe(("db/kept", 0))
            with suppress(TimeoutError):
                found = there.receive(0.3)
                return found is not None and found.kind == wire.PUBLISH and found.flags & 1 == 1
            return False

        wait_until(kept, 10)


def test_its_notice_is_published_nowhere(broker: BrokerProcess, far: int) -> None:
    """Neither what it says of itself when it is connected nor its will: what is below $SYS is the broker's."""
    del far
    with Plain(broker.ports["mqtt"]) as client:
        client.connect("asks-for-notices")
        client.subscribe(("$SYS/broker/connection/#", 0))
        client.expect_silence(BACK)
