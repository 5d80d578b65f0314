"""Following the directory: one look at a time, and a word when it does not work."""

from __future__ import annotations

import logging

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.app.node.directory import Following
from iot_mqtt.errors import Unavailable


def test_looks_do_not_gather_behind_one_that_waits(caplog: pytest.LogCaptureFixture) -> None:
    """The next begins when it is over, however it ended; trouble is logged once."""
    looks: list[Deferred[None]] = []

    async def refresh() -> None:
        looks.append(Deferred())
        await looks[-1]

    following = Following(refresh)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            following.look()
        assert len(looks) == 1
        for number in range(1, 4):
            looks[-1].errback(Unavailable("the grid is away"))
            following.look()
            assert len(looks) == number + 1
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        looks[-1].callback(None)
    assert caplog.records[-1].getMessage() == "users and rules of the grid can be seen again"
    assert caplog.records[-1].levelname == "WARNING", "who reads no less sees its end, too"
