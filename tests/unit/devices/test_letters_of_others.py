"""Commands that come a second time at another node than before: their records say so."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.devices import State, replace
from tests.unit.devices.letterkit import LetterNode
from tests.unit.devices.test_elsewhere import among_others, put, queued


@pytest.mark.parametrize("state", [State.QUEUED, State.ACKED])
def test_a_command_that_another_node_has_accepted_is_not_accepted_again(state: State) -> None:
    """Its partition came here before its position was kept: the record stays as it is, and nothing is published."""
    node = LetterNode()
    among_others(node)
    now = node.clock.wall()
    before = queued("c1", "d9", now)
    put(node, replace(before, state=state, times={**before.times, state.value: now}))
    listener = node.listener("#")
    node.order("d9", id="c1")
    node.bring()
    assert (node.state("c1"), node.count(), node.inbox.kept) == (state.value, 1, {0: 1})
    assert listener.messages() == []
    assert (node.letters.info().repeated, node.inbox.buried) == (1, [])


def test_an_id_of_another_target_is_refused() -> None:
    """For good: it will not become free within the time that matters."""
    node = LetterNode()
    among_others(node)
    put(node, queued("c1", "d9/x", node.clock.wall()))
    node.order("d9/y", id="c1")
    node.bring()
    ((_, reason),) = node.inbox.buried
    assert reason == "the command id is in use"
    assert node.inbox.kept == {0: 1}
