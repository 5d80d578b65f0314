"""Wrong passwords count once for their address, whichever link refuses them; what a later link lets in never does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.auth import hashing
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.settings import AuthSettings, HttpSettings, JwtSettings
from iot_mqtt.auth.web import WebError
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Denied, Principal
from tests.unit.auth.authkit import Threads, attempt, cheap_hash, outcome, start

SOURCE = "198.51.100.7"
TOKEN = jwt.encode({"sub": "device", "exp": 4e9}, "s" * 32, "HS256").encode()
FORGED = jwt.encode({"sub": "device", "exp": 4e9}, "x" * 32, "HS256").encode()


class Site:
    """A node with user ann in its file, where an address may guess three times, and a service that answers if told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.threads = folder, Threads()
        monkeypatch.setattr(hashing, "ThreadPoolExecutor", lambda *_, **__: self.threads)
        (folder / "users").write_text(f"ann:{cheap_hash('pw')}\n")
        (folder / "secret").write_text("s" * 32)
        self.asked: list[Deferred[tuple[int, bytes]]] = []

    def open(self, *chain: str) -> None:
        settings = AuthSettings(
            chain=chain,
            users_file=str(self.folder / "users"),
            jwt=JwtSettings(secret_file=str(self.folder / "secret"), check_username=False),
            http=HttpSettings(url="https://service", cache_seconds=0.0),
            guess_burst=3,
        )
        self.access = Access(settings, self.threads.cross, ManualClock(), web=lambda _: self)

    async def post(self, *_: Any) -> tuple[int, bytes]:
        self.asked.append(Deferred())
        return await self.asked[-1]

    async def get(self, *_: Any) -> tuple[int, bytes]:
        raise NotImplementedError

    def ask(self, name: str | None, password: bytes | None = b"guess") -> Deferred[Principal | Denied]:
        asked = start(self.access.authenticator.authenticate(attempt(name, password)))
        self.threads.turn()
        return asked

    def answer(self, result: str) -> None:
        asked, self.asked = self.asked, []
        for one in asked:
            one.callback((200, json.dumps({"result": result}).encode()))

    def log_in(self, name: str | None, password: bytes | None = b"guess", service: str = "deny") -> Any:
        asked = self.ask(name, password)
        self.answer(service)
        self.threads.turn()
        verdict = outcome(asked)
        return verdict.reason if isinstance(verdict, Denied) else verdict.owner

    @property
    def wrong(self) -> int:
        """How many wrong passwords have counted, up to three."""
        left = 0
        while self.access.pool.may_guess(SOURCE):
            self.access.pool.guessed_wrong(SOURCE)
            left += 1
        return 3 - left


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


@pytest.mark.parametrize("chain", [("file", "http"), ("file", "jwt"), ("file", "jwt", "http")])
def test_a_fleet_that_a_later_link_lets_in_guesses_nothing(site: Site, chain: tuple[str, ...]) -> None:
    """One after the other, and all at once."""
    site.open(*chain)
    password = TOKEN if "jwt" in chain else b"right"
    names = [f"device-{number}" for number in range(30)]
    assert {site.log_in(name, password, "allow") for name in names} <= {*names, "device"}
    fleet = [site.ask(name, password) for name in names]
    while site.asked:
        site.answer("allow")
    assert all(isinstance(outcome(one), Principal) for one in fleet)
    assert site.wrong == 0


@pytest.mark.parametrize(
    ("chain", "name", "password", "reason"),
    [
        (("file", "http"), "ann", b"guess", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        (("file", "http"), "device", b"guess", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        (("http",), "device", b"guess", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        (("file", "jwt"), "device", b"guess", ReasonCode.NOT_AUTHORIZED),
        (("file", "jwt", "http"), "device", b"guess", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        (("http", "file"), "device", b"guess", ReasonCode.BAD_USER_NAME_OR_PASSWORD),
    ],
)
def test_a_guess_counts_once_whichever_link_refuses(
    site: Site, chain: tuple[str, ...], name: str, password: bytes, reason: ReasonCode
) -> None:
    """Two of three, and the third."""
    site.open(*chain)
    service = "deny" if chain != ("http", "file") else "ignore"
    assert [site.log_in(name, password + b"%d" % number, service) for number in range(2)] == [reason, reason]
    assert site.wrong == 2


def test_a_guess_at_a_service_that_knows_nobody_counts_too(site: Site) -> None:
    """It was shown a password, and nobody has taken it."""
    site.open("http", "certificate")
    assert site.log_in("device", service="ignore") is ReasonCode.NOT_AUTHORIZED
    assert site.wrong == 1


def test_who_shows_no_password_guesses_nothing(site: Site) -> None:
    """A client without a name, or with nothing but a name, that nobody lets in."""
    site.open("file", "jwt")
    assert site.log_in(None, None) is ReasonCode.NOT_AUTHORIZED
    assert site.log_in("device", None) is ReasonCode.NOT_AUTHORIZED
    assert site.wrong == 0


def test_a_token_is_no_guess_behind_other_links_either(site: Site) -> None:
    """Nobody finds a signature by trying."""
    site.open("file", "jwt")
    assert site.log_in("device", FORGED) is ReasonCode.NOT_AUTHORIZED
    assert site.wrong == 0


def test_who_is_let_in_as_somebody_he_may_not_be_has_guessed_nothing(site: Site) -> None:
    """The proof was right."""
    site.open("file", "jwt")
    (site.folder / "users").write_text(f"device:!{cheap_hash('pw')}\n")
    site.access.look(changed_only=False)()
    assert site.log_in("other", TOKEN) is ReasonCode.NOT_AUTHORIZED
    assert site.wrong == 0


def test_what_waits_for_a_service_or_is_never_answered_does_not_count(site: Site) -> None:
    """Clients that gave up meanwhile; a service that is away."""
    site.open("file", "http")
    waiting = [site.ask(f"device-{number}") for number in range(10)]
    assert site.access.pool.may_guess(SOURCE)
    while site.asked:
        site.asked.pop(0).errback(WebError("away"))
    for one in waiting:
        with pytest.raises(Unavailable):
            outcome(one)
    assert site.wrong == 0


def test_a_verdict_that_is_remembered_gives_nothing_back(site: Site) -> None:
    """Only what was counted for a name that nobody has here is."""
    site.open("file", "http")
    site.log_in("ann")
    for _ in range(3):
        assert site.log_in("device", b"right", "allow") == "device"
    assert site.wrong == 1
