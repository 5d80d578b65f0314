"""``iot-mqtt pub`` and ``sub`` at our broker and at mosquitto, against mosquitto's own clients: independent judges."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from systemkit.certificates import Authority
from systemkit.process import BrokerProcess
from systemkit.starting import StartBroker
from systemkit.waiting import wait_until

from tests.ports import free_port

_OURS = [sys.executable, "-m", "iot_mqtt"]
PUB = {"ours": [*_OURS, "pub"], "mosquitto": ["mosquitto_pub"]}
SUB = {"ours": [*_OURS, "sub"], "mosquitto": ["mosquitto_sub"]}
_PATIENCE = 60


@dataclass(frozen=True)
class Brokers:
    """The ports of both."""

    ours: BrokerProcess
    mosquitto: int

    def port(self, which: str) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.ours.ports["mqtt"] if which == "ours" else self.mosquitto)]


@pytest.fixture(scope="module")
def brokers(shared_broker: BrokerProcess) -> Iterator[Brokers]:
    """Ours, and a mosquitto beside it."""
    port = free_port()
    process = subprocess.Popen(["mosquitto", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _accepts(port))
        yield Brokers(shared_broker, port)
    finally:
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def subscriber(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A subscriber that has its SUBACK: with -d both say so. Both print messages on standard output."""
    program = subprocess.Popen(
        ["stdbuf", "-oL", *command, "-d"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    )
    try:
        assert program.stdout is not None
        seen = b""
        while b"Subscribed" not in seen and b"SUBACK" not in seen:
            ready, _, _ = select.select([program.stdout], [], [], _PATIENCE)
            chunk = os.read(program.stdout.fileno(), 4096) if ready else b""
            assert chunk, f"no SUBACK: {seen!r}"
            seen += chunk
        yield program
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


def run(command: Sequence[str], code: int = 0, data: bytes | None = None) -> str:
    """What a command prints that ends with this exit code."""
    done = subprocess.run(command, input=data, capture_output=True, timeout=_PATIENCE, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(("publisher", "reader"), [("ours", "mosquitto"), ("mosquitto", "ours")])
@pytest.mark.parametrize(("version", "qos"), [("mqttv31", "1"), ("mqttv311", "2"), ("mqttv5", "2"), ("mqttv5", "0")])
@pytest.mark.parametrize("broker", ["ours", "mosquitto"])
def test_both_kinds_of_clients_understand_each_other(
    brokers: Brokers, broker: str, version: str, qos: str, publisher: str, reader: str
) -> None:
    """At either broker: topic, QoS and payload are the same, byte by byte."""
    name = uuid.uuid4().hex[:8]
    where = [*brokers.port(broker), "-V", version, "-q", qos, "-t", f"c/{name}"]
    with subscriber([*SUB[reader], *where, "-i", f"s{name}", "-C", "1", "-F", "got %q %t %x"]) as read:
        run([*PUB[publisher], *where, "-i", f"p{name}", "-s"], data=b"\xff\0 lines\n of bytes")
        output, _ = read.communicate(timeout=_PATIENCE)
    assert f"got {qos} c/{name} ff00206c696e65730a206f66206279746573\n" in output.decode()
    assert read.returncode == 0


def test_properties_go_both_ways(brokers: Brokers) -> None:
    """Ours sends what mosquitto_sub prints, and prints what mosquitto_pub sends, through our broker."""
    where = [*brokers.port("ours"), "-V", "mqttv5", "-t", "c/props", "-q", "1"]
    given = [
        *("-D", "publish", "content-type", "text/plain", "-D", "publish", "user-property", "k", "v"),
        *("-D", "publish", "response-topic", "re/x", "-D", "publish", "correlation-data", "abc"),
        *("-D", "publish", "message-expiry-interval", "1000", "-D", "publish", "payload-format-indicator", "1"),
    ]
    with subscriber([*SUB["mosquitto"], *where, "-C", "1", "-F", "got %C %P %R %D %F %p"]) as read:
        run([*PUB["ours"], *where, *given, "-m", "käse"])
        assert "got text/plain k:v re/x abc 1 käse\n" in read.communicate(timeout=_PATIENCE)[0].decode()
    with subscriber([*SUB["ours"], *where, "-C", "1", "--json", "--subscription-id", "7"]) as read:
        run([*PUB["mosquitto"], *where, *given, "-m", "käse"])
        output = read.communicate(timeout=_PATIENCE)[0].decode()
    found = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    properties = found["properties"]
    assert (found["payload"], properties["content_type"], properties["user_properties"]) == (
        "käse",
        "text/plain",
        [["k", "v"]],
    )
    assert (properties["response_topic"], properties["correlation_data"]) == ("re/x", "YWJj")
    assert (properties["subscription_identifiers"], properties["payload_format_indicator"]) == ([7], 1)
    assert 990 <= properties["message_expiry_interval"] <= 1000


@pytest.mark.parametrize("transport", ["ws", "tls"])
def test_other_transports_carry_large_messages(brokers: Brokers, authority: Authority, transport: str) -> None:
    """In many frames, or many records."""
    ports = brokers.ours.ports
    where = {
        "ws": ["-L", f"ws://127.0.0.1:{ports['ws']}/mqtt"],
        "tls": ["-h", "127.0.0.1", "-p", str(ports["mqtts"]), "--cafile", str(authority.file)],
    }[transport]
    with subscriber([*SUB["ours"], *where, "-t", "c/big", "-C", "2", "-F", "%l"]) as read:
        run([*PUB["ours"], *where, "-t", "c/big", "-q", "1", "-s", "--repeat", "2"], data=b"x" * 300_000)
        assert read.communicate(timeout=_PATIENCE)[0].splitlines().count(b"300000") == 2


def test_an_unknown_certificate_is_not_believed(brokers: Brokers) -> None:
    """And what would help is said."""
    port = str(brokers.ours.ports["mqtts"])
    command = [*PUB["ours"], "-h", "127.0.0.1", "-p", port, "--tls", "-t", "a", "-m", "x"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert (done.returncode, "--cafile" in done.stderr) == (3, True)


def test_a_kept_session_gives_each_message_once_and_none_is_lost(brokers: Brokers) -> None:
    """Lines of standard input, read in two goes; what the first did not print waits for the second."""
    where = [*brokers.port("ours"), "-t", "c/kept", "-q", "2"]
    kept = [*SUB["ours"], *where, "-c", "-i", "keeper"]
    run([*kept, "-E"])
    lines = [f"line {number}" for number in range(300)]
    report = json.loads(run([*PUB["ours"], *where, "-l", "--json"], data="\n".join(lines).encode()))
    assert (report["messages"], report["acknowledged"], report["refused"]) == (300, 300, 0)
    first = run([*kept, "-C", "100"])
    rest = run([*kept, "-C", "200"])
    assert (first + rest).splitlines() == lines


def test_a_question_gets_its_answer_or_says_that_none_came(brokers: Brokers) -> None:
    """``--wait-response`` with an answerer made of a sub and a pub; 27 without one."""
    where = brokers.port("ours")
    ask = [*PUB["ours"], *where, "-t", "c/ask", "-m", "how much?", "-q", "1", "--wait-response"]
    with subscriber([*SUB["ours"], *where, "-t", "c/ask", "-C", "1", "-F", "reply=%R %D"]) as asked:
        answer = subprocess.Popen([*ask, "50", "--correlation-data", "q1"], stdout=subprocess.PIPE)
        output = asked.communicate(timeout=_PATIENCE)[0].decode()
        line = next(one for one in output.splitlines() if one.startswith("reply="))
        topic, mark = line.removeprefix("reply=").split()
        run([*PUB["ours"], *where, "-t", topic, "--correlation-data", mark, "-m", "42", "-q", "1"])
        assert answer.communicate(timeout=_PATIENCE)[0] == b"42\n"
        assert answer.returncode == 0
    run([*ask, "0.3"], code=27)


def test_retained_messages_are_read_and_removed(brokers: Brokers) -> None:
    """With mosquitto's options."""
    where = brokers.port("ours")
    for name in "ab":
        run([*PUB["ours"], *where, "-t", f"c/kept/{name}", "-m", name, "-r", "-q", "1"])
    found = run([*SUB["ours"], *where, "-t", "c/kept/#", "-C", "2", "--remove-retained", "-v"])
    assert sorted(found.splitlines()) == ["c/kept/a a", "c/kept/b b"]
    assert run([*SUB["ours"], *where, "-t", "c/kept/#", "-W", "0.5"], code=27) == ""


def test_what_the_broker_refuses_has_its_exit_codes(brokers: Brokers) -> None:
    """5 for a message or a subscription; nothing is printed on standard output."""
    where = brokers.port("ours")
    assert run([*PUB["ours"], *where, "-t", "$SYS/x", "-m", "x", "-q", "1"], code=5) == ""
    assert run([*SUB["ours"], *where, "-t", "$share/g/a", "--no-local"], code=4) == ""


def test_a_bounded_load_is_counted_alike_by_both_sides(brokers: Brokers) -> None:
    """What was sent, acknowledged and received, here and in the broker's counters."""
    command = [*_OURS, "bench", *brokers.port("ours"), "--data-dir", str(brokers.ours.data_dir), "--json"]
    found = json.loads(run([*command, "--seconds", "1", "--rate", "400", "--size", "24-500", "-q", "2", "--idle", "3"]))
    sent = found["sent"]
    assert 0 < sent <= 400
    assert (found["connections"], found["acknowledged"], found["received"]) == (11, sent, sent)
    assert (found["lost"], found["repeated"], found["refused"]) == (0, 0, 0)
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]
    assert (found["broker"]["messages_received"], found["broker"]["messages_delivered"]) == (sent, sent)


def test_a_lost_connection_is_made_again_and_a_signal_ends_it_well(start_broker: StartBroker) -> None:
    """The session is kept, so what came meanwhile is printed; SIGTERM is no failure."""
    broker = start_broker()
    where = ["-h", "127.0.0.1", "-p", str(broker.ports["mqtt"]), "-t", "c/again", "-q", "1"]
    with subscriber([*SUB["ours"], *where, "-c", "-i", "again"]) as read:
        broker.kill()
        broker.start()
        run([*PUB["ours"], *where, "-m", "after all"])
        assert read.stdout is not None
        seen, until = b"", time.monotonic() + _PATIENCE
        while b"after all\n" not in seen and time.monotonic() < until:
            seen += os.read(read.stdout.fileno(), 4096)
        assert b"connecting again" in seen
        read.send_signal(signal.SIGTERM)
        assert read.wait(_PATIENCE) == 0
