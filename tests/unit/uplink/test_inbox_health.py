"""What librdkafka counts and says, as words for an operator."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.uplink.inbox.health import JOIN_SECONDS, Health


def stats(state: str = "UP", idle: float = 0.1, join: str = "steady", lags: tuple[int, ...] = ()) -> dict[str, Any]:
    """As librdkafka counts; idle in seconds."""
    partitions = {str(number): {"consumer_lag": lag} for number, lag in enumerate(lags)}
    # Its own, for letters that nobody has a partition for.
    partitions["-1"] = {"consumer_lag": 7}
    return {
        "brokers": {
            "never": {"state": "INIT", "rxidle": -1},
            "one": {"state": state, "rxidle": round(idle * 1e6)},
        },
        "cgrp": {"join_state": join},
        "topics": {"t": {"partitions": partitions}},
    }


def test_an_answer_makes_it_well() -> None:
    """Whatever was said of the connection before."""
    health = Health("t", "g", 0.0)
    health.connection = "Connection refused"
    assert health.trouble(1.0) is None
    assert "Connection refused" in str(health.trouble(4.0))
    health.looked(stats(), 4.0)
    assert health.trouble(4.0) is None


@pytest.mark.parametrize("now", [stats("DOWN"), stats(idle=60.0)], ids=["gone", "silent"])
def test_silence_is_told_after_three_seconds(now: dict[str, Any]) -> None:
    """A connection that is gone, and one that is there and says nothing."""
    health = Health("t", "g", 0.0)
    health.looked(stats(), 10.0)
    health.looked(now, 12.0)
    assert health.trouble(12.0) is None
    health.looked(now, 13.5)
    assert health.trouble(13.5) == "Kafka has not answered for 4 s"


def test_an_answer_counts_before_the_library_has_counted_anything() -> None:
    """Consumers that end at once have no figures; what ends them is told, and no silence."""
    health = Health("t", "g", 0.0)
    health.member = "the position is refused"
    health.answered(9.0)
    assert health.trouble(10.0) == "the position is refused"


def test_a_group_that_lets_nobody_in_is_told() -> None:
    """After a while: others may have to finish first."""
    health = Health("t", "g", 0.0)
    health.looked(stats(join="wait-join"), JOIN_SECONDS - 1)
    assert health.trouble(JOIN_SECONDS - 1) is None
    health.looked(stats(join="wait-join"), JOIN_SECONDS + 1)
    assert "the group g has not let this node in" in str(health.trouble(JOIN_SECONDS + 1))
    health.looked(stats(), JOIN_SECONDS + 2)
    assert health.trouble(JOIN_SECONDS + 2) is None


def test_the_lag_is_that_of_known_partitions() -> None:
    """One whose end is not known yet counts as none."""
    health = Health("t", "g", 0.0)
    health.looked(stats(lags=(3, -1, 4)), 1.0)
    assert health.lag == 7


def test_the_worst_comes_first() -> None:
    """Silence, then the membership, the topic, positions."""
    health = Health("t", "g", 0.0)
    health.commit = "positions cannot be kept"
    assert health.trouble(1.0) == "positions cannot be kept"
    health.topic = "no topic"
    assert health.trouble(1.0) == "no topic"
    health.member = "fenced"
    assert health.trouble(1.0) == "fenced"
    assert "not answered" in str(health.trouble(9.0))
