"""Passwords that are guessed: what the guesser learns, whom it keeps out, and what the operator sees of it."""

from __future__ import annotations

import selectors
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from argon2 import PasswordHasher
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="users are configured differently there"),
    pytest.mark.alone,
]

SERVER_BUSY, BAD_USER_NAME_OR_PASSWORD = 0x89, 0x86
USERS = [f"user-{number}" for number in range(8)]
STRANGERS = [f"nobody-{number}" for number in range(8)]
PASSWORD = b"right"
#: Wrong passwords that an address may show at once.
BURST = 20


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with eight users. The tests come from addresses of their own."""
    folder = tmp_path_factory.mktemp("guarded")
    # Hashes as `iot-mqtt passwd` makes them, which would take a process for each.
    hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16)
    (folder / "users").write_text("".join(f"{user}:{hasher.hash(PASSWORD)}\n" for user in USERS))
    with brokers(folder) as start:
        yield start(settings={"auth.users_file": folder / "users", "auth.guess_burst": BURST})


def _socket(broker: BrokerProcess, source: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.ports["mqtt"]), 10, source_address=(source, 0))


def _enter(broker: BrokerProcess, source: str, user: str) -> float:
    """Seconds in which a user with the right password gets in."""
    began = time.monotonic()
    with Plain(0, version=5, sock=_socket(broker, source)) as client:
        client.send(wire.connect(f"as-{user}", version=5, user=user, password=PASSWORD))
        assert client.expect(wire.CONNACK).reason() == 0
    return time.monotonic() - began


@dataclass
class Answers:
    """What came to attempts that were made at once: name → seconds and reason."""

    seconds: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def of(self, names: Sequence[str]) -> list[float]:
        return [self.seconds[name] for name in names]


def _at_once(
    broker: BrokerProcess, source: str, names: Sequence[str], password: bytes, enough: int | None = None
) -> Answers:
    """One CONNECT for each name, all sent before the first answer is looked at; the first answers, or all."""
    answers = Answers()
    with selectors.DefaultSelector() as selector:
        opened = [(name, _socket(broker, source)) for name in names]
        began = time.monotonic()
        for name, sock in opened:
            sock.sendall(wire.connect(f"x-{name}", version=5, user=name, password=password))
            selector.register(sock, selectors.EVENT_READ, name)
        while len(answers.seconds) < (enough or len(names)):
            ready = selector.select(20)
            assert ready, "no answer"
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                answers.seconds[key.data] = time.monotonic() - began
                answers.reasons[key.data] = wire.Splitter().feed(key.fileobj.recv(4096))[0].reason()
                selector.unregister(key.fileobj)
        for _, sock in opened:
            sock.close()
    return answers


def test_a_refusal_names_who_was_refused(guarded: BrokerProcess) -> None:
    """Client id, user, address and reason are in the log; what a client calls itself forges no line there.

    The first test: of the refusals that follow, the log shows a few.
    """
    with Plain(0, version=5, sock=_socket(guarded, "127.0.4.1")) as client:
        client.send(wire.connect("press\x1b[31m-7", version=5, user="mallory\u2028ready", password=b"guess"))
        assert client.expect(wire.CONNACK).reason() == BAD_USER_NAME_OR_PASSWORD
    line = next(line for line in guarded.log_text().split("\n") if "127.0.4.1" in line)
    assert "client=" in line and "press\\x1b[31m-7" in line and "mallory\\u2028ready" in line
    assert "BAD_USER_NAME_OR_PASSWORD" in line and "\x1b[31m-7" not in line
    assert "guess" not in line


def test_known_and_unknown_names_take_the_same_time(guarded: BrokerProcess) -> None:
    """Also when many are asked for at once, with one password: each name is one piece of work."""
    names = [name for pair in zip(USERS, STRANGERS, strict=True) for name in pair]
    rounds = [_at_once(guarded, f"127.0.1.{number}", names, b"guess-%d" % number) for number in range(1, 4)]
    assert {reason for answers in rounds for reason in answers.reasons.values()} == {BAD_USER_NAME_OR_PASSWORD}
    known = [statistics.median(answers.of(USERS)) for answers in rounds]
    unknown = [statistics.median(answers.of(STRANGERS)) for answers in rounds]
    whole = statistics.median(max(answers.seconds.values()) for answers in rounds)
    difference = abs(statistics.median(known) - statistics.median(unknown))
    assert difference < 0.25 * whole, f"{known} for users, {unknown} for strangers"
    last = statistics.median(max(answers.of(STRANGERS)) for answers in rounds)
    assert last > 0.7 * whole, f"all strangers are known after {last:.3f} s of {whole:.3f} s"


def test_who_guesses_keeps_nobody_else_out(guarded: BrokerProcess) -> None:
    """While one address has three hundred guesses waiting, users of others get in within a second."""
    guesses = []
    for number in range(300):
        sock = _socket(guarded, "127.0.2.1")
        sock.sendall(wire.connect(f"g{number}", version=5, user=USERS[0], password=b"%d" % number))
        guesses.append(sock)
    took = [_enter(guarded, f"127.0.2.{number}", user) for number, user in enumerate(USERS[:4], start=2)]
    for sock in guesses:
        sock.close()
    assert max(took) < 1, took


def test_who_guesses_has_to_wait(guarded: BrokerProcess) -> None:
    """After auth.guess_burst wrong passwords an address gets one verdict a second; only a few of it may wait."""
    names = [f"name-{number}" for number in range(90)]
    answers = _at_once(guarded, "127.0.3.1", names, b"guess", enough=70)
    reasons = list(answers.reasons.values())
    verdicts = reasons.count(BAD_USER_NAME_OR_PASSWORD)
    assert 0 < verdicts <= BURST + max(answers.seconds.values()) + 2
    assert reasons.count(SERVER_BUSY) == len(reasons) - verdicts
    assert _enter(guarded, "127.0.3.2", USERS[5]) < 1
