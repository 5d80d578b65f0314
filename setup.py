"""Builds what is compiled of the package, which is optional; everything else about it is in pyproject.toml.

Two kinds: the native modules, in Cython, with pure-Python twins; and modules of ours that mypyc compiles just as they
are (``iot_mqtt/compiled.txt``). Without Cython, mypy or a C compiler the build goes on without them, and Python does
the same work; ``IOT_MQTT_NATIVE=require`` at run time says what is missing. With ``IOT_MQTT_BUILD=python`` it is not
tried: what is installed then is there within seconds, or for any platform. With ``require`` the build fails where
something cannot be compiled, as is right for what others will install.

What was compiled is used when the file of digests says so, which is written last: a process that starts meanwhile runs
Python. A build in place first takes away what was built before; any other, of a wheel, leaves the checkout as it is.
"""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = Path("iot_mqtt")
#: ``iot_mqtt.native`` says at run time which of them have to be there.
NAMES = sorted(source.stem for source in (PACKAGE / "native").glob("*.pyx"))
#: Types are checked where they are known: by ``make type``, not where only the build's own tools are installed.
OPTIONS = (
    "--follow-imports=silent",
    "--ignore-missing-imports",
    "--allow-subclassing-any",
    "--allow-untyped-decorators",
    "--no-warn-unused-ignores",
)
#: What a wheel brings beside Python, for ``iot-mqtt cluster`` and ``pipeline``, which find it in a checkout, too.
SHIPPED = (
    *("cluster/pom.xml", "cluster/config", "cluster/engines", "cluster/gateway/pom.xml", "cluster/gateway/src/main"),
    *("spark/pom.xml", "spark/jobs", "spark/iot_spark"),
)
FORMS = runpy.run_path(str(PACKAGE / "compiled.py"))
#: Nothing of where it was built: the same source gives the same files anywhere. And no look at how mypyc indents: for
#: it gcc goes through its file of 500,000 lines again and again, which takes as long as all else that it does.
FLAGS = ("-g0", f"-ffile-prefix-map={Path.cwd()}=.", "-Wno-misleading-indentation")


class Collect(build_py):  # type: ignore[misc]
    """Takes up the package, and, unless it is to stay where it is, what is shipped with it."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        shipped = Path(self.build_lib) / PACKAGE / "shipped"
        shutil.rmtree(shipped, ignore_errors=True)
        for source in map(Path, SHIPPED):
            copy = shipped / source
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("target", "__pycache__"))
            else:
                shutil.copy2(source, copy)


class Build(build_ext):  # type: ignore[misc]
    """Compiles, and then says what of."""

    #: What is to be written of it.
    digests = ""

    def run(self) -> None:
        if self.inplace:
            FORMS["forget"](PACKAGE)
        super().run()
        # With nothing to compile, or all of it failed, there is no library, and the digests are not used.
        folder = PACKAGE if self.inplace else Path(self.build_lib) / PACKAGE
        if self.digests and folder.is_dir():
            (folder / FORMS["DIGESTS"]).write_text(self.digests, encoding="utf-8")


def extensions() -> list[Extension]:
    """All that can be compiled here; what is translated first is not for a source distribution."""
    wanted = os.environ.get("IOT_MQTT_BUILD")
    if "sdist" in sys.argv or wanted == "python":
        return []
    modules = [*native(), *compiled()] if can_compile() else []
    if wanted == "require" and not (Build.digests and len(modules) > len(NAMES)):
        raise SystemExit("setup.py: IOT_MQTT_BUILD=require, but not everything can be compiled here")
    for module in modules:
        module.optional = wanted != "require"
        module.extra_compile_args = [*module.extra_compile_args, *FLAGS]
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


def compiled() -> list[Extension]:
    """The listed modules, in one library, if there is a mypyc."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    sources: list[Path] = FORMS["listed"](PACKAGE)
    library = f"{PACKAGE}.{FORMS['LIBRARY']}"
    try:
        built: list[Extension] = mypycify(
            [*OPTIONS, *map(str, sources)], opt_level="2", debug_level="0", target_dir="build/mypyc", group_name=library
        )
    except SystemExit as stopped:
        # It has said why. Where types differ, with another Twisted perhaps, this is no reason not to install.
        print(f"setup.py: nothing of ours is compiled: {stopped}", file=sys.stderr)  # noqa: T201
        return []
    Build.digests = FORMS["noted"](PACKAGE, sources)
    return built


setup(
    ext_modules=extensions(),
    cmdclass={"build_py": Collect, "build_ext": Build},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
