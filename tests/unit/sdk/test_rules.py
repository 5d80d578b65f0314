"""The kit takes for garbage what the broker takes for garbage."""

from __future__ import annotations

from typing import Any

import pytest

from iot_mqtt.plugins.checking import Checker, Garbage
from iot_mqtt.sdk import Answer, Close, Heartbeat, Login, Readings, Send, WhenSafe
from iot_mqtt.sdk.kit.rules import Fault, check_event

GOOD: list[Any] = [
    Login("g"),
    Login("Gerät 7", "u", b"s", 30),
    Readings("d", {}),
    Readings("d", {"a": 1, "b": 1.5, "c": "x", "d": None, "e": True}, 1, 0, {"a": "bad"}),
    Readings("d", b'{"a": 1}'),
    Readings("d", {"a": (1 << 64) - 1}),
    WhenSafe(0),
    Heartbeat(),
    Send(b""),
    Answer(0xFFFFFFFF, False, "no", {"a": 1}),
    Close("over"),
]
BAD: list[Any] = [
    "text",
    None,
    Login(""),
    Login("a/b"),
    Login("x" * 65),
    Login("a\0"),
    Login("g", heartbeat=-1),
    Login("g", heartbeat=float("nan")),
    Login("g", secret="text"),  # type: ignore[arg-type]
    Readings("+", {}),
    Readings(7, {}),  # type: ignore[arg-type]
    Readings("d", []),  # type: ignore[arg-type]
    Readings("d", b"[1]"),
    Readings("d", {"": 1}),
    Readings("d", {1: 1}),  # type: ignore[dict-item]
    Readings("d", {"a": float("inf")}),
    Readings("d", {"a": float("nan")}),
    Readings("d", {"a": 1 << 64}),
    Readings("d", {"a": b"x"}),  # type: ignore[dict-item]
    Readings("d", {"a": [1]}),  # type: ignore[dict-item]
    Readings("d", {"a": "\ud800"}),
    Readings("d", {}, time=-1),
    Readings("d", {}, time=1.5),  # type: ignore[arg-type]
    Readings("d", {}, sequence=1 << 63),
    Readings("d", {}, quality={"a": "odd"}),
    WhenSafe(-1),
    Send("text"),  # type: ignore[arg-type]
    Answer(1 << 32, True),
    Answer(1, 1),  # type: ignore[arg-type]
    Answer(1, True, values={"a": float("nan")}),
    Close(None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("event", GOOD, ids=repr)
def test_good_events_are_good_for_both(event: Any) -> None:
    """For the kit and for the broker."""
    check_event(event)
    Checker().check([event])


@pytest.mark.parametrize("event", BAD, ids=repr)
def test_garbage_is_garbage_for_both(event: Any) -> None:
    """A codec that passes the kit must not fail in the broker for what the kit has seen."""
    with pytest.raises(Garbage):
        Checker().check([event])
    with pytest.raises(Fault):
        check_event(event)
