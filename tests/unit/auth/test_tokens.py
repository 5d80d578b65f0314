"""Tokens: who signed them, with what, and what they claim; keys from files and from an address."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from twisted.internet.defer import Deferred

from iot_mqtt.auth import token_keys, tokens
from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.key_ring import KeyRing
from iot_mqtt.auth.links.tokens import TokenLink
from iot_mqtt.auth.settings import JwtSettings
from iot_mqtt.auth.token_keys import TokenKey
from iot_mqtt.auth.tokens import BadToken
from iot_mqtt.auth.web import WebError
from iot_mqtt.errors import ReasonCode, Unavailable
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Denied, Principal
from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.auth.authkit import attempt, outcome, start
from tests.unit.auth.test_accounts import Kept

NOW = 1_800_000_000.0
SECRET = "s" * 32
RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEYS = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def pem(key: Any) -> str:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return str(public.decode())


KEYS = (
    *token_keys.secret_key(SECRET + "\n", "secret"),
    *token_keys.public_key(pem(RSA_KEY), "rsa"),
    *token_keys.public_key(pem(EC_KEY), "ec"),
)


def signed(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> bytes:
    claims = {"sub": "plc-7", "exp": NOW + 60, **claims}
    return jwt.encode(
        {name: value for name, value in claims.items() if value is not None}, key, algorithm, headers
    ).encode()


def refusal(token: bytes, keys: tuple[TokenKey, ...] = KEYS, now: float = NOW, **settings: Any) -> str:
    with pytest.raises(BadToken) as caught:
        tokens.read(token, keys, JwtSettings(**settings), now)
    return str(caught.value)


def test_each_algorithm_is_verified_by_its_own_key() -> None:
    """HS, RS and ES of every size."""
    for algorithm in ("HS256", "HS384", "HS512"):
        secret = SECRET * 2
        keys = token_keys.secret_key(secret, "secret")
        assert tokens.read(signed(secret, algorithm), keys, JwtSettings(), NOW).user == "plc-7"
    for algorithm in ("RS256", "RS384", "RS512"):
        assert tokens.read(signed(RSA_KEY, algorithm), KEYS, JwtSettings(), NOW).user == "plc-7"
    for algorithm, curve in EC_KEYS.items():
        key = ec.generate_private_key(curve)
        keys = token_keys.public_key(pem(key), "ec")
        assert tokens.read(signed(key, algorithm), keys, JwtSettings(), NOW).user == "plc-7"


def test_no_token_chooses_how_it_is_verified() -> None:
    """The public key is no secret, and `none` is no signature."""
    header, payload = b'{"alg":"HS256","typ":"JWT"}', json.dumps({"sub": "admin", "exp": NOW + 60}).encode()
    message = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    for public in (pem(RSA_KEY), pem(RSA_KEY).rstrip(), pem(EC_KEY)):
        forged = (
            message
            + b"."
            + base64.urlsafe_b64encode(hmac.digest(public.encode(), message, hashlib.sha256)).rstrip(b"=")
        )
        assert "signature" in refusal(forged)
        assert "signature" in refusal(forged, KEYS[1:])
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=") + b"." + message.split(b".")[1] + b"."
    assert tokens.looks_like(none)
    assert "algorithm" in refusal(none)
    assert "algorithm" in refusal(signed(), algorithms=("RS256",))
    other = ec.generate_private_key(ec.SECP256R1())
    assert "signature" in refusal(signed(other, "ES256"))
    assert "header" in refusal(signed(headers={"crit": ["x"], "x": 1}))


def made_of(header: bytes, payload: bytes) -> bytes:
    """A token of these bytes, with a good signature."""
    message = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    signature = hmac.digest(SECRET.encode(), message, hashlib.sha256)
    return message + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")


class FixedKeys:
    """Keys that are there, and no others anywhere."""

    trouble = None

    def now(self) -> tuple[TokenKey, ...]:
        return KEYS

    async def renew(self) -> None:
        """There is nothing to look at."""


GOOD = b'{"alg":"HS256"}'


@pytest.mark.parametrize(
    ("header", "payload"),
    [
        (b'{"alg":[]}', b"{}"),
        (b'{"alg":{"a":1}}', b"{}"),
        (b'{"alg":["HS256"]}', b"{}"),
        (b'{"alg":null}', b"{}"),
        (b'{"alg":NaN}', b"{}"),
        (b'{"alg":"HS256","kid":[1]}', b"{}"),
        (b'{"alg":"HS256","kid":{}}', b"{}"),
        (b'{"alg":"HS256","b64":false}', b"{}"),
        (b'{"alg":"HS256","alg":[]}', b"{}"),
        (b'{"alg":"\\ud800"}', b"{}"),
        (b'{"alg":"HS256","x":' + b"[" * 5000 + b"]" * 5000 + b"}", b"{}"),
        (b'{"alg":"HS256","x":' + b"9" * 5000 + b"}", b"{}"),
        (b'{"a\xff', b"{}"),
        (GOOD, b"[]"),
        (GOOD, b"\xff"),
        (GOOD, b"[" * 5000),
        (GOOD, b'{"exp":' + b"9" * 400 + b"}"),
        (GOOD, b'{"exp":-' + b"9" * 400 + b"}"),
        (GOOD, b'{"exp":' + b"9" * 5000 + b"}"),
        (GOOD, b'{"exp":1e400}'),
        (GOOD, b'{"exp":NaN}'),
        (GOOD, b'{"exp":[]}'),
        (GOOD, b'{"exp":4e9,"nbf":' + b"9" * 400 + b"}"),
        (GOOD, b'{"exp":4e9,"sub":"\\ud800"}'),
        (GOOD, b'{"exp":4e9,"sub":["ann"]}'),
        (GOOD, b'{"exp":4e9,"sub":"ann","groups":["\\ud800"]}'),
        (GOOD, b'{"exp":4e9,"sub":"ann","groups":{"a":1}}'),
    ],
)
def test_a_token_that_nobody_would_make_is_a_wrong_one(header: bytes, payload: bytes) -> None:
    """However it is signed: it is refused, and is no error of ours."""
    token = made_of(header, payload)
    assert tokens.looks_like(token)
    link = TokenLink(JwtSettings(), FixedKeys(), Accounts([Kept()]), ManualClock())
    verdict = outcome(start(link.consider(attempt(None, token))))
    assert isinstance(verdict, Denied) and verdict.reason is ReasonCode.NOT_AUTHORIZED


def test_what_was_changed_is_refused() -> None:
    """Every byte of it counts."""
    good = signed()
    for place in range(0, len(good), 7):
        changed = good[:place] + (b"A" if good[place : place + 1] != b"A" else b"B") + good[place + 1 :]
        with pytest.raises(BadToken):
            tokens.read(changed, KEYS, JwtSettings(), NOW)
    assert "too long" in refusal(signed(more="x" * 20_000))


@pytest.mark.parametrize(
    ("claims", "settings", "words"),
    [
        ({"exp": NOW - 10}, {}, "expired"),
        ({"exp": NOW - 3}, {"leeway": 0.0}, "expired"),
        ({"exp": None}, {}, "exp"),
        ({"exp": True}, {}, "no time"),
        ({"nbf": NOW + 10}, {}, "not valid yet"),
        ({}, {"issuer": "https://us"}, "issuer"),
        ({"iss": "https://them"}, {"issuer": "https://us"}, "issuer"),
        ({}, {"audience": "mqtt"}, "audience"),
        ({"aud": ["web", "mail"]}, {"audience": "mqtt"}, "audience"),
        ({"sub": None}, {}, "no user"),
        ({"sub": ""}, {}, "no user"),
        ({"sub": "a\nb"}, {}, "no user"),
        ({"sub": "x" * 300}, {}, "no user"),
        ({"groups": [1]}, {}, "groups"),
        ({"groups": ["x"] * 101}, {}, "groups"),
        ({"acl": "allow all #"}, {"rules_claim": "acl"}, "rules"),
    ],
)
def test_claims_that_do_not_hold_are_refused(claims: dict[str, Any], settings: dict[str, Any], words: str) -> None:
    """With words that hold nothing of the token."""
    assert words in refusal(signed(**claims), **settings)


def test_what_a_good_token_says() -> None:
    """User, groups and rules from the claims that the settings name; the end with our patience."""
    settings = JwtSettings(
        issuer="i", audience="mqtt", user_claim="name", groups_claim="scope", rules_claim="acl", leeway=2
    )
    token = signed(iss="i", aud=["web", "mqtt"], name="ann", scope="a b", acl=["allow all x/#"], nbf=NOW + 1)
    claims = tokens.read(token, KEYS, settings, NOW)
    assert claims == tokens.Claims("ann", frozenset({"a", "b"}), ("allow all x/#",), NOW + 62)
    assert tokens.read(signed(exp=None), KEYS, JwtSettings(require_expiry=False), NOW).expires_at is None
    assert tokens.read(signed(groups=["a"], acl=["x"]), KEYS, JwtSettings(groups_claim=""), NOW)[1:3] == (
        frozenset(),
        (),
    )


def jwk(key: Any, **more: Any) -> dict[str, Any]:
    maker = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**json.loads(maker.to_jwk(key.public_key())), **more}


def test_keys_of_a_set_are_told_apart_by_name_use_and_algorithm() -> None:
    """Of kinds that nobody knows, none is taken; shared secrets are not for everybody to fetch."""
    oct = {"kty": "oct", "k": base64.urlsafe_b64encode(SECRET.encode()).decode(), "kid": "s"}
    entries = [
        jwk(RSA_KEY, kid="r", alg="RS256"),
        jwk(EC_KEY, kid="e"),
        jwk(ec.generate_private_key(ec.SECP256R1()), kid="enc", use="enc"),
        {"kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "o"},
        jwk(EC_KEY, kid="l", alg=["ES256"]),
        oct,
    ]
    text = json.dumps({"keys": entries})
    keys = tuple(token_keys.keys_of(text))
    assert [key.kid for key in keys] == ["r", "e", "s"]
    assert [key.kid for key in token_keys.keys_of(text, secrets=False)] == ["r", "e"]
    assert tokens.read(signed(RSA_KEY, "RS256", {"kid": "r"}), keys, JwtSettings(), NOW)
    assert tokens.read(signed(EC_KEY, "ES256"), keys, JwtSettings(), NOW), "without a name, those that fit are tried"
    assert "signature" in refusal(signed(RSA_KEY, "RS512", {"kid": "r"}), keys), "the set names the algorithm"
    assert "not known" in refusal(signed(RSA_KEY, "RS256", {"kid": "x"}), keys)
    assert "signature" in refusal(signed(EC_KEY, "ES256", {"kid": "r"}), keys)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (token_keys.secret_key, "short"),
        (token_keys.secret_key, pem(RSA_KEY)),
        (token_keys.public_key, "nothing"),
        (token_keys.public_key, pem(rsa.generate_private_key(65537, 1024))),
        (token_keys.public_key, pem(ec.generate_private_key(ec.SECP256K1()))),
        (token_keys.key_set, "[]"),
        (token_keys.key_set, '{"keys": {}}'),
        (token_keys.key_set, json.dumps({"keys": [{"kty": "RSA", "n": "AQAB"}]})),
        (token_keys.key_set, json.dumps({"keys": [{"kty": "oct", "k": "AAAA"}]})),
        (token_keys.key_set, json.dumps({"keys": [{}] * 101})),
    ],
)
def test_files_without_a_key_that_can_be_used_are_refused(parse: Any, text: str) -> None:
    """With the name of the file."""
    with pytest.raises(FileError) as caught:
        parse(text, "/etc/key")
    assert "/etc/key" in str(caught.value)


class Site:
    """The link, with keys from an address that answers when the test says so."""

    def __init__(self, *accounts: Account, **settings: Any) -> None:
        self.clock = ManualClock()
        self.asked: list[Deferred[tuple[int, bytes]]] = []
        self.ring = KeyRing((), self.clock, self, "https://keys")
        self.link = TokenLink(JwtSettings(**settings), self.ring, Accounts([Kept(*accounts)]), self.clock)

    async def get(self, url: str, patience: float, most: int) -> tuple[int, bytes]:
        self.asked.append(Deferred())
        return await self.asked[-1]

    async def post(self, *_: Any) -> tuple[int, bytes]:
        raise NotImplementedError

    def answer(self, *entries: dict[str, Any], status: int = 200) -> None:
        self.asked[-1].callback((status, json.dumps({"keys": entries}).encode()))

    def token(self, key: Any = RSA_KEY, **headers: Any) -> bytes:
        return signed(key, "RS256", headers, exp=self.clock.wall() + 60)

    def connect(self, token: bytes, user: str | None = None) -> Any:
        return start(self.link.consider(attempt(user, token)))


def test_keys_are_fetched_and_asked_for_again_when_a_token_names_a_new_one() -> None:
    """All who wait, wait for one answer; and not more often than every ten seconds."""
    site = Site()
    site.ring.begin()
    waiting = [site.connect(site.token(kid="r")) for _ in range(3)]
    assert len(site.asked) == 1
    site.answer(jwk(RSA_KEY, kid="r"))
    assert [outcome(one).username for one in waiting] == ["plc-7"] * 3
    new = rsa.generate_private_key(65537, 2048)
    assert isinstance(outcome(site.connect(site.token(new, kid="n"))), Denied)
    assert len(site.asked) == 1, "too soon"
    site.clock.advance(10)
    waiting = [site.connect(site.token(new, kid="n"))]
    site.answer(jwk(RSA_KEY, kid="r"), jwk(new, kid="n"))
    assert isinstance(outcome(waiting[0]), Principal)
    site.clock.advance(300)
    assert len(site.asked) == 3, "again after a time"


def test_keys_that_were_fetched_stay_until_there_are_better_ones() -> None:
    """Whoever has them may be away, or answer nonsense; without any, clients are told to come back."""
    site = Site()
    site.ring.begin()
    waiting = site.connect(site.token(kid="r"))
    site.asked[-1].errback(WebError("refused"))
    with pytest.raises(Unavailable):
        outcome(waiting)
    site.clock.advance(10)
    site.answer(jwk(RSA_KEY, kid="r"))
    assert isinstance(outcome(site.connect(site.token(kid="r"))), Principal)
    for answer in ((200, b"<html>"), (500, b""), (200, b'{"keys":[]}')):
        site.clock.advance(300)
        site.asked[-1].callback(answer)
        assert isinstance(outcome(site.connect(site.token(kid="r"))), Principal)
        assert "keys for tokens cannot be fetched" in site.link.known(attempt(None, site.token(kid="r")))
    site.ring.close()
    count = len(site.asked)
    site.clock.advance(1000)
    assert len(site.asked) == count


def test_keys_that_cannot_be_fetched_are_an_alarm_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The log has each cause once, and the end."""
    site = Site()
    site.ring.begin()
    for status in (500, 500, 404):
        site.answer(status=status)
        words = f"keys for tokens cannot be fetched, those of before stay: the answer was {status}"
        assert site.ring.alarms == (Alarm(AlarmKind.ACCESS_SERVICE, words),)
        site.clock.advance(10)
    site.answer(jwk(RSA_KEY, kid="r"))
    assert site.ring.alarms == ()
    assert [(record.levelname, record.getMessage()[-12:]) for record in caplog.records] == [
        ("WARNING", "swer was 500"),
        ("WARNING", "swer was 404"),
        ("WARNING", "etched again"),
    ]


@pytest.mark.parametrize("spoiled", ["expired", "changed", "of another key"])
def test_a_token_is_no_guess(spoiled: str) -> None:
    """0x86 would be counted as a wrong password (``conduct``), and the client be banned with its next, good token."""
    site = Site()
    site.ring.begin()
    site.answer(jwk(RSA_KEY))
    token = {
        "expired": signed(RSA_KEY, "RS256", exp=site.clock.wall() - 60),
        "changed": site.token()[:-8] + b"AAAAAAAA",
        "of another key": site.token(rsa.generate_private_key(65537, 2048)),
    }[spoiled]
    verdict = outcome(site.connect(token))
    assert isinstance(verdict, Denied) and verdict.reason is ReasonCode.NOT_AUTHORIZED


def test_a_token_counts_for_as_long_as_it_is_accepted() -> None:
    """Our clock may be ahead by so much: who comes in that time is not let in only to be let go at once."""
    token = signed(exp=NOW)
    settings = JwtSettings(leeway=5)
    for late in (-1, 0, 4.9):
        assert tokens.read(token, KEYS, settings, NOW + late).expires_at == NOW + 5
    with pytest.raises(BadToken, match="expired"):
        tokens.read(token, KEYS, settings, NOW + 5)


def test_the_user_is_whom_the_token_names() -> None:
    """Another name in CONNECT is refused, or not looked at; who is disabled stays out; other passwords go on."""
    site = Site(Account("plc-7", enabled=False))
    site.ring.begin()
    site.answer(jwk(RSA_KEY))
    verdict = outcome(site.connect(site.token()))
    assert isinstance(verdict, Denied) and verdict.reason is ReasonCode.NOT_AUTHORIZED
    site = Site()
    site.ring.begin()
    site.answer(jwk(RSA_KEY))
    verdict = outcome(site.connect(site.token(), "ann"))
    assert isinstance(verdict, Denied) and verdict.reason is ReasonCode.NOT_AUTHORIZED
    for name in (None, "", "plc-7"):
        verdict = outcome(site.connect(site.token(), name))
        assert isinstance(verdict, Principal) and verdict.owner == "plc-7"
        assert verdict.expires_at == site.clock.wall() + 65
    assert outcome(site.connect(b"a password", "ann")) is None
    site.link._settings = JwtSettings(check_username=False)
    assert isinstance(outcome(site.connect(site.token(), "ann")), Principal)


def test_keys_of_files_are_watched(tmp_path: Path) -> None:
    """A file that is wrong keeps what it said."""
    from iot_mqtt.auth.service import Access
    from iot_mqtt.auth.settings import AuthSettings
    from tests.unit.auth.authkit import Threads

    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    settings = AuthSettings(chain=("jwt",), jwt=JwtSettings(secret_file=str(secret)))
    clock = ManualClock()
    access = Access(settings, Threads().cross, clock)

    def lets_in(text: str) -> bool:
        token = signed(text, exp=clock.wall() + 60)
        return isinstance(outcome(start(access.authenticator.authenticate(attempt(None, token)))), Principal)

    assert lets_in(SECRET)
    secret.write_text("t" * 40)
    assert access.look(changed_only=False)() == []
    assert not lets_in(SECRET) and lets_in("t" * 40)
    secret.write_text("short")
    assert len(access.look(changed_only=False)()) == 1
    assert lets_in("t" * 40)
    access.close()
