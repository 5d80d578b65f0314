"""What became of the messages of a run, of each for itself."""

from __future__ import annotations

from iot_mqtt.broker.publishing.outcome import Outcome
from iot_mqtt.errors import ReasonCode, Refused


def test_what_has_been_denied_is_refused_whoever_gets_the_rest() -> None:
    """Here and on other nodes; what only had no room somewhere is not."""
    outcome = Outcome(receivers=2)
    outcome.elsewhere = True
    refusal = Refused("it is wrong", ReasonCode.PAYLOAD_FORMAT_INVALID)
    outcome.refuse(0)
    outcome.deny(1, refusal)
    assert outcome.wholly_refused() == [1]
    assert outcome.refusal(1) is refusal


def test_what_nobody_had_room_for_is_refused_for_that() -> None:
    """Nothing else is known of it."""
    outcome = Outcome(receivers=2)
    for position in (0, 0, 1):
        outcome.refuse(position)
    assert outcome.wholly_refused() == [0]
    assert outcome.refusal(0).reason is ReasonCode.QUOTA_EXCEEDED
