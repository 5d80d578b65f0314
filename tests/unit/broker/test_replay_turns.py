"""Replays take turns: session by session, so many at once, and none too many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from iot_mqtt.broker.readers.replay_turns import Replay, ReplayTurns
from iot_mqtt.broker.session import Session
from iot_mqtt.broker.settings import MqttSettings
from iot_mqtt.errors import ReasonCode, Refused

MIB = 1024 * 1024


class _Session:
    def __init__(self, name: str) -> None:
        self.name = name
        self.replays: dict[str, object] = {}


class _Replay:
    def __init__(self, session: _Session, name: str) -> None:
        self.session, self.name = session, name
        self.wanted, self.reading = True, list[str]()
        session.replays[name] = self

    def can_read(self) -> bool:
        return self.wanted

    def read_in_turn(self) -> None:
        self.reading.append(self.name)


class Turns:
    """Turns of two reads at once, and who has begun to read."""

    def __init__(self) -> None:
        self.reading: list[str] = []
        self.soon: list[Callable[[], None]] = []
        settings = MqttSettings(max_replays=5, max_replays_per_client=3, replay_bytes=2 * MIB)
        self.it = ReplayTurns(settings, self.soon.append)

    def ask(self, *replays: _Replay) -> None:
        for replay in replays:
            replay.reading = self.reading
            self.it.ask(cast(Replay, replay))

    def ended(self, replay: _Replay) -> None:
        self.it.read_ended(cast(Replay, replay))
        soon = self.soon[:]
        self.soon.clear()
        for call in soon:
            call()


def _replays(session: _Session, count: int) -> list[Any]:
    return [_Replay(session, f"{session.name}{number}") for number in range(1, count + 1)]


def test_so_many_sessions_read_at_once_each_one_replay() -> None:
    """And the next session comes before the second replay of the first."""
    turns = Turns()
    a, b, c = (_replays(_Session(name), 2) for name in "abc")
    turns.ask(*a, *b, *c)
    assert turns.reading == ["a1", "b1"]
    turns.ended(a[0])
    assert turns.reading == ["a1", "b1", "c1"]
    turns.ended(b[0])
    turns.ended(c[0])
    assert turns.reading == ["a1", "b1", "c1", "a2", "b2"]


def test_who_reads_on_asks_again_behind_the_others() -> None:
    """A long replay does not keep a short one waiting."""
    turns = Turns()
    (a,), (b,), (c,) = (_replays(_Session(name), 1) for name in "abc")
    turns.ask(a, b, c)
    turns.ended(a)
    turns.ask(a, a)
    turns.ended(b)
    turns.ended(a)
    assert turns.reading == ["a1", "b1", "c1", "a1"]


def test_who_wants_nothing_any_more_is_passed_over() -> None:
    """Its client has left, or does not read."""
    turns = Turns()
    a, b, c, d = (_replays(_Session(name), 1)[0] for name in "abcd")
    turns.ask(a, b, c, d)
    c.wanted = False
    turns.ended(a)
    assert turns.reading == ["a1", "b1", "d1"]


def test_a_client_has_so_many_and_all_have_so_many() -> None:
    """More are refused, as a quota."""
    turns = Turns()
    greedy = _Session("g")
    _replays(greedy, 3)
    with pytest.raises(Refused) as refused:
        turns.it.admit(cast(Session, greedy))
    assert refused.value.reason is ReasonCode.QUOTA_EXCEEDED
    every = [_replays(_Session(str(number)), 1)[0] for number in range(5)]
    turns.it.admit(cast(Session, _Session("h")))
    for replay in every:
        turns.it.begun(replay)
    with pytest.raises(Refused):
        turns.it.admit(cast(Session, _Session("h")))
    turns.it.over(every[0])
    turns.it.admit(cast(Session, _Session("h")))
