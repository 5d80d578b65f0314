"""The pictures of docs/framing.md are true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from iot_mqtt.framing import framing_from
from tests.cases.framing import in_every_way

PAGE = Path(__file__).resolve().parents[3] / "docs" / "framing.md"
FENCE = re.compile(r"^```(yaml|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def pictures() -> list[tuple[str, str]]:
    """Each picture with the declaration above it."""
    found = []
    declaration = ""
    for kind, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "yaml":
            declaration = text
        elif "→" in text:
            found.append((declaration, text))
    return found


@pytest.mark.parametrize(("declaration", "picture"), pictures())
def test_a_documented_declaration_does_what_its_picture_shows(declaration: str, picture: str) -> None:
    """Bytes in hexadecimal, frames behind the arrow; a dash is an empty one."""
    wire, frames = picture.split("→")
    expected = [bytes.fromhex(frame.replace("-", "")) for frame in frames.split("|")]
    outcome = in_every_way(framing_from(yaml.safe_load(declaration)), bytes.fromhex(wire))
    assert (outcome.frames, outcome.reason) == (expected, "")


def test_every_declaration_has_its_picture() -> None:
    """None is there unproven, and the page is still read as it was meant to be."""
    text = PAGE.read_text(encoding="utf-8")
    assert {declaration for declaration, _ in pictures()} == {
        block for kind, block in FENCE.findall(text) if kind == "yaml"
    }
    assert len(pictures()) >= 8
