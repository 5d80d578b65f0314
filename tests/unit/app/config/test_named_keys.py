"""Messages that name a key of the configuration: whoever follows one finds the key."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from iot_mqtt.app.config.schema import find
from iot_mqtt.app.config.secret_files import secret_behind
from iot_mqtt.app.config.sections import Config, known_listeners

PACKAGE = Path(__file__).parents[4] / "iot_mqtt"
SECTIONS = "|".join(field.name for field in dataclasses.fields(Config))
KEY = re.compile(rf"(?<![\w./:-])(?:{SECTIONS})(?:\.[a-z_0-9]+)+(?![\w(/*<{{-])")
#: Files that are named as keys are.
FILES = {"admin.token"}


def sentences(source: str) -> Iterator[str]:
    """Text with words in it that is no docstring: what people may read in a log or in an error."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from [node.value] if " " in node.value else []


def test_messages_name_keys_that_exist() -> None:
    """In every module."""
    listeners = known_listeners()
    named = {
        (key, path.name)
        for path in PACKAGE.rglob("*.py")
        if KEY.search(source := path.read_text())
        for sentence in sentences(source)
        for key in KEY.findall(sentence)
        if key not in FILES
    }
    assert ("grid.ignite.addresses", "grid.py") in named
    assert sorted(one for one in named if find(secret_behind(one[0]) or one[0], listeners) is None) == []
