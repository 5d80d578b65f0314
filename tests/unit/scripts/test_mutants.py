"""The table of faults fits the code, and the runner tells a fault that is found from one that is not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.mutation import Mutation, Stale
from tests.mutants.running import Verdict, try_all
from tests.mutants.table import MUTATIONS

ROOT = Path(__file__).parents[3]
#: Each has its faults.
PACKAGES = ("broker", "session", "grid/log", "grid/ignite", "cluster", "codec", "devices", "uplink")

ROW = Mutation("a.b", "iot_mqtt/one.py", "LIMIT = 1", "LIMIT = 2", ("tests/test_one.py::test_limit",), "a reason")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small one, with a test that looks at one of two things."""
    for folder in ("iot_mqtt", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "iot_mqtt" / "__init__.py").touch()
    (tmp_path / "iot_mqtt" / "one.py").write_text("LIMIT = 1\nOTHER = 1\n")
    (tmp_path / "tests" / "test_one.py").write_text(
        "from iot_mqtt.one import LIMIT\n\n\ndef test_limit():\n    assert LIMIT == 1\n"
    )
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    return tmp_path


def test_every_row_fits_the_code() -> None:
    """Its old text is there once, its new text is Python, its tests are there."""
    for mutation in MUTATIONS:
        mutation.check(ROOT)


def test_rows_have_names_of_their_own_and_a_reason() -> None:
    """They are asked for by them."""
    names = Counter(mutation.name for mutation in MUTATIONS)
    assert not [name for name, count in names.items() if count > 1]
    assert all(mutation.why for mutation in MUTATIONS)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_of_the_core_has_faults(package: str) -> None:
    """Some."""
    assert sum(mutation.file.startswith(f"iot_mqtt/{package}/") for mutation in MUTATIONS) >= 4


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(ROW, old="LIMIT = 3"), "0 times"),
        (replace(ROW, old="= 1"), "2 times"),
        (replace(ROW, new="LIMIT = 1"), "changes nothing"),
        (replace(ROW, new="LIMIT = ("), "no Python"),
        (replace(ROW, file="iot_mqtt/two.py"), "there is no iot_mqtt/two.py"),
        (replace(ROW, tests=()), "no test"),
        (replace(ROW, tests=("tests/test_two.py",)), "there is no tests/test_two.py"),
        (replace(ROW, tests=("tests/test_one.py::test_other",)), "has no test_other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_row_that_does_not_fit_is_an_error(tree: Path, changed: Mutation, words: str) -> None:
    """With what is wrong in words; the one that all are made of fits."""
    ROW.check(tree)
    with pytest.raises(Stale, match=words):
        changed.check(tree)


def test_found_survived_and_harmless(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What nobody finds is bad unless the table says why; what is found is bad where the table says nobody can."""
    nobody = replace(ROW, name="nobody", old="OTHER = 1", new="OTHER = 2")
    rows = [ROW, nobody, replace(nobody, harmless="nobody asks"), replace(ROW, harmless="nobody asks")]
    results = list(try_all(rows, tree, tmp_path_factory.mktemp("trees"), 2))
    assert [(result.verdict, result.good) for result in results] == [
        (Verdict.FOUND, True),
        (Verdict.SURVIVED, False),
        (Verdict.HARMLESS, True),
        (Verdict.FOUND, False),
    ]
    assert results[0].detail == "tests/test_one.py::test_limit"
    assert (tree / "iot_mqtt" / "one.py").read_text() == "LIMIT = 1\nOTHER = 1\n"


def test_tests_that_fail_anyway_find_nothing(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is tried then."""
    (tree / "iot_mqtt" / "one.py").write_text("LIMIT = 1\nOTHER = 1\nLIMIT += 1\n")
    (result,) = try_all([replace(ROW, old="OTHER = 1", new="OTHER = 2")], tree, tmp_path_factory.mktemp("trees"), 1)
    assert (result.verdict, result.good) == (Verdict.BROKEN, False)
    assert "fails without a fault" in result.detail
