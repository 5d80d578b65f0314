"""Passwords that are guessed: what the guesser learns, whom it keeps out, and what the operator sees of it."""

from __future__ import annotations

import base64
import hashlib
import random
import selectors
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import bcrypt
import pytest
from argon2 import PasswordHasher
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO, BrokerProcess
from systemkit.starting import brokers
from systemkit.waiting import AIR

pytestmark = [
    pytest.mark.skipif(MOSQUITTO, reason="users are configured differently there"),
    pytest.mark.alone,
]

SERVER_BUSY, BAD_USER_NAME_OR_PASSWORD = 0x89, 0x86
USERS = [f"user-{number}" for number in range(8)]
#: Users of each kind of hash, where there are several.
KINDS, OF_A_KIND = ("argon", "bcrypt", "pbkdf2", "sha512"), 5
STRANGERS = [f"nobody-{number}" for number in range(8)]
PASSWORD = b"right"
#: Wrong passwords that an address may show at once.
BURST = 20
#: Logins at once.
MANY = 40


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with eight users. The tests come from addresses of their own."""
    folder = tmp_path_factory.mktemp("guarded")
    # Hashes as `iot-mqtt passwd` makes them, which would take a process for each.
    hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, hash_len=32, salt_len=16)
    (folder / "users").write_text("".join(f"{user}:{hasher.hash(PASSWORD)}\n" for user in USERS))
    with brokers(folder) as start:
        yield start(settings={"auth.users_file": folder / "users", "auth.guess_burst": BURST})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with as many users of every kind of hash as of every other, and no allowance that ends."""
    folder = tmp_path_factory.mktemp("mixed")
    salt = base64.b64encode(b"salt of twelve").decode()
    digests = {
        "6": hashlib.sha512(PASSWORD + b"salt of twelve").digest(),
        "7$20000": hashlib.pbkdf2_hmac("sha512", PASSWORD, b"salt of twelve", 20_000),
    }
    mosquitto = {kind: f"${kind}${salt}${base64.b64encode(digest).decode()}" for kind, digest in digests.items()}
    hashes = {
        "argon": PasswordHasher(time_cost=1, memory_cost=4096, parallelism=1).hash(PASSWORD),
        "bcrypt": bcrypt.hashpw(PASSWORD, bcrypt.gensalt(7)).decode(),
        "pbkdf2": mosquitto["7$20000"],
        "sha512": mosquitto["6"],
    }
    lines = [f"{kind}-{number}:{encoded}\n" for kind, encoded in hashes.items() for number in range(OF_A_KIND)]
    (folder / "users").write_text("".join(lines))
    with brokers(folder) as start:
        yield start(settings={"auth.users_file": folder / "users", "auth.guess_burst": 0})


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
    assert max(took) < 1 + AIR, took


def test_who_guesses_has_to_wait(guarded: BrokerProcess) -> None:
    """After auth.guess_burst wrong passwords an address gets one verdict a second; only a few of it may wait."""
    names = [f"name-{number}" for number in range(90)]
    answers = _at_once(guarded, "127.0.3.1", names, b"guess", enough=70)
    reasons = list(answers.reasons.values())
    verdicts = reasons.count(BAD_USER_NAME_OR_PASSWORD)
    assert 0 < verdicts <= BURST + max(answers.seconds.values()) + 2
    assert reasons.count(SERVER_BUSY) == len(reasons) - verdicts
    assert _enter(guarded, "127.0.3.2", USERS[5]) < 1


def _chance(ones: Sequence[float], others: Sequence[float]) -> float:
    """How likely one of the first is larger than one of the others: a half if nothing tells them apart."""
    ranked = sorted([(value, True) for value in ones] + [(value, False) for value in others])
    ranks = sum(rank for rank, (_, one) in enumerate(ranked, 1) if one)
    return (ranks - len(ones) * (len(ones) + 1) / 2) / (len(ones) * len(others))


def test_a_thousand_probes_do_not_tell_who_exists(mixed: BrokerProcess) -> None:
    """Hashes of four kinds: times and answers of known and unknown names are the same in distribution.

    Of 500 and 500 that are, the chance is off a half by 0.018 in one of three cases, and by 0.08 in one of 100,000.
    """
    known = [f"{kind}-{number}" for kind in KINDS for number in range(OF_A_KIND)] * 25
    probes = [(name, True) for name in known] + [(f"nobody-{number}", False) for number in range(500)]
    random.shuffle(probes)
    times: dict[bool, list[float]] = {True: [], False: []}
    by_kind: dict[str, list[float]] = {}
    answers: dict[bool, set[bytes]] = {True: set(), False: set()}
    for number, (name, exists) in enumerate(probes):
        with _socket(mixed, "127.0.5.1") as sock:
            packet = wire.connect("probe", version=5, user=name, password=b"guess-%d" % number)
            began = time.perf_counter()
            sock.sendall(packet)
            answer = sock.recv(4096)
            took = time.perf_counter() - began
        answers[exists].add(answer)
        times[exists].append(took)
        by_kind.setdefault(name.partition("-")[0], []).append(took)
    assert answers[True] == answers[False] and len(answers[True]) == 1
    assert abs(_chance(times[True], times[False]) - 0.5) < 0.08
    # What the same figures look like where there is something to be told.
    assert _chance(by_kind["pbkdf2"], by_kind["sha512"]) > 0.8


def test_a_flood_of_guesses_at_any_kind_of_hash_keeps_nobody_else_out(mixed: BrokerProcess) -> None:
    """While one address has hundreds of guesses waiting, users of others get in within two seconds."""
    guesses = []
    for number in range(400):
        sock = _socket(mixed, "127.0.6.1")
        user = f"{KINDS[number % len(KINDS)]}-0"
        sock.sendall(wire.connect(f"g{number}", version=5, user=user, password=b"%d" % number))
        guesses.append(sock)
    took = {kind: _enter(mixed, f"127.0.6.{place}", f"{kind}-1") for place, kind in enumerate(KINDS, start=2)}
    for sock in guesses:
        sock.close()
    assert max(took.values()) < 2 + AIR, took


def test_many_logins_at_once_all_get_a_verdict_and_others_are_served(guarded: BrokerProcess) -> None:
    """Who is in does not notice the threads that hash: half of his PINGs are answered at once, and nearly all soon.

    ``python -m benchmarks logins`` does it with a thousand, and prints how late the loop is.
    """
    with Plain(0, version=5, sock=_socket(guarded, "127.0.7.1")) as client:
        client.send(wire.connect("pinger", version=5, user=USERS[0], password=PASSWORD))
        assert client.expect(wire.CONNACK).reason() == 0
        waiting = []
        for number in range(MANY):
            sock = _socket(guarded, f"127.0.7.{2 + number % 20}")
            sock.sendall(wire.connect(f"many-{number}", version=5, user=USERS[number % 8], password=b"new-%d" % number))
            waiting.append(sock)
        took = []
        deadline = time.monotonic() + 60
        reasons: list[int] = []
        while waiting and time.monotonic() < deadline:
            began = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - began)
            time.sleep(0.005)
            ready = [sock for sock in waiting if _has_come(sock)]
            reasons += [wire.Splitter().feed(sock.recv(4096))[0].reason() for sock in ready]
            waiting = [sock for sock in waiting if sock not in ready]
    assert reasons == [BAD_USER_NAME_OR_PASSWORD] * MANY
    took.sort()
    assert took[len(took) // 2] < 0.05
    assert took[int(len(took) * 0.95)] < 0.5 + AIR


def _has_come(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        sock.setblocking(True)
