"""A client's side of SCRAM-SHA-256 over MQTT 5, by RFC 5802; nothing of it is the broker's."""

from __future__ import annotations

import base64
import hashlib
import hmac

from systemkit import wire
from systemkit.access import password_of
from systemkit.plain import Plain
from systemkit.wire import Received

NAME = "SCRAM-SHA-256"
AUTH, CONTINUE, AGAIN = 15, 0x18, 0x19
_NONCE = "rOprNGfwEbeRWgbNEkqO"


def log_in(client: Plain, client_id: str, user: str) -> Received:
    """CONNECT to its answer."""
    client.send(wire.connect(client_id, version=5, properties=_properties(_first(user))))
    return _prove(client, user)


def authenticate_again(client: Plain, user: str) -> Received:
    """AUTH on a connection that is in, to its answer."""
    client.send(_auth(AGAIN, _first(user)))
    return _prove(client, user)


def _prove(client: Plain, user: str) -> Received:
    asked = client.receive()
    assert asked is not None
    if asked.kind != AUTH:
        return asked
    at = asked.body.index(b"\x16") + 3
    challenge = asked.body[at:].decode()
    nonce, salt, iterations = (part[2:] for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password_of(user).encode(), base64.b64decode(salt), int(iterations))
    unproven = f"c=biws,r={nonce}"
    said = f"{_first(user)[3:]},{challenge},{unproven}".encode()
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), said, "sha256")
    proof = base64.b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True))).decode()
    client.send(_auth(CONTINUE, f"{unproven},p={proof}"))
    answer = client.receive()
    assert answer is not None
    return answer


def _first(user: str) -> str:
    return f"n,,n={user},r={_NONCE}"


def _properties(data: str) -> bytes:
    return b"\x15" + wire.text(NAME) + b"\x16" + wire.text(data)


def _auth(reason: int, data: str) -> bytes:
    properties = _properties(data)
    return wire.packet(AUTH << 4, bytes((reason,)) + wire.variable(len(properties)) + properties)
