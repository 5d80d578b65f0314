"""Calling those who listen: a listener that raises is logged and stops nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

log = logging.getLogger(__name__)

P = ParamSpec("P")


def nobody(*_: object) -> None:
    """Who listens until somebody does."""


def tell(listener: Callable[P, None], *what: P.args, **named: P.kwargs) -> None:
    try:
        listener(*what, **named)
    except Exception:
        log.exception("a listener of the registry failed")


def start(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run it by itself; what it does not expect is a fault of ours and is logged."""
    Deferred.fromCoroutine(coroutine).addErrback(_failed)


def _failed(failure: Failure) -> None:
    log.error("the registry failed", exc_info=(failure.type, failure.value, failure.getTracebackObject()))  # type: ignore[arg-type]
