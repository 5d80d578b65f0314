"""``/api/v1/log`` and what waits for a session."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.log import Damage
from tests.unit.admin.adminkit import Browser, FakeView


def test_the_log_in_one_look(browser: Browser) -> None:
    """What it holds, and the room for more."""
    found = browser.get("/api/v1/log").json
    assert (found["messages"], found["disk_level"], found["trouble"]) == (100, "alarm", None)


def test_shards_are_one_page(browser: Browser) -> None:
    """There are few."""
    found = browser.get("/api/v1/log/shards").json
    assert [one["shard"] for one in found["items"]] == [0, 1]
    assert found["after"] is None


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_generations_are_paged_by_number(browser: Browser, limit: int) -> None:
    """Each once, whatever the page."""
    assert [one["generation"] for one in pages(browser, "log/generations", limit)] == [1, 2, 3]


@pytest.mark.parametrize("limit", [1, 5, 12, 100])
def test_streams_are_paged_over_generations(browser: Browser, limit: int) -> None:
    """All of them, or one generation's."""
    found = [(one["generation"], one["stream"]) for one in pages(browser, "log/streams", limit)]
    assert found == [(number, stream) for number in (1, 2, 3) for stream in range(4)]
    of_one = pages(browser, "log/streams?generation=2", limit)
    assert [(one["generation"], one["stream"]) for one in of_one] == [(2, stream) for stream in range(4)]


def pages(browser: Browser, path: str, limit: int) -> list[dict[str, int]]:
    """The items of all pages."""
    found: list[dict[str, int]] = []
    joint = "&" if "?" in path else "?"
    after = ""
    while True:
        page = browser.get(f"/api/v1/{path}{joint}limit={limit}{after}").json
        found += page["items"]
        if page["after"] is None:
            return found
        after = f"&after={page['after']}"


def test_a_generation_is_dropped(view: FakeView, browser: Browser) -> None:
    """Once; then there is none of that number."""
    assert browser.delete("/api/v1/log/generations/1").status == 204
    assert view.log.numbers == [2, 3]
    assert browser.delete("/api/v1/log/generations/1").status == 404


def test_a_generation_that_takes_messages_is_not_dropped(browser: Browser) -> None:
    """It says so."""
    answer = browser.delete("/api/v1/log/generations/3")
    assert (answer.status, answer.json["detail"]) == (400, "generation 3 still takes messages")


@pytest.mark.parametrize(
    "path",
    [
        "log/generations?after=x",
        "log/streams?after=1",
        "log/streams?after=1/y",
        "log/streams?generation=-1",
        "log/streams?generation=99999999999",
        "log/generations?limit=0",
    ],
)
def test_what_is_no_number_is_400(browser: Browser, path: str) -> None:
    """Never 500."""
    assert browser.get(f"/api/v1/{path}").status == 400
    assert browser.delete("/api/v1/log/generations/one").status == 400


def test_a_check_is_begun_and_looked_at(view: FakeView, browser: Browser) -> None:
    """It goes on while the node does; damages are named."""
    view.log.patience = 1
    assert browser.post("/api/v1/log/verification", {}).json["running"]
    view.log.damages = [Damage(1, 2, 77, "wrong checksum")]
    found = browser.get("/api/v1/log/verification").json
    assert (found["running"], found["damaged"]) == (False, 1)
    assert found["damages"] == [{"generation": 1, "stream": 2, "turn": 77, "what": "wrong checksum"}]


def test_what_waits_for_a_session(view: FakeView, browser: Browser) -> None:
    """In messages and bytes, with its claims; a session that is not there is 404."""
    view.keep_session("a/b")
    found = browser.get("/api/v1/sessions/a%2Fb/backlog").json
    assert (found["messages"], found["bytes"], found["complete"]) == (11, 4500, True)
    assert [claim["kind"] for claim in found["claims"]] == ["subscription", "shared"]
    assert browser.get("/api/v1/sessions/nobody/backlog").status == 404


def test_the_description_says_what_claims_and_damages_are(browser: Browser) -> None:
    """Lists of objects are described to their ends."""
    schemas = browser.get("/api/v1/openapi.json").json["components"]["schemas"]
    claims = schemas["Backlog"]["properties"]["claims"]
    assert claims["type"] == "array"
    assert claims["items"]["properties"]["messages"] == {"type": ["integer", "null"]}
    assert "what" in schemas["LogVerification"]["properties"]["damages"]["items"]["properties"]
    assert schemas["Status"]["properties"]["alarms"] == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_messages_are_paged_by_their_place(browser: Browser, limit: int) -> None:
    """Each once, with its beginning as text and in base64."""
    found = pages(browser, "log/messages?filter=hall/%23&since=2h", limit)
    assert [one["position"] for one in found] == list(range(10))
    (first, *_) = browser.get("/api/v1/log/messages").json["items"]
    assert (first["payload"], first["payload_base64"], first["topic"]) == ("0", "MA==", "hall/t")


@pytest.mark.parametrize("after", ["x", "1/2", "nan/0.1", "1e5/0.1"])
def test_a_place_that_no_page_gave_is_refused(browser: Browser, after: str) -> None:
    """Whatever stands in it."""
    assert browser.get(f"/api/v1/log/messages?after={after}").status == 400
