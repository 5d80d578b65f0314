"""What other nodes change, looked at again and again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.python.failure import Failure

log = logging.getLogger(__name__)


class Following:
    """One look at a time: while the grid lets one wait, no others gather behind it. Trouble is logged when it begins
    and when it is over.
    """

    def __init__(
        self, refresh: Callable[[], Coroutine[Any, Any, None]], what: str = "users and rules of the grid"
    ) -> None:
        """``what`` is looked at, for the log."""
        self._refresh = refresh
        self._what = what
        self._looking = False
        self._trouble = False

    def look(self) -> None:
        """Every few tenths of a second."""
        if not self._looking:
            self._looking = True
            ensureDeferred(self._refresh()).addCallbacks(self._seen, self._failed)

    def _seen(self, _: None) -> None:
        self._looking = False
        if self._trouble:
            log.warning("%s can be seen again", self._what)
        self._trouble = False

    def _failed(self, failure: Failure) -> None:
        self._looking = False
        if not self._trouble:
            log.warning("%s cannot be seen: %s", self._what, failure.getErrorMessage())
        self._trouble = True
