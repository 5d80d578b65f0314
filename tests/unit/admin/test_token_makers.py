"""A token is worth no more than who made it: not when it is made, and not later."""

from __future__ import annotations

from pathlib import Path

import pytest

from iot_mqtt.grid.memory import MemoryGrid
from iot_mqtt.pipeline import ManualClock
from tests.unit.admin.adminkit import TOKEN, Answer
from tests.unit.admin.loginkit import PASSWORD, LoginNode, Page, cheap
from tests.unit.app.ctl.ctlkit import Ctl
from tests.unit.auth.authkit import outcome, start

__all__ = ["cheap"]


@pytest.fixture
def node(tmp_path: Path) -> LoginNode:
    clock, grid = ManualClock(), MemoryGrid()
    clock.advance(1_000_000)
    outcome(start(grid.open()))
    node = LoginNode(grid, clock, tmp_path, "n1")
    node.add("ann")
    return node


def ask(node: LoginNode, token: str, method: str, path: str, body: object = None) -> Answer:
    return node.ask(method, path, body, Authorization=f"Bearer {token}")


def made(answer: Answer) -> str:
    assert answer.status == 200, answer.json
    return str(answer.json["token"])


def make(node: LoginNode, token: str = TOKEN, **body: object) -> str:
    return made(ask(node, token, "POST", "tokens", {"name": "t", "role": "admin", **body}))


def tokens_of_ann(node: LoginNode) -> list[str]:
    """One of her page's, and one that this one made."""
    page = Page(node, node.log_in("ann"))
    first = made(page.ask("POST", "tokens", {"name": "t", "role": "admin"}))
    return [first, make(node, first)]


def test_a_token_ends_with_the_user_who_made_it(node: LoginNode) -> None:
    """And those that it has made; another user of that name does not bring them back. What others made stays."""
    mine, others = tokens_of_ann(node), make(node)
    node.clock.advance(1)
    assert node.ask("DELETE", "admins/ann").status == 204
    assert [ask(node, one, "GET", "status").status for one in (*mine, others)] == [401, 401, 200]
    node.add("ann")
    assert [ask(node, one, "GET", "status").status for one in (*mine, others)] == [401, 401, 200]
    shown = {one["id"]: (one["admin"], one["expired"]) for one in node.ask("GET", "tokens").json["items"]}
    assert sorted(shown.values(), key=str) == [("ann", True), ("ann", True), (None, False)]


def test_a_token_has_at_most_the_role_that_its_maker_has_now(node: LoginNode) -> None:
    """It has its own again with him."""
    mine, others = tokens_of_ann(node), make(node)
    for role, status in (("viewer", 403), ("operator", 200), ("admin", 200)):
        assert node.ask("POST", "admins/ann", {"role": role}).status == 200
        for one in mine:
            answer = ask(node, one, "POST", "publish", {"topic": "t"})
            assert (answer.status, ask(node, one, "GET", "me").json["role"]) == (status, role)
        assert ask(node, others, "GET", "me").json["role"] == "admin"
    assert node.ask("POST", "admins/ann", {"password": f"{PASSWORD}!"}).status == 200
    assert ask(node, mine[0], "GET", "tokens").status == 200


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "a scope"),
        ({"scope": ["clients"]}, "a scope"),
        ({"scope": ["tokens", "clients"]}, "a scope"),
        ({"scope": ["tokens-of-others"]}, None),
        ({"scope": ["tokens/a"]}, "an end"),
        ({"scope": ["tokens"], "seconds": 61}, "an end"),
        ({"scope": ["tokens"], "seconds": 60}, ""),
        ({"scope": ["tokens/a"], "role": "viewer", "seconds": 1}, ""),
    ],
)
def test_a_token_makes_none_that_may_more(node: LoginNode, body: dict[str, object], why: str | None) -> None:
    """Or for longer; the answer says what is too much."""
    maker = make(node, scope=["tokens"], seconds=60)
    answer = ask(node, maker, "POST", "tokens", {"name": "t", "role": "admin", **body})
    assert answer.status == (200 if why == "" else 400 if why is None else 403)
    assert not why or (answer.json["error"] == "forbidden" and why in answer.json["detail"])


def test_a_token_without_scope_and_end_makes_any(node: LoginNode) -> None:
    """As the one of the data directory."""
    maker = make(node)
    assert make(node, maker, scope=["clients"])
    assert make(node, maker)


@pytest.mark.parametrize(("limits", "status"), [({"scope": ["admins"]}, 403), ({"seconds": 60}, 403), ({}, 200)])
def test_a_token_that_is_limited_makes_no_admin_user(node: LoginNode, limits: dict[str, object], status: int) -> None:
    """Nor gives one another password: that one could log in and do all, for ever."""
    token = made(node.ask("POST", "tokens", {"name": "t", "role": "admin", **limits}))
    body = {"name": "bob", "role": "admin", "password": PASSWORD}
    for path, said in (("admins", body), ("admins/ann", {"password": PASSWORD}), ("admins/ann", {"role": "admin"})):
        assert ask(node, token, "POST", path, said).status == status
    assert ask(node, token, "GET", "admins").status == 200
    assert ask(node, token, "POST", "admins/ann/unlock").status == 200


def test_ctl_says_how_many_tokens_are_concerned(node: LoginNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a user gets another role, and where one is removed; tokens that are over are none."""
    page = Page(node, node.log_in("ann"))
    for seconds in (1, None, None):
        made(page.ask("POST", "tokens", {"name": "t", "role": "admin", "seconds": seconds}))
    node.clock.advance(1)
    ctl = Ctl(monkeypatch, node.browser)
    assert ctl.lines("admins", "role", "ann", "viewer")[-1].split()[-1] == "2"
    assert ctl.lines("admins", "remove", "ann") == ["removed ann", "tokens 2"]
