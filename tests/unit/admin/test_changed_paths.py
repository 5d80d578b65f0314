"""What a call was about, as scopes and the log of changes have it: its path with its query, each name one part."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.admin.adminkit import TOKEN
from tests.unit.admin.tokenkit import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("DELETE retained?filter=plant/%23&limit=5", "retained?filter=plant/#&limit=5"),
        ("DELETE clients/c?node=node-1", "clients/c?node=node-1"),
        ("DELETE retained?filter=a%26limit%3D%25", "retained?filter=a%26limit%3D%25"),
        ("DELETE retained?filter=%E6%97%A5+b", "retained?filter=日 b"),
        ("DELETE clients/c?secret=hunter-2&node=%FF", "clients/c?secret=******&node=\ufffd"),
    ],
)
def test_a_change_is_written_down_with_its_query(site: Site, call: str, path: str) -> None:
    """What it was about may stand nowhere else; under a name that nobody knows may be a secret."""
    method, target = call.split(" ")
    site.ask(method, target, TOKEN)
    assert site.ask("GET", "audit", TOKEN).json["items"][0]["path"] == path


def test_a_name_with_a_slash_is_one_part_of_a_path(site: Site) -> None:
    """In what a scope allows, and in what is written down: another session has other records."""
    narrow, exact = (site.make(name="t", role="operator", scope=[f"sessions/line{end}"]) for end in ("", "%2fpress"))
    for name, of_narrow, of_exact in [("line", 404, 403), ("line%2Fpress", 403, 404), ("line%2Fpress%2F1", 403, 403)]:
        assert site.ask("DELETE", f"sessions/{name}", narrow).status == of_narrow
        assert site.ask("DELETE", f"sessions/{name}", exact).status == of_exact
    site.ask("DELETE", "sessions/line%2Fsubscriptions%2Fpub", TOKEN)
    site.ask("DELETE", "sessions/a%3Fnode=1%25%20%C3%BC", TOKEN)
    paths = [one["path"] for one in site.ask("GET", "audit", TOKEN).json["items"][:2]]
    assert paths == ["sessions/a%3Fnode=1%25 ü", "sessions/line%2Fsubscriptions%2Fpub"]


def test_a_scope_is_kept_as_paths_are_compared(site: Site) -> None:
    """Whoever writes a name as it is means the same; a user's name is no path."""
    scope = ["clients/50%", "clients/a b", "publish/a%2fb", "as:plant/ann%41"]
    made = site.ask("POST", "tokens", TOKEN, name="t", role="operator", scope=[*scope[:2]]).json
    assert made["scope"] == ["clients/50%25", "clients/a b"]
    made = site.ask("POST", "tokens", TOKEN, name="t", role="operator", scope=[*scope[2:]]).json
    assert made["scope"] == ["publish/a%2Fb", "as:plant/ann%41"]
