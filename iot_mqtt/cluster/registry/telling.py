"""Calling those who listen: a listener that raises is logged and stops nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.ports.registry import RegistryState

log = logging.getLogger(__name__)


def nobody(_state: RegistryState) -> None:
    """Who listens for states until somebody does."""


def nothing() -> None:
    """Who listens for members until somebody does."""


def tell_state(listener: Callable[[RegistryState], None], state: RegistryState) -> None:
    try:
        listener(state)
    except Exception:
        log.exception("a listener for the registry's state failed")


def tell_members(listener: Callable[[], None]) -> None:
    try:
        listener()
    except Exception:
        log.exception("a listener for the registry's members failed")


def start(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it by itself; what it does not expect is a fault of ours and is logged."""
    Deferred.fromCoroutine(coroutine).addErrback(_failed)


def _failed(failure: Failure) -> None:
    log.error("the registry failed", exc_info=(failure.type, failure.value, failure.getTracebackObject()))  # type: ignore[arg-type]
