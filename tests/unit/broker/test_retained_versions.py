"""Retained messages of several nodes: the later one of two stands, wherever they meet."""

from __future__ import annotations

from iot_mqtt.broker.retained_versions import CLOCKS_APART, RetainedVersions
from iot_mqtt.pipeline.clock import ManualClock
from iot_mqtt.values import Message


class Told:
    """What the peers are told; the part of ``ports.cluster.Peers`` that versions use."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.heard: list[tuple[bytes, Message | None, int]] = []

    def retain(self, topic: bytes, message: Message | None, version: int) -> None:
        self.heard.append((topic, message, version))


def versions(number: int, clock: ManualClock) -> tuple[RetainedVersions, Told]:
    told = Told(number)
    return RetainedVersions(clock, told), told  # type: ignore[arg-type]


def test_a_change_is_told_with_a_version_that_grows() -> None:
    """Even while the clock stands still, and beyond what was heard from a clock that is ahead."""
    own, told = versions(3, ManualClock())
    first = own.changed(b"t", Message(b"t", b"1", retain=True))
    second = own.changed(b"t", Message(b"t", b"2", retain=True))
    assert first < second and second & 0xFF == 3
    assert own.note(b"u", second + (1 << 40)) > 0
    assert own.changed(b"t", None) > second + (1 << 40)
    assert [entry[1] is None for entry in told.heard] == [False, False, True]


def test_of_two_nodes_both_find_the_same_one_later() -> None:
    """Whoever hears of an earlier one knows that his own stands."""
    clock = ManualClock()
    (one, _), (two, _) = versions(1, clock), versions(2, clock)
    first = one.changed(b"t", Message(b"t", b"1", retain=True))
    second = two.changed(b"t", Message(b"t", b"2", retain=True))
    assert one.note(b"t", second) == 1
    assert two.note(b"t", first) == -1
    assert one.of(b"t") == two.of(b"t") == second
    assert one.note(b"t", second) == 0


def test_a_removal_is_remembered() -> None:
    """An older message that comes late does not bring the topic back."""
    own, _ = versions(1, ManualClock())
    old = own.changed(b"t", Message(b"t", b"1", retain=True))
    own.changed(b"t", None)
    assert own.note(b"t", old) == -1


def test_what_is_not_in_the_store_was_removed_elsewhere() -> None:
    """Unless it is so new that it may not have been there yet."""
    clock = ManualClock()
    own, _ = versions(1, clock)
    for topic in (b"kept", b"removed"):
        own.changed(topic, Message(topic, b"1", retain=True))
    clock.advance(CLOCKS_APART + 1)
    own.changed(b"new", Message(b"new", b"1", retain=True))
    assert own.missing({b"kept"}, own.now()) == [b"removed"]
    assert own.of(b"removed") == 0 and own.of(b"kept") and own.of(b"new")
