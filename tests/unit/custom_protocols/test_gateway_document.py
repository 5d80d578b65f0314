"""The byte pictures of docs/gateway-protocol.md are what the code writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases.gateway import documented

DOCUMENT = Path(__file__).parents[3] / "docs" / "gateway-protocol.md"
BLOCK = re.compile(r"^```hex ([a-z ]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What a line begins with: bytes, up to two spaces or its end.
BYTES = re.compile(r"^((?:[0-9a-f]{2} ?)+)(?: |$)", re.MULTILINE)
PICTURES = {
    name: bytes.fromhex("".join(BYTES.findall(lines)))
    for name, lines in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("name", sorted(documented()))
def test_a_picture_is_what_the_code_writes(name: str) -> None:
    """Byte for byte."""
    assert PICTURES[name].hex(" ") == documented()[name].hex(" ")


def test_every_picture_is_checked() -> None:
    """And every frame has one."""
    assert PICTURES.keys() == documented().keys()
