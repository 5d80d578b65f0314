#!/usr/bin/env python3
"""Lints the chart and writes what Helm makes of its defaults to cluster/helm/rendered.yaml (needs helm).

The tests hold that file against cluster/k8s, without Helm, and its first line against the chart, so that neither is
changed without the other.
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

HELM = Path(__file__).resolve().parent.parent / "cluster" / "helm"
CHART = HELM / "iot-mqtt"
RENDERED = HELM / "rendered.yaml"


def digest() -> str:
    """Of everything that the chart is made of."""
    found = sha256()
    for file in sorted(path for path in CHART.rglob("*") if path.is_file()):
        found.update(f"{file.relative_to(CHART)} {sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def rendered(*options: str) -> str:
    """What Helm makes of it."""
    command = [
        "helm",
        "template",
        "iot-mqtt",
        str(CHART),
        "--namespace",
        "iot-mqtt",
        "--kube-version",
        "1.29.0",
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    subprocess.run(["helm", "lint", "--strict", str(CHART)], check=True)
    RENDERED.write_text(
        f"# By scripts/chart.py, of the chart with the digest {digest()}\n{rendered()}", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
