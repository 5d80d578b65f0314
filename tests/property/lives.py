"""Random lives of a node and of its clients, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle, islice, product
from typing import NamedTuple

from hypothesis.stateful import RuleBasedStateMachine

from tests.unit.broker.harness import Node


class Action(NamedTuple):
    """One step: a method of the machine and what it is called with."""

    name: str
    arguments: tuple[object, ...] = ()


def often(percent: float, name: str, *choices: Iterable[object]) -> list[Action]:
    """An action with every combination of arguments, together as often as that."""
    every = [Action(name, arguments) for arguments in product(*choices)]
    return list(islice(cycle(every), round(percent * 20)))


class Life(RuleBasedStateMachine):
    """Of one node, whose disk is slow, full or lost."""

    node: Node

    def __init__(self) -> None:
        super().__init__()
        self.held = self.failing = False
        self.counted_before = 0

    def hold(self) -> None:
        """The disk is slow."""
        self.held = True
        self.node.hold()

    def release(self) -> None:
        """The disk is done."""
        self.held = False
        self.node.release()

    def fail(self) -> None:
        """The disk is full."""
        self.failing = True
        self.node.fail()

    def recover(self) -> None:
        """There is room again."""
        if self.failing:
            self.failing = False
            self.node.recover()
