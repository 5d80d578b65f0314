"""Which steps a topic has: those that it may concern are asked, the others are not."""

from __future__ import annotations

from iot_mqtt.broker.publishing.depth import Depth
from iot_mqtt.broker.publishing.steps import Step, Steps


class Asked(Step):
    """Concerns what begins with ``down/``, and remembers what it was asked."""

    prefixes = (b"down/",)

    def __init__(self) -> None:
        self.topics: list[bytes] = []

    def concerns(self, topic: bytes) -> bool:
        self.topics.append(topic)
        return topic.startswith(b"down/")


def made() -> tuple[Steps, Asked, Depth]:
    steps, asked, depth = Steps(), Asked(), Depth(10)
    steps.add(asked)
    steps.add(depth)
    return steps, asked, depth


def test_an_ordinary_topic_has_no_steps_and_nobody_is_asked() -> None:
    steps, asked, _ = made()
    assert steps.of(b"plant/hall-1/temperature") == ()
    assert asked.topics == []


def test_a_topic_of_a_step_has_that_step() -> None:
    steps, asked, _ = made()
    assert steps.of(b"down/press-1") == (asked,)


def test_a_topic_of_too_many_levels_has_the_step_that_refuses_it() -> None:
    steps, asked, depth = made()
    assert steps.of(b"/".join([b"a"] * 10)) == ()
    assert steps.of(b"/".join([b"a"] * 11)) == (depth,)
    assert steps.of(b"/".join([b"down"] * 11)) == (asked, depth)


def test_a_step_that_comes_later_is_asked() -> None:
    steps, asked, _ = made()
    assert steps.of(b"up/1") == ()

    class Up(Asked):
        prefixes = (b"up/",)

        def concerns(self, topic: bytes) -> bool:
            return topic.startswith(b"up/")

    steps.add(up := Up())
    assert steps.of(b"up/1") == (up,)
    assert asked.topics == [b"up/1"]
