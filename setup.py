"""Builds the optional native scanner; everything else about the package is in pyproject.toml.

Without Cython the extension is not asked for, and without a compiler the build goes on without it. The
pure-Python twin then does the same work, and ``IOT_MQTT_NATIVE=require`` at run time says what is missing.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("iot_mqtt/native/_scan.pyx")


def extensions() -> list[Extension]:
    """The native scanner, if there is a Cython to translate it."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    if not SOURCE.exists():
        return []
    native = Extension("iot_mqtt.native._scan", [str(SOURCE)], extra_compile_args=["-O3"])
    built: list[Extension] = cythonize([native], build_dir="build/cython")  # type: ignore[no-untyped-call]
    for extension in built:
        # Set here, because cythonize does not carry it over.
        extension.optional = True
    return built


setup(ext_modules=extensions())
