"""Builds what is compiled of the package, which is optional; everything else about it is in pyproject.toml.

Two kinds: the native modules, in Cython, with pure-Python twins; and modules of ours that mypyc compiles just as they
are (``iot_mqtt/compiled.txt``). Without Cython, mypy or a C compiler the build goes on without them, and Python does
the same work; ``IOT_MQTT_NATIVE=require`` at run time says what is missing.
"""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

PACKAGE = Path("iot_mqtt")
NAMES = ("_scan", "_lines", "_records", "_syncing", "_connecting", "_rows", "_appending")
#: Types are checked where they are known: by ``make type``, not where only the build's own tools are installed.
OPTIONS = (
    "--follow-imports=silent",
    "--ignore-missing-imports",
    "--allow-subclassing-any",
    "--allow-untyped-decorators",
    "--no-warn-unused-ignores",
)


def extensions() -> list[Extension]:
    """All that can be compiled here."""
    forms = runpy.run_path(str(PACKAGE / "compiled.py"))
    forms["forget"](PACKAGE)
    if not (PACKAGE / "native").exists() or not can_compile():
        return []
    modules = [*native(), *compiled(forms)]
    for module in modules:
        module.optional = True
    return modules


def can_compile() -> bool:
    """Whether there is a C compiler."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        return subprocess.run([command[0], "--version"], capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False


def native() -> list[Extension]:
    """The native modules, if there is a Cython to translate them."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(f"iot_mqtt.native.{name}", [f"iot_mqtt/native/{name}.pyx"], extra_compile_args=["-O3"])
        for name in NAMES
    ]
    built: list[Extension] = cythonize(modules, build_dir="build/cython")  # type: ignore[no-untyped-call]
    return built


def compiled(forms: dict[str, Any]) -> list[Extension]:
    """The listed modules, in one library, if there is a mypyc."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    sources: list[Path] = forms["listed"](PACKAGE)
    library = f"{PACKAGE}.{forms['LIBRARY']}"
    try:
        built: list[Extension] = mypycify(
            [*OPTIONS, *map(str, sources)], opt_level="2", debug_level="0", target_dir="build/mypyc", group_name=library
        )
    except SystemExit as stopped:
        # It has said why. Where types differ, with another Twisted perhaps, this is no reason not to install.
        print(f"setup.py: nothing of ours is compiled: {stopped}", file=sys.stderr)  # noqa: T201
        return []
    forms["note"](PACKAGE, sources)
    return built


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
