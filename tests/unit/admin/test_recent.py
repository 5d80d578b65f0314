"""Answers of a moment ago: for whom they will do, and for whom not."""

from __future__ import annotations

import pytest

from iot_mqtt.admin import recent
from iot_mqtt.admin.json_text import JsonText
from iot_mqtt.admin.recent import RecentAnswers, age_of
from iot_mqtt.admin.routes import Answered
from tests.unit.admin.adminkit import FakeView, make_browser


class Counting:
    """A resource whose answer says how often it was asked."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.answers = RecentAnswers(lambda: self.now)

    def ask(self) -> object:
        self.asked += 1
        return {"asked": self.asked}

    async def ask_later(self) -> object:
        return self.ask()

    def get(self, age: int, key: str = "a") -> object:
        answer = self.answers.answer(key, age, self.ask)
        assert isinstance(answer, JsonText)
        return answer.text


@pytest.mark.parametrize(
    ("header", "age"),
    [(None, 0), ("", 0), ("max-age=2", 2), ("max-age=0", 0), ("no-cache", 0), ("max-age=-1", 0), ("max-age=1000", 0)],
)
def test_how_old_it_may_be(header: str | None, age: int) -> None:
    assert age_of(header) == age


def test_an_answer_is_made_anew_when_it_is_too_old() -> None:
    """For whom it is too old; and what was made for somebody will do for others."""
    of = Counting()
    assert of.get(2) == b'{"asked":1}'
    of.now = 1.5
    assert (of.get(2), of.get(1)) == (b'{"asked":1}', b'{"asked":2}')
    assert of.get(2, "b") == b'{"asked":3}'
    of.now = 3.0
    assert of.get(2) == b'{"asked":2}'


def test_an_answer_is_as_old_as_its_question() -> None:
    """However long it took."""
    of = Counting()
    later = of.answers.answer("a", 2, of.ask_later)
    of.now = 1.0
    with pytest.raises(StopIteration):
        later.send(None)  # type: ignore[attr-defined]
    of.now = 2.0
    assert of.get(2) == b'{"asked":1}'
    of.now = 2.5
    assert of.get(2) == b'{"asked":2}'


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In number and in size; and only plain answers are."""
    monkeypatch.setattr(recent, "MOST", 2)
    monkeypatch.setattr(recent, "LARGEST", 20)
    of = Counting()
    for key in "abc":
        of.get(2, key)
    assert of.get(2, "c") == b'{"asked":3}'
    assert of.get(2, "a") == b'{"asked":4}'
    long = {"text": "x" * 20}
    assert all(of.answers.answer("d", 2, lambda: long).text for _ in range(2))  # type: ignore[attr-defined]
    assert "d" not in of.answers._kept
    answered = Answered({"a": 1})
    assert of.answers.answer("e", 2, lambda: answered) is answered
    assert "e" not in of.answers._kept


def test_only_who_says_so_is_told_what_was_told_before() -> None:
    """Over the API: with the header of HTTP."""
    view = FakeView()
    browser = make_browser(view)
    aged = {"cache-control": "max-age=5"}
    first = browser.get("/api/v1/status", headers=aged).json
    view.counters.messages_received += 7
    assert browser.get("/api/v1/status", headers=aged).json == first
    new = browser.get("/api/v1/status").json
    assert new["counters"]["messages_received"] == first["counters"]["messages_received"] + 7
    assert browser.get("/api/v1/status?node=*", headers=aged).json["items"][0]["counters"] == new["counters"]
