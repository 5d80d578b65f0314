"""``/api/v1``: who is let in, what it answers, and how it says no."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import pytest
from twisted.internet.defer import Deferred

from iot_mqtt.admin.callers import RootToken
from iot_mqtt.admin.site import Gate
from iot_mqtt.errors import Malformed, ReasonCode, Refused, Unavailable
from iot_mqtt.ports.directory import Conflict
from iot_mqtt.values import Message
from tests.unit.admin.adminkit import NOW, TOKEN, Browser, FakeView, make_browser, parse


@pytest.mark.parametrize("token", [None, "", "t0ke", "t0ken2", "T0KEN", "\u00fc"])
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/nothing", "/api/v1/", "/api/v1/openapi.json"])
def test_without_the_token_everything_is_401(view: FakeView, token: str | None, path: str) -> None:
    """Not even which resources exist is told."""
    answer = make_browser(view, token).get(path)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json["error"] == "unauthorized"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({}, False),
        ({"Authorization": "Bearer "}, False),
        ({"Authorization": "Basic t0ken"}, False),
        ({"Authorization": "Bearer t0ke"}, True),
        ({"Authorization": "Bearer imq_0123456789ab_secret"}, True),
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/nothing", "/metrics"])
def test_a_token_that_nobody_knows_is_told_so(view: FakeView, headers: dict[str, str], known: bool, path: str) -> None:
    """In the same words whatever it was; not that it has to be sent, which it was."""
    browser = make_browser(view, token=None, gate=Gate(RootToken(TOKEN), metrics="token"))
    answer = browser.request("GET", path, headers=headers)
    assert (answer.status, answer.json["error"]) == (401, "unauthorized")
    begins = (
        "the token is not known here: it is another node's, is over, or was deleted" if known else "needs the header"
    )
    assert answer.json["detail"].startswith(begins)


def test_another_scheme_is_401(browser: Browser) -> None:
    """Only Bearer is understood."""
    assert browser.request("GET", "/api/v1/status", headers={"Authorization": "Basic t0ken"}).status == 401


def test_status_has_figures_counters_and_uptime(view: FakeView, browser: Browser) -> None:
    """The node in one look."""
    view.counters.dropped["queue_full"] += 2
    found = browser.get("/api/v1/status").json
    assert (found["node_id"], found["uptime"], found["counters"]["dropped"]) == ("n1", 3700.0, {"queue_full": 2})


def test_an_unknown_resource_is_404(browser: Browser) -> None:
    """With the token, a wrong path is told as such."""
    assert browser.get("/api/v1/klients").status == 404


def test_a_method_that_a_resource_does_not_have_is_405(browser: Browser) -> None:
    """Allow lists what the path has."""
    answer = browser.request("PUT", "/api/v1/clients/c")
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET")


@pytest.mark.parametrize("client_id", ["c", "a/b", "gr\u00fc\u00dfe/\u6e29\u5ea6", "50%", "a b+c", "..", "?x=1&y", "#"])
def test_any_client_id_can_be_asked_for(view: FakeView, browser: Browser, client_id: str) -> None:
    """Client ids hold slashes, percent signs and any script; the path carries them percent-encoded."""
    view.connect(client_id)
    answer = browser.get(f"/api/v1/clients/{quote(client_id, safe='')}")
    assert (answer.status, answer.json["client_id"]) == (200, client_id)


def test_a_client_that_is_not_connected_is_404(browser: Browser) -> None:
    """And the detail names it."""
    answer = browser.get("/api/v1/clients/ghost")
    assert answer.status == 404
    assert "ghost" in answer.json["detail"]


def test_a_path_that_is_not_utf8_is_400(browser: Browser) -> None:
    """No client can have such an id."""
    assert browser.get("/api/v1/clients/%ff").status == 400


def test_pages_lead_through_all_items_once(view: FakeView, browser: Browser) -> None:
    """Following ``after`` shows each of 25 clients exactly once, in order."""
    for number in range(25):
        view.connect(f"client/{number:02}")
    seen: list[str] = []
    after, pages = "", 0
    while after is not None:
        query = f"?limit=10&after={quote(after)}" if after else "?limit=10"
        page = browser.get(f"/api/v1/clients{query}").json
        seen += [item["client_id"] for item in page["items"]]
        after, pages = page["after"], pages + 1
    assert (seen, pages) == ([f"client/{number:02}" for number in range(25)], 3)


def test_a_last_page_that_is_full_has_no_next(view: FakeView, browser: Browser) -> None:
    """No empty page at the end."""
    for name in "ab":
        view.keep_session(name)
    assert browser.get("/api/v1/sessions?limit=2").json["after"] is None


def test_pages_of_subscriptions_go_on_inside_a_client(view: FakeView, browser: Browser) -> None:
    """The cursor is client and filter, whatever characters they hold."""
    for filter in ("a/+", "b/#", "c d/%"):
        view.subscribe("x/y", filter)
    first = browser.get("/api/v1/subscriptions?limit=2").json
    second = browser.get(f"/api/v1/subscriptions?limit=2&after={quote(first['after'])}").json
    assert [item["filter"] for item in first["items"] + second["items"]] == ["a/+", "b/#", "c d/%"]


def test_subscriptions_of_one_client(view: FakeView, browser: Browser) -> None:
    """``client_id`` narrows the list."""
    view.subscribe("a", "f", 1)
    view.subscribe("b", "g")
    items = browser.get("/api/v1/subscriptions?client_id=a").json["items"]
    assert [(item["client_id"], item["filter"], item["qos"]) for item in items] == [("a", "f", 1)]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=x",
        "limit=000000001999",
        "limit=",
        "limit=%C2%B2",
        "limit=1&limit=2",
        "after=%ff",
        "order=desc",
        "limit=99999999999999999999999999",
    ],
)
def test_a_wrong_query_is_400(browser: Browser, query: str) -> None:
    """A parameter that would be ignored is a mistake somewhere."""
    answer = browser.get(f"/api/v1/clients?{query}")
    assert (answer.status, answer.json["error"]) == (400, "bad_request")


def test_a_cursor_that_no_page_gave_is_400(browser: Browser) -> None:
    """Subscriptions have cursors of two parts."""
    assert browser.get("/api/v1/subscriptions?after=x").status == 400


def test_kicking_closes_the_connection_once(view: FakeView, browser: Browser) -> None:
    """204 with no body, then 404."""
    view.connect("a/b")
    first, second = (browser.delete("/api/v1/clients/a%2Fb") for _ in range(2))
    assert (first.status, first.body, second.status) == (204, b"", 404)


def test_purging_ends_the_session_once(view: FakeView, browser: Browser) -> None:
    """204, then 404."""
    view.keep_session("c")
    assert [browser.delete("/api/v1/sessions/c").status for _ in range(2)] == [204, 404]


def test_retained_messages_are_listed_by_filter_without_payload(view: FakeView, browser: Browser) -> None:
    """A page of large payloads would be gigabytes."""
    view.retain("a/b", b"xyz")
    view.retain("c")
    items = browser.get("/api/v1/retained?filter=a/%23").json["items"]
    assert [(item["topic"], item["size"]) for item in items] == [("a/b", 3)]
    assert "payload" not in items[0]


def test_a_wrong_filter_is_400(browser: Browser) -> None:
    """In MQTT's own words."""
    answer = browser.get("/api/v1/retained?filter=a%23")
    assert (answer.status, answer.json["error"]) == (400, "topic_filter_invalid")


def test_one_retained_message_has_its_payload(view: FakeView, browser: Browser) -> None:
    """As text where it is one, and always in base64."""
    view.retain("a/b", b"\xc3\xbc")
    view.retain("raw", b"\xff")
    text, raw = browser.get("/api/v1/retained/a%2Fb").json, browser.get("/api/v1/retained/raw").json
    assert (text["payload"], text["payload_base64"], raw["payload"], raw["payload_base64"]) == (
        "\u00fc",
        "w7w=",
        None,
        "/w==",
    )


def test_a_topic_with_wildcards_names_no_retained_message(view: FakeView, browser: Browser) -> None:
    """Nobody removes ``#`` by mistake."""
    view.retain("a")
    assert (browser.get("/api/v1/retained/%23").status, browser.delete("/api/v1/retained/%2B").status) == (400, 400)


def test_removing_a_retained_message(view: FakeView, browser: Browser) -> None:
    """204, then 404."""
    view.retain("a/b")
    assert [browser.delete("/api/v1/retained/a%2Fb").status for _ in range(2)] == [204, 404]


def test_publishing_says_how_many_matched(view: FakeView, browser: Browser) -> None:
    """Topic, payload, QoS and retain arrive as they were sent."""
    answer = browser.post("/api/v1/publish", {"topic": "a/\u00fc", "payload": "\u00fc", "qos": 1, "retain": True})
    assert (answer.status, answer.json) == (200, {"matched": 3, "elsewhere": False})
    assert view.done == [Message("a/\u00fc".encode(), "\u00fc".encode(), 1, retain=True)]


def test_publishing_bytes_expiry_and_properties(view: FakeView, browser: Browser) -> None:
    """Everything a v5 client could say, an operator can."""
    properties = {"content_type": "t", "user_properties": [["k", "v"], ["k", "w"]], "correlation_data": "AAE="}
    body = {"topic": "t", "payload_base64": "/wA=", "message_expiry_interval": 60, "properties": properties}
    assert browser.post("/api/v1/publish", body).status == 200
    (message,) = view.done
    assert isinstance(message, Message)
    assert (message.payload, message.expires_at) == (b"\xff\x00", NOW + 60)
    assert message.properties == b"\x03\x00\x01t\x09\x00\x02\x00\x01\x26\x00\x01k\x00\x01v\x26\x00\x01k\x00\x01w"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        {},
        {"topic": 1},
        {"topic": ""},
        {"topic": "a/#"},
        {"topic": "a\0"},
        {"topic": "a", "qos": 3},
        {"topic": "a", "qos": True},
        {"topic": "a", "qos": "1"},
        {"topic": "a", "retain": 1},
        {"topic": "a", "payload": 5},
        {"topic": "a", "payload": "x", "payload_base64": "eA=="},
        {"topic": "a", "payload_base64": "!"},
        {"topic": "a", "paylaod": "x"},
        {"topic": "a", "message_expiry_interval": -1},
        {"topic": "a", "message_expiry_interval": 2**32},
        {"topic": "a", "properties": []},
        {"topic": "a", "properties": {"content": "x"}},
        {"topic": "a", "properties": {"user_properties": [["k"]]}},
        {"topic": "a", "properties": {"user_properties": [["k", "\ud800"]]}},
        {"topic": "a", "properties": {"user_properties": [["k\0", "v"]]}},
        {"topic": "a", "properties": {"content_type": "\x00"}},
        {"topic": "a", "properties": {"content_type": "x" * 65_536}},
        {"topic": "a", "properties": {"response_topic": "a/+"}},
        {"topic": "\ud800"},
        {"topic": "a", "payload": "\ud800"},
    ],
)
def test_a_wrong_publication_is_400_and_publishes_nothing(view: FakeView, browser: Browser, body: object) -> None:
    """Nothing half-understood reaches the broker."""
    answer = browser.post("/api/v1/publish", body)
    assert (answer.status, view.done) == (400, [])
    assert set(answer.json) == {"type", "title", "status", "detail", "error"}
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("failure", "status", "error"),
    [
        (Unavailable("store away"), 503, "server_unavailable"),
        (Refused("full", ReasonCode.QUOTA_EXCEEDED), 409, "quota_exceeded"),
        (Malformed("bad", ReasonCode.TOPIC_NAME_INVALID), 400, "topic_name_invalid"),
        (Refused("not yours"), 403, "not_authorized"),
        (Refused("too many at once", ReasonCode.SERVER_BUSY), 503, "server_busy"),
        (Conflict("changed"), 409, "conflict"),
    ],
)
def test_what_the_broker_refuses_has_its_own_status(
    view: FakeView, browser: Browser, failure: Exception, status: int, error: str
) -> None:
    """Not ready, not allowed and not understood are three things."""
    view.failure = failure
    answer = browser.post("/api/v1/publish", {"topic": "a"})
    assert (answer.status, answer.json["error"]) == (status, error)


def test_a_fault_of_ours_is_500_and_tells_nothing(
    view: FakeView, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback goes to the log, not to the caller."""
    view.failure = ZeroDivisionError("secret detail")
    with caplog.at_level(logging.ERROR):
        answer = browser.post("/api/v1/publish", {"topic": "a"})
    assert (answer.status, answer.json["error"]) == (500, "internal")
    assert b"secret" not in answer.body
    assert caplog.records[-1].exc_info is not None


def test_a_fault_in_a_listing_is_500_too(view: FakeView, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers made at once are no different from those that wait."""

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(view, "clients", broken)
    assert browser.get("/api/v1/clients").status == 500


def test_the_answer_waits_for_the_commit(view: FakeView, browser: Browser) -> None:
    """Nothing is said before the broker is done."""
    view.gate = Deferred()
    connection = browser.send("POST", "/api/v1/publish", b'{"topic": "a"}')
    assert connection.written == b""
    view.gate.callback(None)
    answer = parse(connection.written)
    assert answer is not None
    assert answer.json == {"matched": 3, "elsewhere": False}


def test_a_caller_that_hangs_up_changes_nothing(
    view: FakeView, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """The publish goes on; no answer is written to a connection that is gone."""
    view.gate = Deferred()
    connection = browser.send("POST", "/api/v1/publish", b'{"topic": "a"}')
    connection.lose()
    view.gate.callback(None)
    assert (len(view.done), connection.written, caplog.records) == (1, b"", [])


def test_a_body_beyond_the_limit_is_413_and_not_kept(view: FakeView) -> None:
    """The limit holds for what arrives, whatever was announced."""
    browser = make_browser(view, max_body=100)
    answer = browser.post("/api/v1/publish", b'{"topic": "' + b"x" * 200 + b'"}')
    assert (answer.status, answer.json["error"], view.done) == (413, "too_large", [])


def test_a_chunked_body_beyond_the_limit_is_413(view: FakeView) -> None:
    """Nor does leaving out the length help."""
    connection = make_browser(view, max_body=100).open()
    head = (
        b"POST /api/v1/publish HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t0ken\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    connection.receive(head + (b"32\r\n" + b"x" * 50 + b"\r\n") * 4 + b"0\r\n\r\n")
    answer = parse(connection.written)
    assert answer is not None
    assert answer.status == 413


def test_a_body_at_the_limit_is_taken(view: FakeView) -> None:
    """The limit itself is allowed."""
    body = b'{"topic": "a"}'
    assert make_browser(view, max_body=len(body)).post("/api/v1/publish", body).status == 200


def test_answers_are_not_cached_nor_guessed_at(browser: Browser) -> None:
    """What a node holds changes, and is JSON."""
    headers = browser.get("/api/v1/status").headers
    assert (headers["cache-control"], headers["x-content-type-options"], headers["content-type"]) == (
        "no-store",
        "nosniff",
        "application/json",
    )


def test_the_description_covers_every_resource(browser: Browser) -> None:
    """OpenAPI is made from the routes; each path answers as described, and each reference leads somewhere."""
    document = browser.get("/api/v1/openapi.json").json
    schemas = document["components"]["schemas"]
    assert {f"{method} {path}" for path, methods in document["paths"].items() for method in methods} == {
        "get /openapi.json",
        "get /status",
        "get /cluster",
        "post /cluster/rebalance",
        "delete /cluster/nodes/{name}",
        "get /node/drain",
        "post /node/drain",
        "delete /node/drain",
        "get /clients",
        "get /clients/{client_id}",
        "delete /clients/{client_id}",
        "get /clients/{client_id}/attempts",
        "get /clients/{client_id}/why",
        "get /sessions",
        "get /sessions/{client_id}",
        "get /sessions/{client_id}/backlog",
        "delete /sessions/{client_id}",
        "get /subscriptions",
        "get /retained",
        "get /retained/{topic}",
        "delete /retained/{topic}",
        "post /publish",
        "get /uplink/commands",
        "get /log",
        "get /log/shards",
        "get /log/generations",
        "delete /log/generations/{generation}",
        "get /log/streams",
        "get /log/messages",
        "get /nodes",
        "get /nodes/{node}",
        "post /nodes/{node}/drain",
        "delete /nodes/{node}/drain",
        "get /routes",
        "get /shared-groups",
        "post /sessions/{client_id}/subscriptions",
        "delete /sessions/{client_id}/subscriptions/{filter}",
        "delete /retained",
        "post /publish/batch",
        "get /log/verification",
        "post /log/verification",
        "get /uplink",
        "get /uplink/rules",
        "post /uplink/reload",
        "post /uplink/test",
    }
    assert set(_references(document)) <= {f"#/components/schemas/{name}" for name in schemas}


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("status", "Status"),
        ("clients/c", "Client"),
        ("clients/c/attempts", "Attempts"),
        ("clients/c/why", "Why"),
        ("sessions/c", "Session"),
        ("sessions/c/backlog", "Backlog"),
        ("log", "Log"),
        ("log/verification", "LogVerification"),
        ("retained/t", "MessageWithPayload"),
    ],
)
def test_answers_have_the_fields_that_are_described(view: FakeView, browser: Browser, path: str, schema: str) -> None:
    """Neither more nor fewer."""
    view.connect("c")
    view.keep_session("c")
    view.retain("t")
    described = browser.get("/api/v1/openapi.json").json["components"]["schemas"][schema]["properties"]
    found = set(browser.get(f"/api/v1/{path}").json)
    assert set(described) == found - {"node", "missing"}


def _references(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"]] if "$ref" in value else []
        return found + [reference for inner in value.values() for reference in _references(inner)]
    if isinstance(value, list):
        return [reference for inner in value for reference in _references(inner)]
    return []
