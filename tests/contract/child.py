"""Runs ``main`` of a module of these tests in a process of its own: ``python child.py MODULE ARGUMENT...``.

Not ``python -m``: an installed package (gmqtt's) brings a ``tests`` of its own, which would be found first.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs ``module.main(*arguments)``."""
    return [sys.executable, __file__, module, *arguments]


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    tests = ModuleType("tests")
    tests.__path__ = [str(ROOT / "tests")]
    sys.modules["tests"] = tests
    importlib.import_module(sys.argv[1]).main(*sys.argv[2:])
