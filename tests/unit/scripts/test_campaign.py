"""The campaign: sizes, bounds, and a page that says what came of each part."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import campaign
from tests.campaign import PARTS, Part, Result, attempt, page, scaled

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_each_part_is_there(part: Part) -> None:
    """Its module, and the files that it is given."""
    assert find_spec(part.module) is not None
    for argument in part.arguments:
        assert not argument.startswith("tests/") or (ROOT / argument).exists()


def test_a_share_makes_everything_smaller_but_never_nothing() -> None:
    """Options and what stands in the environment."""
    part = Part("p", "m", ("--a",), ("--seeds", 2000), (("STEPS", 100),))
    assert part.command(1.0)[2:] == ["m", "--a", "--seeds", "2000"]
    assert part.command(0.01)[-1] == "20"
    assert part.environment(0.5)["STEPS"] == "50"
    assert scaled(3, 0.0001) == 1


def test_bounds_are_not_doubled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the caller's environment says."""
    monkeypatch.setenv("CLUSTER_PATIENCE", "7")
    (tmp_path / "shows.py").write_text("import os\nprint('one')\nprint(os.environ['CLUSTER_PATIENCE'])\nexit(3)\n")
    monkeypatch.setattr(campaign, "ROOT", tmp_path)
    result = attempt(Part("p", "shows"), 1.0)
    assert (result.code, list(result.said)) == (3, ["one", "1"])


def test_the_page_says_when_what_where_and_how_it_went() -> None:
    """A failed part is seen at once, and its last words are there as they are."""
    good = Result("sim", "seeds 1,000", 0, 12.4, ["0 failed; 12.0 s"], "2026-01-02 03:04", "abc", "2 processors")
    bad = Result("abuse", "whole", 1, 3.0, ["a client | waited"], "2026-01-03 03:04", "def", "2 processors")
    text = page([good, bad])
    assert "2 processors" in text
    assert "`CLUSTER_PATIENCE=1`" in text
    assert "| sim | seeds 1,000 | passed | 12 | 2026-01-02 03:04 | `abc` |" in text
    assert "| abuse | whole | **failed** (1) | 3 | 2026-01-03 03:04 | `def` |" in text
    assert "    a client | waited" in text


def test_a_part_that_is_not_run_keeps_what_it_came_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A campaign takes longer than most have in one go."""
    for name, code in (("one", 0), ("two", 1)):
        (tmp_path / f"says_{name}.py").write_text(f"print('I am {name}')\nexit({code})\n")
    monkeypatch.setattr(campaign, "ROOT", tmp_path)
    monkeypatch.setattr(campaign, "PARTS", (Part("one", "says_one"), Part("two", "says_two")))
    written = tmp_path / "campaign.md"
    for name, code in (("two", 1), ("one", 0)):
        monkeypatch.setattr("sys.argv", ["campaign", "--only", name, "--page", str(written)])
        assert campaign.main() == code
    text = written.read_text()
    assert text.index("| one | whole | passed |") < text.index("| two | whole | **failed** (1) |")
    assert text.index("    I am one") < text.index("    I am two")
