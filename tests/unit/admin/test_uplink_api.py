"""``/api/v1/uplink``: how far the data platform has what goes up."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from iot_mqtt.uplink.desk import TRIED
from tests.unit.admin.adminkit import UPLINK, FakeView, make_browser
from tests.unit.admin.deskkit import RELOAD, RULES, TRIAL, FakeDesk


def test_the_uplink_in_one_look() -> None:
    """Every figure, under its own name."""
    found = make_browser(FakeView()).get("/api/v1/uplink").json
    rejected = [asdict(one) for one in UPLINK.rejected]
    assert found == {**asdict(UPLINK), "alarms": [], "rejected": rejected, "node": "n1"}


def test_without_an_uplink_there_is_none() -> None:
    """And it is said how to get one."""
    view = FakeView()
    view.uplink_info = None
    answer = make_browser(view).get("/api/v1/uplink")
    assert answer.status == 404
    assert "uplink.kind" in answer.json["detail"]


def test_rules_can_be_seen() -> None:
    """With what they did."""
    found = make_browser(FakeView(), uplink=FakeDesk()).get("/api/v1/uplink/rules").json
    assert found["items"] == [asdict(item) for item in RULES.items]
    assert found["earlier"] == 1


def test_rules_are_read_anew() -> None:
    """And those with mistakes are a conflict, in the words of the configuration."""
    desk = FakeDesk()
    browser = make_browser(FakeView(), uplink=desk)
    assert browser.post("/api/v1/uplink/reload", b"").json["added"] == list(RELOAD.added)
    desk.refusal = "entry 1: needs a filter"
    for path in ("reload", "test"):
        answer = browser.post(f"/api/v1/uplink/{path}", b"{}")
        found = (answer.status, answer.json["error"], answer.json["detail"])
        assert found == (409, "rules_refused", desk.refusal)


def test_rules_are_tried() -> None:
    """Those in force, or others; on as many messages as one says."""
    desk = FakeDesk()
    browser = make_browser(FakeView(), uplink=desk)
    assert browser.post("/api/v1/uplink/test", b"{}").json["messages"] == TRIAL.messages
    browser.post("/api/v1/uplink/test", b'{"rules": [{"filter": "a"}], "messages": 5, "minutes": 1.5}')
    assert desk.asked == [(None, TRIED, None), ([{"filter": "a"}], 5, 1.5)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"rules": "a"}', "rules must be a list"),
        (b'{"rules": ["a"]}', "rules must be a list of objects"),
        (b'{"messages": -1}', "messages must be a number from 0 to 50000"),
        (b'{"messages": 0}', "messages must be a number from 1 to 50000"),
        (b'{"messages": 50001}', "messages must be a number"),
        (b'{"minutes": 0}', "minutes must be a number above 0"),
        (b'{"minutes": NaN}', "the body is not JSON"),
        (b'{"minutes": true}', "minutes must be a number above 0"),
        (b'{"hours": 1}', "unknown field hours"),
        (b"[]", "must be a JSON object"),
    ],
)
def test_an_order_that_is_wrong_is_refused(body: bytes, words: str) -> None:
    """Before anything is tried."""
    desk = FakeDesk()
    answer = make_browser(FakeView(), uplink=desk).post("/api/v1/uplink/test", body)
    assert answer.status == 400
    assert words in answer.json["detail"]
    assert desk.asked == []


def test_without_an_uplink_there_are_no_rules() -> None:
    """And it is said how to get one."""
    browser = make_browser(FakeView())
    answers = [browser.get("/api/v1/uplink/rules"), browser.post("/api/v1/uplink/reload", b"")]
    assert [answer.status for answer in answers] == [404, 404]
