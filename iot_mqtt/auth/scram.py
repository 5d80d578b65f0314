"""SCRAM-SHA-256 as a method of MQTT 5 enhanced authentication (RFC 5802, 7677): the password never leaves the client.

::

    CONNECT  n,,n=ann,r=CLIENT                          who it is, and a nonce
    AUTH                  r=CLIENTSERVER,s=SALT,i=4096  what the keys were made with
    AUTH     c=biws,r=CLIENTSERVER,p=PROOF              that it has the password
    CONNACK               v=SIGNATURE                   that we have the keys

A name that nobody has gets a salt of its own, the same at every time and on every node, and as many iterations as users
have: the exchange goes on to its end and fails as with a wrong password. Proofs that fail count for their address as
wrong passwords do.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final, Protocol

from iot_mqtt.auth.accounts import Account, Accounts
from iot_mqtt.auth.links.passwords import WRONG
from iot_mqtt.auth.scram_keys import SALT_SIZE, ScramKeys
from iot_mqtt.auth.vouched import STRANGERS, Vouching
from iot_mqtt.errors import ReasonCode
from iot_mqtt.ports.access import Challenge, ConnectAttempt, Denied, Exchange, Granted, Principal
from iot_mqtt.ports.addresses import source_of

#: Bytes of a message from a client.
LONGEST: Final = 4096
LONGEST_NONCE: Final = 256
#: The flag: a client that cannot bind channels (n), or thinks that we cannot (y).
_FIRST = re.compile(
    r"[ny],(?:a=(?P<other>[^,]*))?,(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,[a-zA-Z]=[^,]*)*)"
)
_FINAL = re.compile(
    r"(?P<unproven>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,[a-oq-zA-Z]=[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_MALFORMED: Final = Denied(ReasonCode.NOT_AUTHORIZED, "this is no message of SCRAM")


class Guesses(Protocol):
    """Counts wrong passwords by address."""

    def may_guess(self, source: str) -> bool:
        """Whether the address may show one more now."""
        ...

    def guessed_wrong(self, source: str) -> None:
        """It showed one that was wrong."""
        ...


#: Which users a listener's clients may be; None: none by a password.
AccountsOf = Callable[[str], "Accounts | None"]


class Scram:
    """The method; ``key`` is what salts of names that nobody has are made from."""

    name = "SCRAM-SHA-256"

    def __init__(
        self,
        accounts: AccountsOf,
        guesses: Guesses,
        key: Callable[[], bytes],
        vouching: Vouching = STRANGERS,
    ) -> None:
        self._accounts = accounts
        self._guesses = guesses
        self._key = key
        self._vouching = vouching

    def begin(self, attempt: ConnectAttempt) -> Exchange:
        accounts = self._accounts(attempt.listener)
        return _Exchange(attempt, accounts, self._guesses, self._key, self._vouching)


class _Exchange:
    """One exchange: the first message, the proof, and no more."""

    def __init__(
        self,
        attempt: ConnectAttempt,
        accounts: Accounts | None,
        guesses: Guesses,
        key: Callable[[], bytes],
        vouching: Vouching,
    ) -> None:
        self._attempt = attempt
        self._accounts = accounts
        self._guesses = guesses
        self._key = key
        self._vouching = vouching
        self._name = ""
        self._keys: ScramKeys | None = None
        #: What both sides have said and the proof is about, without its end.
        self._said = ""
        self._nonce = ""
        self._binding = ""

    async def step(self, data: bytes | None) -> Challenge | Granted | Denied:
        if self._accounts is None:
            return Denied(ReasonCode.BAD_AUTHENTICATION_METHOD, "this authentication method is not offered here")
        if data is None:
            return _MALFORMED
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return _MALFORMED
        if len(data) > LONGEST:
            return _MALFORMED
        return self._first(text, self._accounts) if self._keys is None else self._final(text, self._accounts)

    def _first(self, text: str, accounts: Accounts) -> Challenge | Denied:
        match = _FIRST.fullmatch(text)
        name = _unescaped(match["name"]) if match is not None else None
        if match is None or name is None or len(match["nonce"]) > LONGEST_NONCE:
            return _MALFORMED
        if match["other"] is not None and _unescaped(match["other"]) != name:
            return Denied(ReasonCode.NOT_AUTHORIZED, "nobody may log in for another user")
        if self._attempt.username not in (None, "", name):
            return Denied(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "CONNECT names another user")
        account = accounts.find(name)
        self._name = name
        self._keys = (account and account.scram) or _invented(name, self._key(), accounts)
        self._binding = base64.b64encode(text[: match.start("bare")].encode()).decode()
        self._nonce = match["nonce"] + base64.b64encode(secrets.token_bytes(18)).decode()
        salt = base64.b64encode(self._keys.salt).decode()
        challenge = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._said = f"{match['bare']},{challenge}"
        return Challenge(challenge.encode())

    def _final(self, text: str, accounts: Accounts) -> Granted | Denied:
        match, keys = _FINAL.fullmatch(text), self._keys
        assert keys is not None
        if match is None or match["binding"] != self._binding or match["nonce"] != self._nonce:
            return _MALFORMED
        source = source_of(self._attempt.peer)
        if not self._guesses.may_guess(source):
            return Denied(ReasonCode.SERVER_BUSY, "too many wrong passwords came from this address")
        said = f"{self._said},{match['unproven']}".encode()
        good = _proves(match["proof"], keys, said)
        # Users may have changed since the first message: what they are now counts.
        account = accounts.find(self._name)
        if account is None or account.scram != keys or not good or accounts.is_disabled(self._name):
            self._guesses.guessed_wrong(source)
            return WRONG
        return self._granted(account, base64.b64encode(hmac.digest(keys.server_key, said, "sha256")).decode())

    def _granted(self, account: Account, signature: str) -> Granted | Denied:
        principal = Principal(self._attempt.client_id, account.name)
        verdict = self._vouching.vouched(Scram.name, principal, self._attempt)
        return verdict if isinstance(verdict, Denied) else Granted(verdict, f"v={signature}".encode())


def _proves(proof: str, keys: ScramKeys, said: bytes) -> bool:
    try:
        shown = base64.b64decode(proof, validate=True)
    except binascii.Error:
        return False
    signature = hmac.digest(keys.stored_key, said, "sha256")
    if len(shown) != len(signature):
        return False
    client_key = bytes(one ^ other for one, other in zip(shown, signature, strict=True))
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), keys.stored_key)


def _invented(name: str, key: bytes, accounts: Accounts) -> ScramKeys:
    """Keys that no proof fits, always the same for a name."""
    made = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=key, digest_size=64).digest()
    point = int.from_bytes(made[SALT_SIZE : SALT_SIZE + 6]) / 2**48
    return ScramKeys(accounts.scram_iterations(point), made[:SALT_SIZE], made[32:], made[32:])


def _unescaped(name: str) -> str | None:
    """A name as it was before ``,`` and ``=`` were written as ``=2C`` and ``=3D``; None if it cannot be one."""
    if re.search(r"=(?!2C|3D)", name):
        return None
    return name.replace("=2C", ",").replace("=3D", "=")
