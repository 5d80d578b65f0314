"""The test processes side by side: nothing is left out, nothing runs twice, and one line says what came of it."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from scripts.run_tests import PARTS, SOURCES, Failures, alone, closing_line, counts_of, seed_of_tree, verdict

ROOT = Path(__file__).parents[3]


def test_every_folder_of_tests_is_in_one_part() -> None:
    """As pyproject.toml names them."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert sorted(folder for part in PARTS for folder in part.folders) == sorted(options["testpaths"])


def test_parts_have_ports_of_their_own() -> None:
    """6,000 each, below those that the kernel gives to clients."""
    starts = sorted(part.ports_from for part in PARTS)
    for start, end in zip(starts, [*starts[1:], 32_768], strict=True):
        assert start + 6_000 <= end


def test_what_runs_alone_is_looked_for_where_it_is() -> None:
    """Each file with such a test, and no other: collecting all of them takes as long as some of the tests."""
    found = alone().folders
    assert "tests/system/test_slow_reader.py" in found and "tests/unit/codec" not in str(found)
    assert len(found) == len(set(found)) < 40
    assert all("mark.alone" in (ROOT / file).read_text(encoding="utf-8") for file in found)


def test_the_same_sources_have_the_same_random_cases_and_a_change_has_others(tmp_path: Path) -> None:
    """What is written or renamed; what is compiled or kept beside it does not count."""
    for folder in SOURCES:
        (tmp_path / folder).mkdir()
    code = tmp_path / "iot_mqtt" / "one.py"
    code.write_text("x = 1")
    first = seed_of_tree(tmp_path)
    (tmp_path / "iot_mqtt" / "one.so").write_bytes(b"compiled")
    assert seed_of_tree(tmp_path) == first
    code.write_text("x = 2")
    second = seed_of_tree(tmp_path)
    code.rename(code.with_name("two.py"))
    assert len({first, second, seed_of_tree(tmp_path)}) == 3


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("=== 388 passed in 4.07s ===", {"passed": 388}),
        ("20 passed, 368 deselected in 4.45s", {"passed": 20, "deselected": 368}),
        (
            "= 1 failed, 2 passed, 1 warning, 3 errors in 61.00s (0:01:01) =",
            {"failed": 1, "passed": 2, "warning": 1, "error": 3},
        ),
        ("=== no tests ran in 0.01s ===", {}),
        ("OSError: No space left on device", {}),
    ],
)
def test_the_last_line_of_a_part_is_understood(line: str, counts: dict[str, int]) -> None:
    """Whatever pytest has to say."""
    assert counts_of(line) == Counter(counts)


@pytest.mark.parametrize(
    ("codes", "narrowed", "code"),
    [
        ([0, 0, 0], False, 0),
        ([0, 1, 0], False, 1),
        ([0, 5, 0], False, 5),
        ([0, -9, 1], False, -9),
        ([0, 5, 5], True, 0),
        ([1, 5, 5], True, 1),
        ([5, 5, 5], True, 5),
    ],
)
def test_nothing_collected_is_no_success(codes: list[int], code: int, *, narrowed: bool) -> None:
    """But where arguments chose what another part has."""
    assert verdict(codes, narrowed=narrowed) == code


def test_the_closing_line_is_of_all_parts() -> None:
    """What failed comes first."""
    line = closing_line(Counter({"passed": 5000, "skipped": 2}) + Counter({"passed": 7, "failed": 1}), 1000.4)
    assert line.strip("= ") == "1 failed, 5007 passed, 2 skipped in 1000s"
    assert closing_line(Counter(), 1).strip("= ") == "no tests ran in 1s"


def test_the_gist_of_a_failure_is_its_name_and_what_was_raised() -> None:
    """A log of 20,000 lines is read from its end."""
    output = """\
=================================== FAILURES ===================================
_____________________________ test_both[a long_id] _____________________________

    def test_both() -> None:
>       assert both() == 2
E       AssertionError: wanted two
E       assert 1 == 2
E        +  where 1 = both()

tests/unit/test_both.py:3: AssertionError
___________________ ERROR at teardown of test_ports ____________________
E   OSError: in use
=========================== short test summary info ============================
FAILED tests/unit/test_both.py::test_both - AssertionError: wanted two
ERROR tests/unit/test_ports.py::test_ports - OSError: in use
========================= 1 failed, 1 error in 0.05s ==========================="""
    failures = Failures()
    for line in output.splitlines():
        failures.hear(line)
    assert failures.gist() == [
        "test_both[a long_id]",
        "    AssertionError: wanted two",
        "    assert 1 == 2",
        "    +  where 1 = both()",
        "ERROR at teardown of test_ports",
        "    OSError: in use",
        "FAILED tests/unit/test_both.py::test_both - AssertionError: wanted two",
        "ERROR tests/unit/test_ports.py::test_ports - OSError: in use",
    ]
