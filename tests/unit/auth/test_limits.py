"""Who says what of a client's limits: which of several stands, what is refused, and documents that change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iot_mqtt.admin.limit_resources import LimitResources
from iot_mqtt.admin.user_resources import AuthResources, UserResources
from iot_mqtt.auth.limit_book import LimitsDesk
from iot_mqtt.auth.limit_rules import LimitRule, LimitRules, combined, explained, rule_of
from iot_mqtt.auth.service import Access
from iot_mqtt.auth.settings import AuthSettings
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.access import Principal
from iot_mqtt.ports.directory import LIMITS, USERS
from iot_mqtt.ports.limits import ATTRIBUTES, RANGES, Limits, Said, read_limits, written_limits
from tests.doubles.prospects import Fates
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import Threads, outcome, start

ANN = Principal("line-7", "ann", groups=frozenset({"crew"}))
NOBODY = Principal("line-7", anonymous=True)

#: Most particular first: each stands before all that come behind it.
ORDER: list[dict[str, Any]] = [
    {"user": "ann", "client": "line-7"},
    {"user": "ann", "client": "line-*"},
    {"user": "ann", "client": "*"},
    {"user": "ann"},
    {"user": "an*", "client": "line-7"},
    {"user": "an*", "group": "crew"},
    {"user": "an*"},
    {"user": "*"},
    {"group": "crew", "client": "line-?"},
    {"group": "crew"},
    {"client": "line-7"},
    {"client": "line-*"},
    {"client": "li*"},
    {},
]


def test_the_most_particular_rule_stands() -> None:
    """Whatever else there is."""
    rules = [rule_of({**who, "subscriptions": number}, str(number)) for number, who in enumerate(ORDER)]
    for first in range(len(rules)):
        left = LimitRules(reversed(rules[first:]))
        assert combined(left.about(ANN, ANN.groups)) == Limits(subscriptions=first), ORDER[first]


def test_each_limit_by_itself() -> None:
    rules = LimitRules(
        [
            rule_of({"user": "ann", "inflight": 5}, "one"),
            rule_of({"group": "crew", "inflight": 50, "message_rate": 2.5}, "two"),
            rule_of({"class": "device"}, "three"),
            rule_of({"user": "bob", "sessions": 1}, "four"),
            rule_of({"client": "other", "queue_bytes": 1}, "five"),
            rule_of({"group": "other", "sessions": 1}, "six"),
        ]
    )
    about = rules.about(ANN, ANN.groups)
    assert combined(about) == Limits(inflight=5, message_rate=2.5, client_class="device")
    assert explained(about) == [
        Said("inflight", 5, "one"),
        Said("message_rate", 2.5, "two"),
        Said("class", "device", "three"),
    ]


def test_the_grid_stands_before_the_configuration() -> None:
    written = [
        LimitRule(Limits(inflight=1), "a", user="ann", shared=False),
        LimitRule(Limits(inflight=2), "z", user="ann"),
    ]
    assert combined(LimitRules(written).about(ANN, frozenset())) == Limits(inflight=2)


@pytest.mark.parametrize(
    ("who", "fits"),
    [({"user": "*"}, False), ({"user": ""}, True), ({"client": "*"}, True), ({}, True), ({"group": "crew"}, False)],
)
def test_of_clients_without_a_user(who: dict[str, str], fits: bool) -> None:
    """A pattern of users speaks of users."""
    found = LimitRules([rule_of({**who, "inflight": 1}, "")]).about(NOBODY, frozenset())
    assert bool(found) is fits


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({}, "says no limit"),
        ({"user": "ann"}, "says no limit"),
        ({"rate": 5}, "there is no 'rate'"),
        ({"inflight": 0}, "inflight must be a whole number from 1 to 65535, not 0"),
        ({"inflight": 1.5}, "whole number"),
        ({"inflight": True}, "whole number"),
        ({"message_rate": "5"}, "message_rate must be a number"),
        ({"message_rate": 0}, "message_rate must be a number from 0.001"),
        ({"message_rate": float("nan")}, "message_rate must be a number"),
        ({"message_burst": 5}, "message_burst says nothing without message_rate"),
        ({"class": "plc"}, "class is one of device, application"),
        ({"class": 1}, "class is one of"),
        ({"rate_action": "drop"}, "rate_action is one of pause, disconnect"),
        ({"user": 7, "inflight": 1}, "user is a text"),
        ({"client": "", "inflight": 1}, "client is a text of 1"),
        ({"client": "%u", "inflight": 1}, "%u says nothing"),
        ({"client": "c", "connections": 1}, "counted over all clients of a user"),
        ({"client": "c", "user": "u", "retained_messages": 1}, "counted over all clients of a user"),
    ],
)
def test_what_is_wrong_is_said(written: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        rule_of(written, "")


def test_every_limit_is_written_as_it_is_read() -> None:
    written: dict[str, Any] = {name: RANGES[name][0] if name in RANGES else None for name in ATTRIBUTES}
    written |= {"class": "application", "rate_action": "disconnect"}
    assert written_limits(read_limits(written)) == written
    assert read_limits({"inflight": None}) == Limits()


class Site:
    """A node with limits in its configuration, in its grid, and of users."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        grid = MemoryGrid()
        outcome(start(grid.open()))
        self.directory = GridDirectory(grid, ManualClock())
        written = ({"client": "line-*", "inflight": 100, "subscriptions": 10},)
        settings = AuthSettings(chain=("grid", "anonymous"), limits=written)
        self.access = Access(settings, Threads().cross, ManualClock(), self.directory)
        self.changes = 0
        self.access.limits.on_changed = self._changed
        usual = (Said("queue_messages", 7, "mqtt.max_queued_messages"), Said("inflight", 1, "mqtt.max_inflight"))
        desk = LimitsDesk(self.directory, self.access.limits, lambda _: usual)
        parts = (
            LimitResources(desk),
            AuthResources(self.access, desk, Fates()),
            UserResources(self.access.user_desk(self.directory)),
        )
        self.browser: Browser = make_browser(FakeView(), further=parts)
        self.ctl = Ctl(monkeypatch, self.browser)

    def _changed(self) -> None:
        self.changes += 1

    def post(self, path: str, **body: object) -> Any:
        return self.browser.request("POST", f"/api/v1/{path}", json.dumps(body).encode())

    def put(self, kind: str, name: str, **body: object) -> None:
        outcome(start(self.directory.put(kind, name, body)))

    def of(self, who: Principal) -> Limits | None:
        return self.access.limits.of(who)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_configuration_documents_and_users_are_one_book(site: Site) -> None:
    """The user's own document stands before the others, but for one that names him and the client."""
    assert site.of(Principal("x", "bob")) is None
    assert site.of(ANN) == Limits(inflight=100, subscriptions=10)
    site.put(LIMITS, "crew", group="crew", inflight=50, sessions=3)
    assert site.of(ANN) == Limits(inflight=50, subscriptions=10, sessions=3)
    site.put(USERS, "ann", enabled=True, limits={"inflight": 20}, groups=["drivers"])
    assert site.of(ANN) == Limits(inflight=20, subscriptions=10, sessions=3)
    site.put(LIMITS, "ann-7", user="ann", client="line-7", inflight=9)
    site.put(LIMITS, "drivers", group="drivers", queue_bytes=1)
    assert site.of(ANN) == Limits(inflight=9, subscriptions=10, sessions=3, queue_bytes=1)
    assert site.changes == 4
    outcome(start(site.directory.delete(LIMITS, "ann-7")))
    outcome(start(site.directory.delete(USERS, "ann")))
    assert site.of(ANN) == Limits(inflight=50, subscriptions=10, sessions=3)


def test_what_another_version_wrote_is_read_as_far_as_it_goes(site: Site) -> None:
    """A limit that is not known here is no reason to forget the others, or to disable a user."""
    site.put(LIMITS, "new", user="ann", inflight=5, colour="red")
    site.put(USERS, "ann", enabled=True, limits={"sessions": 2, "colour": "red", "inflight": "many"})
    site.put(LIMITS, "broken", user=5, inflight=1)
    assert site.of(ANN) == Limits(inflight=5, subscriptions=10, sessions=2)
    assert site.access.accounts.find("ann").enabled  # type: ignore[union-attr]


def test_over_the_api(site: Site) -> None:
    """Written, listed, shown, taken away; what is wrong is a bad request."""
    answer = site.post("limits/crew", group="crew", message_rate=10)
    assert (answer.status, answer.json["group"], answer.json["limits"]) == (200, "crew", {"message_rate": 10})
    assert site.browser.get("/api/v1/limits").json["items"] == [answer.json]
    assert site.browser.get("/api/v1/limits/crew").json == answer.json
    for body, words in (({"rate": 1}, "rate"), ({"inflight": 0}, "inflight must be"), ({"user": "a"}, "no limit")):
        wrong = site.post("limits/x", **body)
        assert wrong.status == 400 and words in wrong.json["detail"]
    assert site.post("limits/crew", inflight=1, version=77).status == 409
    found = site.post("auth/limits", client="line-7", user="ann", groups=["crew"]).json["items"]
    assert {one["limit"]: (one["value"], one["source"]) for one in found} == {
        "inflight": (100, "auth.limits, entry 001"),
        "message_rate": (10, "grid: limits crew"),
        "subscriptions": (10, "auth.limits, entry 001"),
        "queue_messages": (7, "mqtt.max_queued_messages"),
    }
    assert site.post("auth/explain", client_id="line-7").json["limits"][0]["limit"] == "inflight"
    assert site.browser.request("DELETE", "/api/v1/limits/crew").status == 204
    assert site.browser.get("/api/v1/limits/crew").status == 404
    described = site.browser.get("/api/v1/openapi.json").json["components"]["schemas"]
    assert set(answer.json) == set(described["LimitRule"]["properties"])
    assert {"user", "client", "group", "version", *ATTRIBUTES} == set(described["LimitRuleBody"]["properties"])


def test_by_ctl(site: Site) -> None:
    ctl = site.ctl
    ctl.lines("limits", "set", "cams", "--client", "cam-*", "byte_rate=1000", "class=device")
    assert ctl.lines("limits", "list")[1].split() == ["cams", "any", "any", "cam-*", "byte_rate=1000", "class=device"]
    assert "byte_rate=1000" in "\n".join(ctl.lines("limits", "show", "cams"))
    shown = ctl.lines("limits", "explain", "--client", "cam-1")
    assert " ".join(shown[1].split()) == "byte_rate 1000 each client, on its node grid: limits cams"
    refused = ctl.run("limits", "set", "cams", "speed=5")
    assert refused.exit_code == 1 and "speed" in refused.output
    assert ctl.run("limits", "set", "cams", "speed").exit_code == 2
    ctl.lines("users", "add", "ann", "--without-password")
    assert "inflight=5" in "\n".join(ctl.lines("users", "limits", "ann", "inflight=5"))
    assert any(line.split()[:2] == ["inflight", "5"] for line in ctl.lines("auth", "explain", "--user", "ann"))
    ctl.lines("limits", "remove", "cams")
    assert ctl.run("limits", "show", "cams").exit_code == 1
