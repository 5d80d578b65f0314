"""Builds the optional native modules; everything else about the package is in pyproject.toml.

Without Cython they are not asked for, and without a compiler the build goes on without them. The
pure-Python twins then do the same work, and ``IOT_MQTT_NATIVE=require`` at run time says what is missing.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

FOLDER = Path("iot_mqtt/native")
NAMES = ("_scan", "_lines", "_records", "_syncing", "_connecting", "_rows", "_appending")


def extensions() -> list[Extension]:
    """The native modules, if there is a Cython to translate them."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    if not FOLDER.exists():
        return []
    native = [
        Extension(f"iot_mqtt.native.{name}", [str(FOLDER / f"{name}.pyx")], extra_compile_args=["-O3"])
        for name in NAMES
    ]
    built: list[Extension] = cythonize(native, build_dir="build/cython")  # type: ignore[no-untyped-call]
    for extension in built:
        # Set here, because cythonize does not carry it over.
        extension.optional = True
    return built


setup(ext_modules=extensions())
