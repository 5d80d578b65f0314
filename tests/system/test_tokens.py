"""A token at a real node: let in as whom it names, and out when it ends; its keys come from an address."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from systemkit import wire
from systemkit.plain import Plain
from systemkit.process import MOSQUITTO
from systemkit.starting import StartBroker

pytestmark = pytest.mark.skipif(MOSQUITTO, reason="it knows no tokens")

NOT_AUTHORIZED = 0x87
KEY = ec.generate_private_key(ec.SECP256R1())
SECRET = "s" * 40


@pytest.fixture
def jwks() -> Iterator[str]:
    """Where the keys are."""

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            entry = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "k1"}
            body = json.dumps({"keys": [entry]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/keys"
        server.shutdown()


def test_a_token_lets_in_until_it_ends(start_broker: StartBroker, tmp_path: Path, jwks: str) -> None:
    """By a secret of a file, and by a key that was fetched; a client that is in goes when its token ends."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    settings = {"auth.chain": "[jwt]", "auth.jwt.secret_file": secret, "auth.jwt.jwks_url": jwks, "auth.jwt.leeway": 0}
    broker = start_broker(settings=settings)

    def enter(token: str, version: int = 5) -> tuple[int, Plain]:
        client = Plain(broker.ports["mqtt"], version=version)
        client.send(wire.connect("c", version=version, user="plc-7", password=token.encode()))
        return client.expect(wire.CONNACK).reason(), client

    ends = time.time() + 3
    reason, client = enter(jwt.encode({"sub": "plc-7", "exp": ends}, SECRET, "HS256"))
    assert reason == 0
    assert client.expect(wire.DISCONNECT).reason() == NOT_AUTHORIZED
    assert -0.1 < time.time() - ends < 1.5
    reason, _ = enter(jwt.encode({"sub": "plc-7", "exp": ends}, SECRET, "HS256"))
    assert reason == NOT_AUTHORIZED
    reason, _ = enter(jwt.encode({"sub": "plc-7", "exp": ends + 60}, KEY, "ES256", {"kid": "k1"}))
    assert reason == 0
    reason, _ = enter(jwt.encode({"sub": "ann", "exp": ends + 60}, SECRET, "HS256"))
    assert reason == NOT_AUTHORIZED
