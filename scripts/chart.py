#!/usr/bin/env python3
"""Lints the chart and writes what Helm makes of its defaults to cluster/helm/rendered.yaml (needs helm).

The tests hold that file against cluster/k8s, without Helm, and its first line against the chart, so that neither is
changed without the other.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "cluster" / "helm" / "iot-mqtt"
RENDERED = ROOT / "cluster" / "helm" / "rendered.yaml"
#: The machine's, or what ``scripts/setup.sh tests`` has brought. None: there is none.
HELM = shutil.which("helm") or shutil.which("helm", path=str(ROOT / ".venv" / "bin"))


def digest() -> str:
    """Of everything that the chart is made of."""
    found = sha256()
    for file in sorted(path for path in CHART.rglob("*") if path.is_file()):
        found.update(f"{file.relative_to(CHART)} {sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def rendered(*options: str) -> str:
    """What Helm makes of it."""
    where = ("--namespace", "iot-mqtt", "--kube-version", "1.29.0")
    return helm("template", "iot-mqtt", str(CHART), *where, *options)


def helm(*words: str) -> str:
    """What it prints; an error if it fails."""
    if HELM is None:
        raise SystemExit("needs helm (scripts/setup.sh tests brings one)")
    return subprocess.run([HELM, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> int:
    helm("lint", "--strict", str(CHART))
    RENDERED.write_text(
        f"# By scripts/chart.py, of the chart with the digest {digest()}\n{rendered()}", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
