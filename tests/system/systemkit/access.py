"""A broker with users and rules, and clients that say who they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

from systemkit import wire
from systemkit.forking import clean_environment
from systemkit.plain import Plain
from systemkit.process import BrokerProcess, our_command
from systemkit.wire import Publication, Received

#: Stands for a client that names no user.
ANONYMOUS = ""


def set_password(file: Path, user: str, password: str) -> None:
    """Run ``iot-mqtt passwd`` as an operator would."""
    _passwd(str(file), "--password-stdin", "--", user, given=password + "\n")


def remove_user(file: Path, user: str) -> None:
    """Run ``iot-mqtt passwd --delete``."""
    _passwd(str(file), "--delete", "--", user)


def _passwd(*arguments: str, given: str = "") -> None:
    subprocess.run(
        [*our_command(), "passwd", *arguments],
        input=given,
        text=True,
        env=clean_environment(),
        check=True,
        capture_output=True,
        timeout=50,
    )


def password_of(user: str) -> str:
    """Every user of the tests has a password of its own."""
    return f"{user} knows it"


def attempt(
    broker: BrokerProcess,
    user: str,
    client_id: str,
    *,
    version: int,
    password: bytes | None = None,
    will: tuple[str, bytes, int, bool] | None = None,
    will_delay: int = 0,
    clean: bool = True,
    expiry: int = 0,
) -> tuple[Plain, Received]:
    """A client that has sent CONNECT, and the CONNACK that came.

    ``password`` is the user's own unless given; an empty one is left out.
    """
    properties = b"\x11" + expiry.to_bytes(4, "big") if expiry and version == 5 else b""
    client = Plain(broker.ports["mqtt"], version=version)
    named = user != ANONYMOUS
    if named and password is None:
        password = password_of(user).encode()
    client.send(
        wire.connect(
            client_id,
            version=version,
            clean=clean,
            properties=properties,
            user=user if named else None,
            password=password or None,
            will=will,
            will_delay=will_delay,
        )
    )
    return client, client.expect(wire.CONNACK)


def enter(
    broker: BrokerProcess,
    user: str,
    client_id: str,
    *,
    version: int = 5,
    will: tuple[str, bytes, int, bool] | None = None,
    will_delay: int = 0,
    kept: bool = False,
) -> Plain:
    """A client that is let in; ``kept``: with its session, which outlives the connection for a minute or more."""
    client, answer = attempt(
        broker,
        user,
        client_id,
        version=version,
        will=will,
        will_delay=will_delay,
        clean=not kept,
        expiry=60 if kept else 0,
    )
    assert answer.reason() == 0, f"CONNACK {answer.reason():#x} for {user!r}"
    return client


def denied(broker: BrokerProcess, action: str) -> float:
    """Requests of a kind that the broker has counted as denied so far."""
    samples = broker.metrics()
    assert samples is not None
    return samples.get(f'iot_mqtt_requests_denied_total{{action="{action}"}}', 0.0)


class Watcher:
    """Sees everything that is published, so that a test can tell what was not."""

    #: Not among "#", so that nobody else gets it.
    MARK = "$edge/mark"

    def __init__(self, broker: BrokerProcess, user: str) -> None:
        self.client = enter(broker, user, "watcher")
        self.client.subscribe(("#", 0), (self.MARK, 0))

    def seen(self) -> list[Publication]:
        """All that arrived; whatever the broker has dealt with is here or will never come."""
        self.client.publish(self.MARK, b"")
        came = []
        while (message := self.client.expect_publication()).topic != self.MARK:
            came.append(message)
        return came
