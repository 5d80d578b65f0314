"""SCRAM-SHA-256: the exchange of the standard, exchanges that go wrong, and names that nobody has."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from iot_mqtt.auth import scram, scram_keys
from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.fair_queue import Allowance
from iot_mqtt.auth.hashing import HashPool
from iot_mqtt.auth.scram import Scram
from iot_mqtt.auth.vouched import Vouching
from iot_mqtt.errors import ReasonCode
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Challenge, Denied, Exchange, Granted
from tests.unit.auth.authkit import Threads, attempt, outcome, start
from tests.unit.auth.test_accounts import Kept

LEAST = scram_keys.LEAST
KEYS = scram_keys.derive(b"pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
WRONG, NO = ReasonCode.BAD_USER_NAME_OR_PASSWORD, ReasonCode.NOT_AUTHORIZED


def test_the_example_of_the_standard() -> None:
    """RFC 7677, section 3: proof and signature, byte for byte."""
    said = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,"
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert scram._proves("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", KEYS, said)
    assert not scram._proves("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVA=", KEYS, said)
    signature = base64.b64encode(hmac.digest(KEYS.server_key, said, "sha256"))
    assert signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


class Phone:
    """A client of its own making: nothing of it is the broker's."""

    def __init__(self, exchange: Exchange, name: str = "user", password: str = "pencil", header: str = "n,,") -> None:
        self.exchange, self.name, self.password, self.header = exchange, name, password, header

    def say(self, text: str | bytes | None) -> Any:
        data = text.encode() if isinstance(text, str) else text
        return outcome(start(self.exchange.step(data)))

    def first(self) -> Any:
        self.bare = f"n={self.name.replace('=', '=3D').replace(',', '=2C')},r=abc"
        answer = self.say(self.header + self.bare)
        if isinstance(answer, Challenge):
            self.challenge = answer.data.decode()
            self.nonce, self.salt, self.iterations = (part[2:] for part in self.challenge.split(","))
        return answer

    def final(self, nonce: str | None = None, binding: bytes | None = None) -> Any:
        bound = base64.b64encode(self.header.encode() if binding is None else binding).decode()
        unproven = f"c={bound},r={nonce or self.nonce}"
        said = f"{self.bare},{self.challenge},{unproven}".encode()
        salted = hashlib.pbkdf2_hmac(
            "sha256", self.password.encode(), base64.b64decode(self.salt), int(self.iterations)
        )
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), said, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
        answer = self.say(f"{unproven},p={proof}")
        if isinstance(answer, Granted):
            expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), said, "sha256")
            assert answer.data == b"v=" + base64.b64encode(expected), "the server has the keys, too"
            return answer.principal.owner
        assert isinstance(answer, Denied)
        return answer.reason


class Site:
    """The method, over one user with keys and one without."""

    def __init__(self, burst: int = 0) -> None:
        self.clock = ManualClock()
        threads = Threads()
        allowance = Allowance(burst, 1.0)
        self.pool = HashPool(threads.cross, self.clock, allowance=allowance, executor=threads)
        self.kept = Kept(Account("user", scram=KEYS), Account("no-keys", hash=None))
        self.accounts: Accounts | None = Accounts([self.kept])
        self.method = Scram(
            lambda listener: self.accounts if listener == "mqtt" else None,
            self.pool,
            lambda: b"k" * 32,
            Vouching(Accounts([self.kept])),
        )

    def phone(self, name: str = "user", password: str = "pencil", header: str = "n,,", **asked: Any) -> Phone:
        return Phone(self.method.begin(attempt(**asked)), name, password, header)

    def log_in(self, *told: str, **asked: Any) -> Any:
        phone = self.phone(*told, **asked)
        answer = phone.first()
        return phone.final() if isinstance(answer, Challenge) else answer.reason


def test_the_right_password_lets_in_and_no_other() -> None:
    """A client that could bind channels may say so; the user of CONNECT must be the same, if there is one."""
    site = Site()
    assert site.log_in() == "user"
    assert site.log_in("user", "pencil", "y,,") == "user"
    assert site.log_in("user", "pencil", "n,a=user,") == "user"
    assert site.log_in("user", "pen") is WRONG
    assert site.log_in(username="user") == "user"
    assert site.log_in(username="ann") is WRONG
    assert site.log_in("user", "pencil", "n,a=ann,") is NO


def test_names_with_signs_of_the_protocol() -> None:
    """They are written with = and come back."""
    site = Site()
    site.kept.set(Account("a,b=c", scram=KEYS))
    assert site.log_in("a,b=c") == "a,b=c"


def test_an_unknown_name_cannot_be_told_from_a_known_one() -> None:
    """A salt of its own, always the same; the exchange goes to its end, and ends as with a wrong password."""
    site, again = Site(), Site()
    salts = set()
    for name in ("nobody", "eve", "no-keys"):
        phone, other = site.phone(name), again.phone(name)
        phone.first(), other.first()
        assert (phone.salt, phone.iterations) == (other.salt, other.iterations)
        assert phone.iterations == "4096", "as users have"
        assert len(base64.b64decode(phone.salt)) == len(KEYS.salt)
        assert phone.final() is WRONG
        salts.add(phone.salt)
    assert len(salts) == 3


def test_iterations_of_unknown_names_are_those_of_users() -> None:
    """In their proportions."""
    dear = scram_keys.derive(b"x", iterations=5000)
    site = Site()
    site.kept.set(Account("a", scram=dear), Account("b", scram=dear), Account("c", scram=KEYS))
    found = []
    for number in range(300):
        phone = site.phone(f"nobody-{number}")
        phone.first()
        found.append(phone.iterations)
    assert set(found) == {"4096", "5000"}
    assert 150 < found.count("5000") < 250


@pytest.mark.parametrize(
    "text",
    [
        None,
        b"",
        b"\xff",
        "n,,",
        "n,,n=user",
        "n,,n=,r=abc",
        "p=tls-unique,,n=user,r=abc",
        "n,,m=ext,n=user,r=abc",
        "n,,n=us=er,r=abc",
        "n,,n=user,r=",
        "n,,n=user,r=a\nb",
        "n,,n=user,r=" + "x" * 300,
        "n,,n=user,r=abc" + ",x=" + "x" * 5000,
    ],
)
def test_a_first_message_that_is_none_is_refused(text: str | bytes | None) -> None:
    """At once, with the same words."""
    answer = Site().phone().say(text)
    assert isinstance(answer, Denied) and answer.reason is NO


def test_a_final_message_that_does_not_fit_is_refused() -> None:
    """Another nonce, another binding, no proof, or one of the wrong length."""
    site = Site()
    for bad in ({"nonce": "abcX"}, {"binding": b"y,,"}):
        phone = site.phone()
        phone.first()
        assert phone.final(**bad) is NO
    for proof in ("", ",p=", ",p=AAAA", ",p=!"):
        phone = site.phone()
        phone.first()
        assert isinstance(phone.say(f"c=biws,r={phone.nonce}{proof}"), Denied)


def test_what_users_are_at_the_end_counts() -> None:
    """Disabled, deleted or with another password since the first message."""
    for now in (Account("user", scram=KEYS, enabled=False), Account("user", scram=scram_keys.derive(b"pencil")), None):
        site = Site()
        phone = site.phone()
        phone.first()
        site.kept.set(*([] if now is None else [now]))
        assert phone.final() is WRONG


def test_client_ids_by_pattern() -> None:
    """As with a password."""
    site = Site()
    site.kept.set(Account("user", scram=KEYS, client_ids=("line-*",)))
    assert site.log_in() is NO


def test_who_guesses_has_to_wait_as_with_passwords() -> None:
    """Also with exchanges that were begun before; another address does not notice, nor who only begins."""
    site = Site(burst=3)
    for _ in range(20):
        site.phone().first()
    phones = [site.phone("user", f"guess-{number}") for number in range(5)]
    for phone in phones:
        phone.first()
    assert [phone.final() for phone in phones] == [WRONG, WRONG, WRONG, ReasonCode.SERVER_BUSY, ReasonCode.SERVER_BUSY]
    assert site.log_in() is ReasonCode.SERVER_BUSY
    phone = Phone(site.method.begin(attempt()._replace(peer="203.0.113.1:5")))
    phone.first()
    assert phone.final() == "user"
    site.clock.advance(1)
    assert site.log_in() == "user"


def test_it_is_not_offered_where_no_passwords_are() -> None:
    """A listener whose chain has neither file nor grid."""
    site = Site()
    phone = Phone(site.method.begin(attempt()._replace(listener="other")))
    answer = phone.first()
    assert isinstance(answer, Denied) and answer.reason is ReasonCode.BAD_AUTHENTICATION_METHOD


def test_keys_in_text_come_back() -> None:
    """And what is none is refused, without its bytes."""
    assert scram_keys.parse(str(KEYS)) == KEYS
    assert "4096" in repr(KEYS) and str(KEYS).split("$")[2] not in repr(KEYS)
    for text in ("", "4096$AAAA", str(KEYS).replace("4096", "1"), str(KEYS).replace("4096", "9" * 20), "4096$!$!$!"):
        with pytest.raises(ValueError):
            scram_keys.parse(text)


@pytest.mark.parametrize(
    ("typed", "made"),
    [("I\u00adX", "IX"), ("user", "user"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b")],
)
def test_passwords_are_prepared(typed: str, made: str) -> None:
    """RFC 4013, section 3: the same password, however it was typed."""
    assert scram_keys.prepared(typed) == made


@pytest.mark.parametrize("typed", ["\u0007", "\u0627\u0031", "\u0221"])
def test_passwords_that_cannot_be_typed_are_refused(typed: str) -> None:
    """Control characters, and scripts that run against each other."""
    with pytest.raises(ValueError):
        scram_keys.prepared(typed)
