"""The log on real Ignite servers."""

from __future__ import annotations

from tests.contract.grids import OnIgnite
from tests.contract.log_suite import LogSuite


class TestLogOnIgnite(OnIgnite, LogSuite):
    """On one server: what two make different, the contract of the grid tests."""

    courses = 2
