"""A real broker, many clients that send rubbish, and one that must not notice."""

from __future__ import annotations

from tests.fuzz.storm import FAULTS, storm
from tests.seeds import seed_of


def test_a_storm_of_rubbish_disturbs_nobody() -> None:
    """No crash, no traceback, no connection that stays, no message of the healthy client lost or out of order."""
    came = storm(30_000, seed_of("storm"), clients=6)
    assert not came.faults, came.faults[0]
    assert came.tally.packets >= 30_000
    # Most connections begin well: the broker has to read what they send.
    assert came.read > 3000
    assert came.healthy > 3


def test_a_traceback_in_a_log_is_found() -> None:
    """So that the test above can fail."""
    assert FAULTS.search("2026-01-01 [error] Traceback (most recent call last):")
    assert FAULTS.search("Unhandled error in Deferred")
    assert not FAULTS.search("[warning] commands wait in Kafka; trying again")
