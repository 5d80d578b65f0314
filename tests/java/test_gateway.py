"""The messaging gateway's own tests, which are Java's: Maven runs all of them once, and each class is a test here.

``scripts/setup.sh jars`` has compiled them, with the gateway itself.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

CLUSTER = Path(__file__).parents[2] / "cluster"
GATEWAY = CLUSTER / "gateway"
CLASSES = sorted(path.stem for path in (GATEWAY / "src" / "test" / "java").rglob("*Test.java"))
#: So much of what a class that failed has to say.
SAID = 4000

pytestmark = [
    pytest.mark.skipif(not (GATEWAY / "target" / "test-classes").exists(), reason="needs scripts/setup.sh jars"),
    pytest.mark.timeout(600),
]

Report = Callable[[str], ElementTree.Element]


@pytest.fixture(scope="module")
def report() -> Report:
    """What Maven has written of a class."""
    reports = GATEWAY / "target" / "surefire-reports"
    for stale in reports.glob("TEST-*.xml"):
        stale.unlink()
    environment: Mapping[str, str] = os.environ | {
        "MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} -Duser.home={Path.home()} -XX:TieredStopAtLevel=1",
    }
    done = subprocess.run(
        ["mvn", "-q", "-B", "-f", str(CLUSTER / "pom.xml"), "-pl", "gateway", "surefire:test"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
        check=False,
    )

    def of(name: str) -> ElementTree.Element:
        found = list(reports.glob(f"TEST-*.{name}.xml"))
        assert found, f"{name} did not run to its end:\n{done.stdout[-SAID:]}{done.stderr[-SAID:]}"
        return ElementTree.parse(found[0]).getroot()

    return of


@pytest.mark.parametrize("name", CLASSES)
def test_all_cases_of_a_class_pass(report: Report, name: str) -> None:
    """None of them fails, and none is left out."""
    cases = report(name).findall("testcase")
    wrong = {
        case.attrib["name"]: (found.text or "")[:SAID]
        for case in cases
        for found in case
        if found.tag in ("failure", "error", "skipped")
    }
    assert cases and not wrong, "\n".join(f"{case}: {why}" for case, why in wrong.items())
