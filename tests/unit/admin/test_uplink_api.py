"""``/api/v1/uplink``: how far the data platform has what goes up."""

from __future__ import annotations

from dataclasses import asdict

from tests.unit.admin.adminkit import UPLINK, FakeView, make_browser


def test_the_uplink_in_one_look() -> None:
    """Every figure, under its own name."""
    found = make_browser(FakeView()).get("/api/v1/uplink").json
    assert found == {**asdict(UPLINK), "alarms": []}


def test_without_an_uplink_there_is_none() -> None:
    """And it is said how to get one."""
    view = FakeView()
    view.uplink_info = None
    answer = make_browser(view).get("/api/v1/uplink")
    assert answer.status == 404
    assert "uplink.kind" in answer.json["detail"]
