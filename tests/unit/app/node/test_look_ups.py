"""What may hang has a time limit, and the rest of an answer does not wait for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from iot_mqtt.app.node.look_ups import WITHIN, LookUps
from iot_mqtt.errors import Unavailable
from iot_mqtt.pipeline.clock import ManualClock


def _note(found: list[tuple[int, int]], number: int, value: int) -> None:
    found.append((number, value))


def _keep(errors: list[Failure]) -> Callable[[Failure], int]:
    def keep(error: Failure) -> int:
        errors.append(error)
        return 0

    return keep


async def _look(answer: Deferred[int]) -> int:
    return await answer


def test_what_is_late_is_named_and_its_answer_is_dropped() -> None:
    """All limits run at once: after one limit everybody has an answer."""
    clock = ManualClock()
    looks = LookUps(clock)
    answers: list[Deferred[int]] = [Deferred() for _ in range(3)]
    found: list[tuple[int, int]] = []
    for number, answer in enumerate(answers):
        looks.begin(f"look {number}", _look(answer), -1).addCallback(partial(_note, found, number))
    answers[1].callback(7)
    assert found == [(1, 7)]
    clock.advance(WITHIN)
    assert found == [(1, 7), (0, -1), (2, -1)]
    assert looks.unanswered == ["look 0", "look 2"]
    answers[0].callback(8)
    answers[2].errback(Unavailable("the grid is away"))
    assert found == [(1, 7), (0, -1), (2, -1)]
    assert looks.unanswered == ["look 0", "look 2"]


def test_what_fails_is_named_and_our_own_mistakes_are_raised() -> None:
    """A store that says no is a part of the answer; anything else is a fault of this node."""
    clock = ManualClock()
    looks = LookUps(clock)
    refused: Deferred[int] = Deferred()
    found: list[int] = []
    looks.begin("it", _look(refused), -1).addCallback(found.append)
    refused.errback(Unavailable("the grid is away"))
    assert (found, looks.unanswered) == ([-1], ["it"])
    broken: Deferred[int] = Deferred()
    failing = looks.begin("that", _look(broken), -1)
    broken.errback(ZeroDivisionError())
    errors: list[Failure] = []
    failing.addErrback(_keep(errors))
    assert [error.type for error in errors] == [ZeroDivisionError]
    clock.advance(WITHIN)
    assert looks.unanswered == ["it"]
