"""What everybody may ask: health, readiness, metrics."""

from __future__ import annotations

import pytest
from twisted.logger import capturedLogs

from iot_mqtt.ports.alarms import Alarm, AlarmKind
from tests.unit.admin.adminkit import FakeView, make_browser


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_pages_outside_the_api_need_no_token(path: str) -> None:
    """Load balancers and Prometheus hold no secrets."""
    assert make_browser(FakeView(), token=None).get(path).status == 200


def test_a_node_that_is_not_ready_says_503() -> None:
    """A load balancer must not send clients before every route is loaded."""
    view = FakeView()
    view.ready = False
    answer = make_browser(view).get("/ready")
    assert (answer.status, answer.json) == (503, {"ready": False})


def test_a_node_that_is_not_ready_is_healthy() -> None:
    """Loading for long is no reason to be killed."""
    view = FakeView()
    view.ready = False
    assert make_browser(view).get("/health").status == 200


def test_an_alarm_is_told_and_no_reason_to_be_killed() -> None:
    """Whoever looks at the words sees it; whoever restarts by the status does not."""
    view = FakeView()
    assert make_browser(view).get("/health").json == {"status": "ok"}
    view.alarms = (Alarm(AlarmKind.ROOM, "disk alarm: 85 of 100 bytes used (85 %)"),)
    answer = make_browser(view).get("/health")
    assert (answer.status, answer.json["status"]) == (200, "alarm")
    assert answer.json["alarms"] == ["disk alarm: 85 of 100 bytes used (85 %)"]


def test_metrics_come_with_their_own_content_type() -> None:
    """Prometheus chooses its parser by it."""
    answer = make_browser(FakeView()).get("/metrics")
    assert (answer.headers["content-type"], answer.body) == ("text/plain; version=1", b"up 1\n")


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics", "/nothing", "/api/v1/status", "/api/v1/users"])
def test_head_answers_without_a_body(path: str) -> None:
    """HEAD is GET without the body, with the length that it would have, and no line of the log."""
    browser = make_browser(FakeView())
    with capturedLogs() as lines:
        answer = browser.request("HEAD", path)
    got = browser.get(path)
    assert (answer.status, answer.body) == (got.status, b"")
    assert answer.headers["content-length"] == str(len(got.body))
    assert not [line for line in lines if "HEAD" in str(line.get("log_format"))]


def test_other_methods_are_405_and_name_those_that_work() -> None:
    """RFC 9110: 405 carries Allow."""
    answer = make_browser(FakeView()).request("POST", "/health")
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/nothing", "/healthy", "/health/x", "/api", "/api/v2/status"])
def test_other_paths_are_404_in_json(path: str) -> None:
    """Even a mistyped path gets an answer that a program can read."""
    answer = make_browser(FakeView()).get(path)
    assert (answer.status, answer.json["error"]) == (404, "not_found")


def test_the_dashboard_is_there_for_who_has_no_token() -> None:
    """Built or not: a page, with its own policy; nothing of the API is open by it."""
    browser = make_browser(FakeView())
    answer = browser.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert browser.request("HEAD", "/").body == b""
    assert browser.request("POST", "/").status == 405
