"""Bugs to put into the broker, to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from iot_mqtt.broker.connections.handlers import PublishAnswers
from iot_mqtt.compiled import CHOICE


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """``acknowledge-early``: PUBACK and PUBREC do not wait for the commit."""
    if name is None:
        yield
        return
    if CHOICE.use:
        raise SystemExit("a bug can be put into Python, not into what is compiled: set IOT_MQTT_NATIVE=off")
    original = PublishAnswers.acknowledge

    def acknowledge(*args: Any) -> None:
        outcome = args[-1]
        outcome.ticket = 0
        original(*args)

    PublishAnswers.acknowledge = acknowledge  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        PublishAnswers.acknowledge = original  # type: ignore[method-assign]
