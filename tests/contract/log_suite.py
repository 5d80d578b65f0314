"""What the log must do on every grid."""

from __future__ import annotations

from tests.contract.log_lives_suite import LogLivesSuite
from tests.contract.log_reading_suite import LogReadingSuite


class LogSuite(LogReadingSuite, LogLivesSuite):
    """Subclass, and define ``make``: it returns a grid, not yet open."""
