"""Which form of the modules that mypyc compiles is imported, and that they keep to what compiled code believes."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import iot_mqtt
from iot_mqtt import compiled
from iot_mqtt.compiled import DIGESTS, LIBRARY, LIST, Choice, forget, listed, noted

PACKAGE = Path(iot_mqtt.__file__).parent
#: How a test says that it replaces methods.
MARK = "pytest.mark.interpreted"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a module that was compiled, and one that it takes a constant from."""
    package = tmp_path / "iot_mqtt"
    package.mkdir()
    (package / "one.py").write_text("from iot_mqtt.other import LIMIT\n")
    (package / "other.py").write_text("LIMIT = 1\n")
    (package / LIST).write_text("# Why.\n\niot_mqtt/one.py   because\n")
    (package / DIGESTS).write_text(noted(package, listed(package)))
    (package / f"{LIBRARY}__mypyc{EXTENSION_SUFFIXES[0]}").touch()
    return package


def test_what_was_compiled_is_used(package: Path) -> None:
    """This finder leaves it to the usual ones, which prefer it."""
    choice = Choice(package, off=False)
    assert choice.use
    assert choice.find_spec("iot_mqtt.one") is None
    assert choice.find_spec("iot_mqtt.other") is None


@pytest.mark.parametrize("edited", ["one.py", "other.py"])
def test_an_edit_is_never_without_effect(package: Path, edited: str) -> None:
    """Of a module itself, or of one whose constants are compiled into it: all of them are Python then."""
    (package / edited).write_text("LIMIT = 2\n")
    choice = Choice(package, off=False)
    assert not choice.use
    spec = choice.find_spec("iot_mqtt.one")
    assert spec is not None
    assert spec.origin == str(package / "one.py")
    assert choice.find_spec("iot_mqtt.other") is None


def test_python_it_is_if_asked_for_or_if_nothing_was_built(package: Path) -> None:
    """By the switch; without the library; without anything."""
    assert not Choice(package, off=True).use
    next(package.glob("*.so")).unlink()
    assert not Choice(package, off=False).use
    forget(package)
    assert not (package / DIGESTS).exists()
    assert not Choice(package, off=False).use


def test_a_build_that_ends_meanwhile_is_for_the_next_process(package: Path) -> None:
    """What began as Python stays it, in modules that are imported later, too."""
    digests = (package / DIGESTS).read_text()
    (package / DIGESTS).unlink()
    choice = Choice(package, off=False)
    (package / DIGESTS).write_text(digests)
    spec = choice.find_spec("iot_mqtt.one")
    assert spec is not None
    assert spec.origin == str(package / "one.py")
    assert Choice(package, off=False).find_spec("iot_mqtt.one") is None


@pytest.mark.compiled
def test_off_and_require_mean_these_modules_too() -> None:
    """In processes of their own, where the switch is read."""
    code = "import iot_mqtt.broker.turn as turn; print(turn.__file__)"

    def asked(setting: str) -> str:
        environment = {**os.environ, compiled.SWITCH: setting}
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert asked("off").endswith("/turn.py")
    assert asked("require").endswith(".so")


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Those of all modules that are compiled."""
    for source in listed(PACKAGE):
        for node in ast.walk(ast.parse(source.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield source, node


def forgotten(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Attributes that a function sets to None and looks at again after it has called something."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.stmt)]
    calls = [node.lineno for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is None):
            continue
        for target in node.targets:
            name = ast.unparse(target)
            for other in nodes:
                if not (isinstance(other, ast.Attribute) and isinstance(other.ctx, ast.Load)):
                    continue
                if ast.unparse(other) == name and any(node.lineno < line <= other.lineno for line in calls):
                    yield f"{name} in line {other.lineno}"


def test_no_attribute_is_believed_to_be_none_still_after_a_call() -> None:
    """mypy believes so, and compiled code then raises for what the call has put there."""
    found = [f"{source.name}: {place}" for source, function in functions() for place in forgotten(function)]
    assert not found
    wrong = ast.parse("def f(self):\n    self.x = None\n    self.g()\n    return self.x").body[0]
    assert isinstance(wrong, ast.FunctionDef)
    assert list(forgotten(wrong)) == ["self.x in line 4"]


def test_what_replaces_compiled_methods_holds_in_python() -> None:
    """Tests that are left out where they would replace nothing."""
    files = [path for path in Path(__file__).parent.rglob("test_*.py") if MARK in path.read_text(encoding="utf-8")]
    files.remove(Path(__file__))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "interpreted", *map(str, files)]
    environment = {**os.environ, "IOT_MQTT_NATIVE": "off"}
    done = subprocess.run(command, cwd=PACKAGE.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout and "skipped" not in done.stdout


def test_no_dataclass_has_another_one_as_its_base() -> None:
    """mypyc's code for the garbage collector would visit what the base has twice, and nothing that refers to such an
    object in a circle was ever collected.
    """
    for source in listed(PACKAGE):
        module = importlib.import_module(".".join(source.relative_to(PACKAGE.parent).with_suffix("").parts))
        for found in vars(module).values():
            if isinstance(found, type) and found.__module__ == module.__name__ and is_dataclass(found):
                assert not [base for base in found.__mro__[1:] if is_dataclass(base)], found
