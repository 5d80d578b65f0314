"""Make docs/conformance.md from clauses.yaml and from the clauses that tests name, or check that it is up to date.

    python tests/wire/conformance.py            write docs/conformance.md
    python tests/wire/conformance.py --check    exit 1 if it is stale, if a server clause has neither a test nor a
                                                reason, if a test names a clause that does not exist, or clauses.yaml
                                                or a table of differences a test that does not exist

Tests are read as source (``@clauses(...)``) and cases as YAML, so nothing is imported and no broker is needed.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "conformance.md"
DOCUMENTS = {"MQTT3": "MQTT 3.1.1", "MQTT5": "MQTT 5.0"}
SHOWN = 6
#: A statement: whom it binds, what it says, perhaps why no wire test shows it, and which other tests do.
Entry = dict[str, Any]


def statements() -> dict[str, Entry]:
    """Every clause by its full name, ``MQTT5-3.1.2-4``."""
    loaded: dict[str, dict[str, Entry]] = yaml.safe_load((HERE / "clauses.yaml").read_text())
    return {f"{document}-{number}": entry for document, entries in loaded.items() for number, entry in entries.items()}


def tagged_tests(path: Path) -> dict[str, list[str]]:
    """Test name to clauses, from the decorators of one file."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found[f"{path.stem.removeprefix('test_')}::{node.name.removeprefix('test_')}"] = _clauses_of(node)
    return found


def _clauses_of(node: ast.FunctionDef) -> list[str]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "clauses":
            return [str(argument.value) for argument in decorator.args if isinstance(argument, ast.Constant)]
    return []


def tagged_cases(path: Path) -> dict[str, list[str]]:
    """Case name to clauses, from one table."""
    cases: list[dict[str, Any]] = yaml.safe_load(path.read_text())
    names = Counter(case["name"] for case in cases)
    if names and names.most_common(1)[0][1] > 1:
        raise SystemExit(f"{path.name}: two cases are named {names.most_common(1)[0][0]!r}")
    return {f"{path.stem}/{case['name'].replace(' ', '-')}": case["clauses"] for case in cases}


def collected() -> dict[str, list[str]]:
    """Every test and case with the clauses it names."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        found |= tagged_tests(path)
    for path in sorted((HERE / "cases").glob("*.yaml")):
        found |= tagged_cases(path)
    return found


def covered(tests: dict[str, list[str]]) -> dict[str, list[str]]:
    """Clause to the tests that name it."""
    found: dict[str, list[str]] = {}
    for test, names in tests.items():
        for name in names:
            found.setdefault(name, []).append(test)
    return found


def complaints(known: dict[str, Entry], tests: dict[str, list[str]]) -> list[str]:
    """What keeps the matrix from being complete and true."""
    by_clause = covered(tests)
    found = []
    for name in sorted(by_clause.keys() - known.keys()):
        found += [f"{test} names {name}, which does not exist" for test in by_clause[name]]
    for name, entry in known.items():
        if entry["binds"] != "client" and name not in by_clause and "reason" not in entry:
            found.append(f"{name} binds a server and has neither a test nor a reason: {entry['says']}")
        if name in by_clause and "reason" in entry:
            found.append(f"{name} has a reason for having no test, and a test: {by_clause[name][0]}")
        if "elsewhere" in entry and "reason" not in entry:
            found.append(f"{name} names tests of other folders, but no reason why there is none here")
        found += [f"{name}: there is no test {test}" for test in entry.get("elsewhere", ()) if not exists(test)]
    return found + unknown_differences(tests)


def exists(test: str) -> bool:
    """Whether ``folder/file.py::test_name`` is there; also as ``file.py::TestClass::test_name``."""
    file, *names = test.split("::")
    path = ROOT / file
    if not path.is_file() or not names or not names[-1].startswith("test_"):
        return False
    nodes: list[ast.stmt] = _parsed(path).body
    for name in names[:-1]:
        nodes = [inner for node in nodes if isinstance(node, ast.ClassDef) and node.name == name for inner in node.body]
    return any(isinstance(node, ast.FunctionDef) and node.name == names[-1] for node in nodes)


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def unknown_differences(tests: dict[str, list[str]]) -> list[str]:
    """Entries of differences/*.yaml for tests that are not there (any more), which would never be looked at."""
    found = []
    for path in sorted((HERE / "differences").glob("*.yaml")):
        for entry in (name for group in yaml.safe_load(path.read_text()) for name in group["tests"]):
            if entry.split("[", 1)[0].replace("test_", "") not in {name.replace("test_", "") for name in tests}:
                found.append(f"{path.name}: there is no test {entry}")
    return found


def page(known: dict[str, Entry], tests: dict[str, list[str]]) -> str:
    """The whole of docs/conformance.md."""
    by_clause = covered(tests)
    lines = [
        "# Conformance",
        "",
        "<!-- Made by tests/wire/conformance.py from tests/wire/clauses.yaml and the tests; do not edit. -->",
        "",
        "Every normative statement of the two specifications, in our own short words, and the tests that hold a",
        "broker to it. The tests are black-box: `pytest tests/wire` runs them against this broker, and with",
        "`--broker HOST:PORT` against any other; `tests/wire/differences/` explains where others differ.",
        "`area::name` is a test in `tests/wire/test_<area>.py`, `packet/name` a case in",
        "`tests/wire/cases/<packet>.yaml`. Where no black-box test can show a statement of a server, the tests that",
        "do so from inside, or with a configuration of their own, are named in full, with the reason. Statements that",
        "bind only clients have tests where a server's answer to their breach is defined.",
        "",
    ]
    for prefix, title in DOCUMENTS.items():
        mine = {name: entry for name, entry in known.items() if name.startswith(prefix)}
        bound = [name for name, entry in mine.items() if entry["binds"] != "client"]
        shown = [name for name in bound if name in by_clause]
        elsewhere = [name for name in bound if mine[name].get("elsewhere")]
        lines += [
            f"## {title}",
            "",
            f"{len(mine)} statements, {len(bound)} of which bind a server; {len(shown)} of these have wire tests,",
            f"{len(elsewhere)} other tests, {len(bound) - len(shown) - len(elsewhere)} a reason why there is none.",
            "",
            "| statement | binds | in short | shown by |",
            "|---|---|---|---|",
        ]
        lines += [_row(name, entry, by_clause.get(name, [])) for name, entry in mine.items()]
        lines.append("")
    return "\n".join(lines)


def _row(name: str, entry: Entry, tests: list[str]) -> str:
    shown = ", ".join(f"`{test}`" for test in tests[:SHOWN])
    if len(tests) > SHOWN:
        shown += f" and {len(tests) - SHOWN} more"
    if not tests:
        shown = _without_wire_test(entry)
    number = name.split("-", 1)[1]
    return f"| MQTT-{number} | {entry['binds']} | {entry['says'].replace('|', chr(92) + '|')} | {shown} |"


def _without_wire_test(entry: Entry) -> str:
    if "reason" not in entry:
        return "–"
    if "elsewhere" not in entry:
        return f"No test: {entry['reason']}"
    return ", ".join(f"`{test}`" for test in entry["elsewhere"]) + f". {entry['reason']}"


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if something is wrong")
    options = parser.parse_args()
    known, tests = statements(), collected()
    wrong = complaints(known, tests)
    text = page(known, tests)
    if options.check and (not PAGE.exists() or PAGE.read_text() != text):
        wrong.append(f"{PAGE.name} is stale: run python tests/wire/conformance.py")
    if not options.check:
        PAGE.write_text(text)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
