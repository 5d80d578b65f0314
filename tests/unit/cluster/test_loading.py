"""Clients that are ours, and that the broker is loading: nobody gets one before all who load it are done."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred

from iot_mqtt.cluster.loading import Loading, Owner
from iot_mqtt.pipeline import ManualClock


def test_a_client_that_two_take_is_loading_until_both_are_done() -> None:
    """A node adopts it of a dead one, and takes back in the same moment what it had let go of."""
    loading = Loading(cast(Owner, None), ManualClock(), 1.0)
    loading.begin("c")
    loading.begin("c")
    over = Deferred.fromCoroutine(loading.over("c"))
    loading.end(["c"])
    assert "c" in loading
    assert not over.called
    loading.end(["c"])
    assert "c" not in loading
    assert over.called


def test_nothing_is_loading_when_the_broker_has_all() -> None:
    """What ends later changes nothing."""
    loading = Loading(cast(Owner, None), ManualClock(), 1.0)
    loading.begin("c")
    loading.end_all()
    loading.end(["c"])
    assert "c" not in loading
    loading.begin("c")
    assert "c" in loading
