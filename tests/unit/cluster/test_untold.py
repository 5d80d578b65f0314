"""Nodes that left before it was known what they want: the grid is asked, and its answer may come too late."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iot_mqtt.cluster.untold import Noted, Untold
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.ports.cluster import Interest

WANTED = [Interest("t", kept=True)]


class Asked:
    """What was asked of a grid that answers when it is told to, and what was made of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.answers: list[Noted] = []
        self.found: list[tuple[int, Sequence[Interest]]] = []
        self.changes = 0
        self.untold = Untold(self._read, lambda *found: self.found.append(found), self._changed, self.clock, 1.0)

    def _read(self, number: int, noted: Noted) -> None:
        self.answers.append(noted)

    def _changed(self) -> None:
        self.changes += 1

    def asked(self) -> Noted:
        """The answer to the only question, of node 7."""
        self.untold.left(7)
        self.untold.fenced(7)
        (answer,) = self.answers
        return answer


def test_nobody_is_asked_of_who_has_told_all() -> None:
    asked = Asked()
    asked.untold.fenced(7)
    assert not asked.answers and not asked.untold


def test_what_it_wanted_is_known_before_there_is_no_doubt_any_more() -> None:
    asked = Asked()
    answer = asked.asked()
    assert asked.untold
    assert not asked.found
    answer(WANTED)
    assert asked.found == [(7, WANTED)]
    assert not asked.untold
    assert asked.changes == 1


def test_a_question_that_failed_is_asked_again() -> None:
    asked = Asked()
    asked.asked()(None)
    assert asked.untold and not asked.found and len(asked.answers) == 1
    asked.clock.advance(1.0)
    asked.answers[1](WANTED)
    assert asked.found and not asked.untold


def late(change: Callable[[Untold], None]) -> Asked:
    """The grid's answer comes after ``change``."""
    asked = Asked()
    answer = asked.asked()
    change(asked.untold)
    answer(WANTED)
    return asked


def test_an_answer_is_worth_nothing_once_others_have_cleaned_up() -> None:
    asked = late(lambda untold: untold.cleaned(7))
    assert not asked.found and not asked.untold and asked.changes == 1


def test_an_answer_is_worth_nothing_once_the_node_is_back() -> None:
    asked = late(lambda untold: untold.are_back((7,)))
    assert not asked.found and not asked.untold


def test_an_answer_of_before_a_later_life_is_not_one_of_it() -> None:
    def lived_and_died(untold: Untold) -> None:
        untold.are_back((7,))
        untold.left(7)

    asked = late(lived_and_died)
    assert not asked.found and asked.untold


def test_nothing_is_asked_after_the_end() -> None:
    asked = late(Untold.stop)
    assert not asked.found and not asked.untold
    asked = Asked()
    asked.asked()(None)
    asked.untold.stop()
    asked.clock.advance(5.0)
    assert len(asked.answers) == 1
