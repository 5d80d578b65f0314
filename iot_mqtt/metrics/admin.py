"""Logins at the admin port, as Prometheus text; asked for at each scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from iot_mqtt.metrics.families import FactsCollector, Family, gauge, labelled


class LoginFacts(Protocol):
    """What an admin port knows of logins."""

    @property
    def outcomes(self) -> Mapping[str, int]: ...

    @property
    def logins(self) -> int: ...


class AdminCollector(FactsCollector[LoginFacts]):
    """None where there is no admin port."""

    def families(self, facts: LoginFacts) -> Iterator[Family]:
        text = "Logins at this node's admin port: ok, wrong, locked (not looked at), failed (could not be looked at)."
        yield labelled("admin_logins", "outcome", text, facts.outcomes)
        yield gauge("admin_logins_kept", "Logins at admin ports that the grid has.", facts.logins)
