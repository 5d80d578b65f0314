#!/usr/bin/env python3
"""The parts that a release is made of: ``check`` them, write their ``sbom``, or ``audit`` them.

check          no version is older than what cured a known fault (requirements/advisories.yaml); needs no network
sbom FOLDER    CycloneDX files: python.cdx.json from the lock, cluster.cdx.json and spark.cdx.json by Maven
audit FOLDER   asks OSV.dev what is known of everything in those files; fails for what nobody has accepted
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

ROOT = Path(__file__).resolve().parent.parent
ADVISORIES = ROOT / "requirements" / "advisories.yaml"
LOCK = ROOT / "requirements" / "run.lock"
JARS = (ROOT / "cluster" / "target" / "jars", ROOT / "spark" / "target" / "jars")
MAVEN = "org.cyclonedx:cyclonedx-maven-plugin:2.9.3:makeAggregateBom"
OSV = os.environ.get("OSV_URL", "https://api.osv.dev")

_LOCKED = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s\\]+)", re.MULTILINE)
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d+\.[\w.]*)(?:-\w.*)?\.jar")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, which is what both worlds order by first."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def locked(text: str) -> dict[str, str]:
    """Name and version of everything in a lock of pip's."""
    return {found["name"]: found["version"] for found in _LOCKED.finditer(text)}


def jars(folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Name and version of every jar, as its file is called."""
    for folder in folders:
        for path in sorted(folder.rglob("*.jar")):
            if found := _JAR.fullmatch(path.name):
                yield found["name"], found["version"]


def too_old(
    cured: Mapping[str, Mapping[str, Any]], python: Mapping[str, str], java: Iterable[tuple[str, str]]
) -> list[str]:
    """A sentence for each part that is older than what cured it."""
    present = [(f"pypi/{name}", version) for name, version in python.items()]
    by_artifact = {key.rpartition("/")[2]: key for key in cured if key.startswith("maven/")}
    present += [(by_artifact[name], version) for name, version in java if name in by_artifact]
    return [
        f"{part} {version} has {', '.join(cured[part]['ids'])}: take {cured[part]['from']} or later"
        for part, version in present
        if part in cured and numbers(version) < numbers(str(cured[part]["from"]))
    ]


def check() -> int:
    """Print what is too old; 1 if there is something."""
    if not all(folder.is_dir() for folder in JARS):
        print("parts: the jars are not made yet, so only Python's are looked at", file=sys.stderr)
    complaints = too_old(_advisories()["cured"], locked(LOCK.read_text(encoding="utf-8")), jars(JARS))
    print(*complaints, sep="\n", end="\n" if complaints else "")
    return bool(complaints)


def sbom(folder: Path) -> int:
    """Write the three files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "python.cdx.json").write_text(json.dumps(python_bom(LOCK.read_text(encoding="utf-8")), indent=2) + "\n")
    for name in ("cluster", "spark"):
        command = ["mvn", "-q", "-B", "-f", f"{name}/pom.xml", MAVEN, "-DoutputFormat=json", "-DincludeTestScope=false"]
        subprocess.run([*command, "-DoutputName=bom"], cwd=ROOT, check=True)
        (folder / f"{name}.cdx.json").write_bytes((ROOT / name / "target" / "bom.json").read_bytes())
    print(f"written to {folder}")
    return 0


def python_bom(lock: str) -> dict[str, Any]:
    """What the lock pins, with the hashes that pip holds the files against."""
    components = []
    for entry in re.split(r"\n(?=[a-z0-9])", lock):
        if found := _LOCKED.match(entry):
            name, version = found["name"], found["version"]
            components.append({
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{quote(version)}",
                # One for each file of the release: which is installed depends on the machine.
                "properties": [{"name": "pip:sha256", "value": one} for one in _HASH.findall(entry)],
            })  # fmt: skip
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}


def audit(folder: Path) -> int:
    """Print what is known of the parts and not accepted; 1 if there is something, 2 if nobody could be asked."""
    purls = sorted(purls_in(json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.cdx.json")))
    if not purls:
        print(f"{folder} has no *.cdx.json: make sbom first", file=sys.stderr)
        return 2
    try:
        found = known(purls)
    except (OSError, ValueError, KeyError) as error:
        print(f"{OSV} could not be asked: {error}", file=sys.stderr)
        return 2
    accepted = {key: set(entry["ids"]) for key, entry in _advisories()["accepted"].items()}
    open_ones = [
        f"{purl}: {', '.join(one)}"
        for purl, advisories in found.items()
        for one in advisories
        if not accepted.get(_key(purl), set()) & set(one)
    ]
    print(*open_ones, sep="\n", end="\n" if open_ones else "")
    print(f"{len(purls)} parts, {len(found)} with advisories, {len(open_ones)} open")
    return bool(open_ones)


def purls_in(boms: Iterable[Mapping[str, Any]]) -> set[str]:
    """What the files name, but for our own modules."""
    named = {component["purl"].partition("?")[0] for bom in boms for component in bom["components"]}
    return {purl for purl in named if not purl.startswith("pkg:maven/iot-mqtt.")}


def known(purls: list[str]) -> dict[str, list[list[str]]]:
    """For each part with advisories: the ids of each, its aliases among them."""
    answers: list[dict[str, Any]] = []
    for begin in range(0, len(purls), 500):
        queries = [{"package": {"purl": purl}} for purl in purls[begin : begin + 500]]
        answers += _asked("/v1/querybatch", {"queries": queries})["results"]
    found: dict[str, list[list[str]]] = {}
    for purl, answer in zip(purls, answers, strict=True):
        for advisory in answer.get("vulns", ()):
            whole = _asked(f"/v1/vulns/{quote(advisory['id'])}")
            found.setdefault(purl, []).append([whole["id"], *whole.get("aliases", ())])
    return found


def _asked(path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{OSV}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _key(purl: str) -> str:
    return purl.removeprefix("pkg:").rpartition("@")[0]


def _advisories() -> dict[str, dict[str, dict[str, Any]]]:
    told: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(ADVISORIES.read_text(encoding="utf-8"))
    return told


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["check"]:
            sys.exit(check())
        case ["sbom", folder]:
            sys.exit(sbom(Path(folder)))
        case ["audit", folder]:
            sys.exit(audit(Path(folder)))
    sys.exit(__doc__)
