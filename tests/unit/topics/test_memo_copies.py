"""Who copies from the memo learns when a copy may be wrong: also of what had to make room before it changed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from iot_mqtt.topics.match import Match
from iot_mqtt.topics.memo import Memo


def found(_: bytes) -> Match[Any]:
    return Match()


@pytest.mark.parametrize("evicted", [False, True])
@pytest.mark.parametrize("how", ["topic", "prefix"])
def test_a_change_is_told_even_of_what_made_room(how: str, evicted: bool) -> None:
    """Making room alone is no change; a change of a topic that is not there any more is one."""
    memo: Memo[Any] = Memo(found, 32)
    for number in range(40 if evicted else 20):
        assert memo[b"t/%d" % number] is not None
    assert memo.classes.forgotten == 0
    assert (b"t/0" in memo) is not evicted
    if how == "topic":
        memo.forget_topics([b"t/0"])
    else:
        memo.forget_prefixes([b"t/0"])
    assert memo.classes.forgotten == 1
    memo.forget_topics([b"elsewhere"])
    assert memo.classes.forgotten == 1


class Step:
    """Something that a match refers to."""


def test_a_match_that_is_forgotten_is_freed_without_the_collector() -> None:
    """No cycle: a client that subscribes all the time has the memo forget, and what is old is collected rarely."""
    gc.disable()
    try:
        memo: Memo[Any] = Memo(lambda _: Match(steps=(Step(),)), 32, class_of=lambda _, match: match)
        seen = weakref.ref(memo[b"t"].steps[0])
        assert seen() is not None
        memo.forget_topics([b"t"])
        assert seen() is None
    finally:
        gc.enable()
