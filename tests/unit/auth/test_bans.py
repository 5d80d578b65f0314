"""Bans: whom they fit, how long they hold, how other nodes learn of them, and what operators do with them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from iot_mqtt.admin.ban_resources import BanResources
from iot_mqtt.auth import bans as bans_module
from iot_mqtt.auth.ban_index import BanIndex
from iot_mqtt.auth.bans import BanBook
from iot_mqtt.errors import Refused, Unavailable
from iot_mqtt.grid.directory import GridDirectory
from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from iot_mqtt.ports.bans import BANS, Ban, Cause
from tests.unit.admin.adminkit import Browser, FakeView, make_browser
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import outcome, start

HOST = "192.0.2.7"


class Nodes:
    """Two nodes on one grid."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.grid = MemoryGrid()
        outcome(start(self.grid.open()))
        self.directories = [GridDirectory(self.grid, self.clock) for _ in range(2)]
        self.here, self.there = (BanBook(one, self.clock, "n1") for one in self.directories)

    def add(self, seconds: float | None = None, **whom: Any) -> Ban:
        told: dict[str, Any] = dict.fromkeys(("client", "user", "address")) | whom
        return outcome(start(self.here.add(**told, seconds=seconds, reason="why", by="me")))

    def follow(self) -> None:
        """The other node looks at what has changed."""
        outcome(start(self.directories[1].refresh()))


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.mark.parametrize(
    ("whom", "client_id", "user", "host", "fits"),
    [
        ({"client": "press-7"}, "press-7", "", HOST, True),
        ({"client": "press-7"}, "press-71", "", HOST, False),
        ({"client": "press-*"}, "press-7", "", HOST, True),
        ({"client": "press-*"}, "press", "", HOST, False),
        ({"client": "?ress-[7]*"}, "press-[7]x", "", HOST, True),
        ({"client": "?ress-[7]*"}, "press-7", "", HOST, False),
        ({"client": "*"}, "anything", "", HOST, True),
        ({"client": "*"}, "", "", HOST, False),
        ({"user": "ann"}, "c", "ann", HOST, True),
        ({"user": "ann"}, "c", "", HOST, False),
        ({"user": "ann"}, "c", "anne", HOST, False),
        ({"address": HOST}, "c", "", HOST, True),
        ({"address": HOST}, "c", "", f"::ffff:{HOST}", True),
        ({"address": f"::ffff:{HOST}"}, "c", "", HOST, True),
        ({"address": f"::ffff:{HOST}/120"}, "c", "", "192.0.2.8", True),
        ({"address": "::/0"}, "c", "", HOST, False),
        ({"address": HOST}, "c", "", "192.0.2.8", False),
        ({"address": "192.0.2.0/24"}, "c", "", HOST, True),
        ({"address": "192.0.2.9/24"}, "c", "", HOST, True),
        ({"address": "0.0.0.0/0"}, "c", "", HOST, True),
        ({"address": "0.0.0.0/0"}, "c", "", "2001:db8::1", False),
        ({"address": "2001:db8::/32"}, "c", "", "2001:db8:1::9", True),
        ({"address": "0.0.0.0/0"}, "c", "", "", False),
        ({"client": "c", "address": HOST}, "c", "", HOST, True),
        ({"client": "c", "address": HOST}, "c", "", "192.0.2.8", False),
        ({"client": "c*", "user": "ann", "address": "192.0.2.0/24"}, "cc", "ann", HOST, True),
        ({"client": "c*", "user": "ann", "address": "192.0.2.0/24"}, "cc", "bob", HOST, False),
        ({"user": "ann", "address": HOST}, "c", "ann", "192.0.2.8", False),
    ],
)
def test_whom_it_fits(nodes: Nodes, whom: dict[str, Any], client_id: str, user: str, host: str, fits: bool) -> None:
    """All of what it names has to; it is gone when it is taken back, here and at the other node."""
    ban = nodes.add(**whom)
    assert nodes.there.find(client_id, user, host) is None
    nodes.follow()
    for book in (nodes.here, nodes.there):
        assert book.find(client_id, user, host) == (ban if fits else None)
        assert book.bans_host(host) is (fits and list(whom) == ["address"])
    assert outcome(start(nodes.here.remove(ban.id)))
    nodes.follow()
    for book in (nodes.here, nodes.there):
        assert (book.find(client_id, user, host), book.bans_host(host), len(book)) == (None, False, 0)


def test_it_is_over_in_time(nodes: Nodes) -> None:
    """To the second, whoever looks; then its document is taken away, once."""
    ban = nodes.add(10, client="c")
    nodes.follow()
    nodes.clock.advance(9.9)
    assert nodes.here.find("c", "", HOST) == nodes.there.find("c", "", HOST) == ban
    outcome(start(nodes.here.sweep()))
    assert len(nodes.here) == 1
    nodes.clock.advance(0.2)
    assert nodes.here.find("c", "", HOST) is nodes.there.find("c", "", HOST) is None
    outcome(start(nodes.here.sweep()))
    outcome(start(nodes.there.sweep()))
    assert nodes.directories[0].get(BANS, ban.id) is None


def test_one_that_was_made_longer_is_not_swept_away(nodes: Nodes) -> None:
    """By a node that does not know it yet."""
    nodes.add(10, client="c")
    nodes.follow()
    nodes.clock.advance(11)
    nodes.add(100, client="c")
    outcome(start(nodes.there.sweep()))
    nodes.follow()
    assert nodes.here.find("c", "", HOST) is not None
    assert nodes.there.find("c", "", HOST) is not None


def test_adding_it_again_replaces_it(nodes: Nodes) -> None:
    """There is one ban of exactly these."""
    first, second = nodes.add(10, client="c", user="u"), nodes.add(client="c", user="u")
    assert (first.id, second.until, len(nodes.here)) == (second.id, None, 1)


@pytest.mark.parametrize(
    "whom",
    [
        {},
        {"client": ""},
        {"client": "c" * 257},
        {"address": "nowhere"},
        {"address": "192.0.2.0/33"},
        {"user": "u", "seconds": 0},
        {"user": "u", "seconds": 1e12},
    ],
)
def test_what_makes_no_sense_is_not_kept(nodes: Nodes, whom: dict[str, Any]) -> None:
    """It is refused in words."""
    with pytest.raises(ValueError, match=r"."):
        nodes.add(**whom)
    assert len(nodes.here) == 0


def test_there_is_a_bound(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all, of patterns that fit anything, and of what nodes impose, each by itself."""
    for name in ("MOST", "MOST_IMPOSED", "MOST_OPEN"):
        monkeypatch.setattr(bans_module, name, 3 if name == "MOST" else 2)
    for number in range(5):
        nodes.here.impose(Cause.FLAPPING, f"f{number}", HOST, 60, "why")
    assert [nodes.here.find(f"f{number}", "", HOST) is not None for number in range(5)] == [True, True, *[False] * 3]
    nodes.add(client="*a")
    nodes.add(client="?b")
    with pytest.raises(Refused):
        nodes.add(client="*c")
    nodes.add(client="d*")
    with pytest.raises(Refused):
        nodes.add(client="e")
    nodes.add(client="d*")  # it is there already


def test_what_a_node_imposes_is_known_to_all(nodes: Nodes) -> None:
    """Of that client id at that address only, whatever signs are in it."""
    nodes.here.impose(Cause.FLAPPING, "*", HOST, 60, "too often")
    nodes.follow()
    for book in (nodes.here, nodes.there):
        assert book.find("*", "", HOST) is not None
        assert book.find("c", "", HOST) is None
        assert book.find("*", "", "192.0.2.8") is None
        assert not book.bans_host(HOST)
    assert [(ban.cause, ban.reason, ban.made_by) for ban in nodes.there.page(None, 10)] == [
        ("flapping", "too often", "n1")
    ]


def test_what_a_node_imposes_holds_without_the_grid(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here at least, and an operator's is refused in words."""

    async def away(*_: object) -> bytes:
        raise Unavailable("the grid is away")

    monkeypatch.setattr(nodes.grid, "get", away)
    nodes.here.impose(Cause.GUESSING, "c", HOST, 60, "too often")
    assert nodes.here.find("c", "", HOST) is not None
    assert [ban.client for ban in nodes.here.page(None, 10)] == ["c"]
    with pytest.raises(Unavailable):
        nodes.add(client="d")
    assert nodes.here.find("d", "", HOST) is None


def test_a_document_that_nobody_understands_bans_nobody(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    """Of a later version, or broken: the others hold."""
    nodes.add(client="c")
    for name, body in {"x": {"address": "nowhere"}, "y": {"until": "soon", "client": "c"}, "z": {}}.items():
        outcome(start(nodes.directories[0].put(BANS, name, body)))
    assert nodes.here.find("c", "", HOST) is not None
    assert nodes.here.find("d", "u", HOST) is None
    assert sum("not understood" in record.getMessage() for record in caplog.records) >= 2
    listed = {one.id: one.cause for one in nodes.here.page(None, 10)}
    assert (len(listed), listed["y"]) == (4, "not understood")


def test_many_bans_cost_no_more_than_one() -> None:
    """10,000 of all kinds: a look takes a few microseconds, not ten thousand comparisons."""
    index, ban = BanIndex(), Ban("", None, None, None, None, "operator", "", "", 0.0)
    for number in range(2_500):
        address = f"10.{number >> 8}.{number & 255}.0/24"
        for client, user, where in (
            (f"c{number}", None, None),
            (f"line-{number:04}-*", None, None),
            (None, f"u{number}", None),
            (None, None, address),
        ):
            index.add(Ban(str(len(index)), client, user, where, *[getattr(ban, name) for name in Ban.__slots__[4:]]))
    assert len(index) == 10_000
    assert index.find("line-0007-x", "", HOST, 0.0) is not None
    best = min(_seconds_of(index) for _ in range(20))
    assert best < 0.005  # 100 looks; by comparing each it would be half a second


def _seconds_of(index: BanIndex) -> float:
    began = time.perf_counter()
    for _ in range(100):
        assert index.find("press-7-and-some-more", "somebody", HOST, 0.0) is None
        assert not index.bans_host(HOST, 0.0)
    return time.perf_counter() - began


# --- over the API -----------------------------------------------------------------------------------------


class Site:
    """A node whose admin port has bans."""

    def __init__(self, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
        parts = (BanResources(nodes.here),)
        self.browser: Browser = make_browser(FakeView(), further=parts)
        self.ctl = Ctl(monkeypatch, self.browser)

    def post(self, **body: object) -> Any:
        return self.browser.request("POST", "/api/v1/bans", json.dumps(body).encode())


@pytest.fixture
def site(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(nodes, monkeypatch)


def test_operators_add_list_and_remove(site: Site, nodes: Nodes) -> None:
    """Page by page, and one by one."""
    made = [site.post(client=f"c{number}", seconds=60, reason="loud").json for number in range(3)]
    assert made[0]["until"] == nodes.clock.wall() + 60
    page = site.browser.get("/api/v1/bans?limit=2").json
    rest = site.browser.get(f"/api/v1/bans?after={page['after']}").json
    assert [one["id"] for one in (*page["items"], *rest["items"])] == sorted(one["id"] for one in made)
    path = f"/api/v1/bans/{made[0]['id']}"
    assert site.browser.get(path).json == made[0]
    assert site.browser.request("DELETE", path).status == 204
    assert site.browser.request("DELETE", path).status == site.browser.get(path).status == 404
    assert nodes.here.find("c0", "", HOST) is None


@pytest.mark.parametrize("body", [{}, {"client": "c", "seconds": 0}, {"address": "x"}, {"clients": "c"}])
def test_what_is_wrong_is_a_bad_request(site: Site, body: dict[str, object]) -> None:
    """Nothing is banned."""
    assert site.post(**body).status == 400
    assert site.browser.get("/api/v1/bans").json["items"] == []


def test_ctl_bans(site: Site) -> None:
    """The same by ctl."""
    [id] = site.ctl.lines("bans", "add", "--client", "press-*", "--address", "10.0.7.0/28", "--reason", "loud")
    _, listed = site.ctl.lines("bans", "list")
    for text in (id, "client press-*, address 10.0.7.0/28", "for good", "operator"):
        assert text in listed
    site.ctl.lines("bans", "remove", id)
    assert not any(id in line for line in site.ctl.lines("bans", "list"))
