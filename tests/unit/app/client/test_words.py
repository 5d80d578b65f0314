"""Reason codes in words."""

from __future__ import annotations

from iot_mqtt.app.client.words import sentence
from iot_mqtt.errors import ReasonCode


def test_what_the_broker_says_of_a_quota_is_not_contradicted() -> None:
    """What it may mean stands there only where the broker says nothing."""
    assert sentence(ReasonCode.QUOTA_EXCEEDED, "the disk is full") == "quota exceeded (0x97): the disk is full"
    means = "quota exceeded (0x97); a limit of this user or of the broker is used up"
    assert sentence(ReasonCode.QUOTA_EXCEEDED) == means


def test_what_helps_stands_behind_what_the_broker_says() -> None:
    """It holds either way."""
    assert sentence(ReasonCode.RETAIN_NOT_SUPPORTED, "not here") == (
        "retain not supported (0x9a): not here; leave -r out"
    )
