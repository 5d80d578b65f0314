"""Declarations: what makes no sense is said in words, and plain data becomes a declaration and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from iot_mqtt.framing import (
    BadFraming,
    Checksum,
    Delimiter,
    Fixed,
    Framing,
    LengthField,
    Line,
    check,
    framer_of,
    framing_from,
    framing_to,
)

GOOD: dict[str, Framing] = {
    "length field": LengthField(offset=0, width=2),
    "length field with all": LengthField(
        offset=2,
        width=3,
        adjustment=-5,
        strip=5,
        order="little",
        fail_fast=False,
        max_frame=4096,
        magic=b"\x68\xff",
        checksum=Checksum("crc16-modbus", order="little", start=1, strip=False, trailer=1),
        resync="skip",
    ),
    "delimiter": Delimiter(delimiters=(b"\r\n", b"\n", b"\0")),
    "delimiter, skipping": Delimiter(delimiters=(b"~",), strip=False, resync="skip"),
    "line": Line(max_frame=120, magic=b"$GP"),
    "fixed": Fixed(size=8, checksum=Checksum("crc32")),
}


@pytest.mark.parametrize("framing", GOOD.values(), ids=GOOD)
def test_a_declaration_survives_being_data(framing: Framing) -> None:
    """In JSON and in YAML; and can be used."""
    assert check(framing) == []
    assert framing_from(json.loads(json.dumps(framing_to(framing)))) == framing
    assert framing_from(yaml.safe_load(yaml.safe_dump(framing_to(framing)))) == framing
    assert framer_of(framing).feed(b"") == []


def test_a_declaration_as_people_write_it() -> None:
    """Text or hexadecimal, and a checksum by its kind alone."""
    written = """
    kind: length_field
    magic: "0xCA fe"
    offset: 2
    width: 2
    checksum: crc32
    """
    assert framing_from(yaml.safe_load(written)) == LengthField(
        magic=b"\xca\xfe", offset=2, width=2, checksum=Checksum("crc32")
    )
    written = r"""
    kind: delimiter
    delimiters: ["\r\n", "0x00", "é"]
    magic: "$"
    checksum: null
    """
    assert framing_from(yaml.safe_load(written)) == Delimiter(delimiters=(b"\r\n", b"\0", b"\xc3\xa9"), magic=b"$")


LENGTH = {"kind": "length_field", "offset": 0, "width": 2}
REFUSED: dict[str, tuple[Any, list[str]]] = {
    "no mapping": ("line", ["a framing has keys, such as kind; this is 'line'"]),
    "no kind": ({}, ["kind must be one of length_field, delimiter, line, fixed"]),
    "a kind that is none": (
        {"kind": "length-field"},
        ["kind must be one of length_field, delimiter, line, fixed, not 'length-field'; did you mean length_field?"],
    ),
    "a kind that cannot be one": (
        {"kind": ["line"]},
        ["kind must be one of length_field, delimiter, line, fixed, not ['line']"],
    ),
    "a key with a slip": (
        LENGTH | {"adjustmnet": 1},
        ["unknown key adjustmnet of kind length_field; did you mean adjustment?"],
    ),
    "a key of Netty's": (
        LENGTH | {"initialBytesToStrip": 1},
        ["unknown key initialBytesToStrip of kind length_field; did you mean strip?"],
    ),
    "a key of another kind": (
        {"kind": "line", "delimiters": ["\n"]},
        ["unknown key delimiters of kind line; there are kind, max_frame, magic, checksum, resync, max_skipped"],
    ),
    "a key that is no text": (
        {"kind": "line", 7: 7},
        ["unknown key 7 of kind line; there are kind, max_frame, magic, checksum, resync, max_skipped"],
    ),
    "missing keys": ({"kind": "length_field"}, ["offset must be given", "width must be given"]),
    "several things at once": (
        {"kind": "fixed", "sizes": 4, "magic": 104},
        [
            "unknown key sizes of kind fixed; did you mean size?",
            "size must be given",
            "magic must be text: write it in quotes, such as '0x68'",
        ],
    ),
    "text for a number": (LENGTH | {"offset": "1"}, ["offset must be a whole number, not '1'"]),
    "true for a number": (LENGTH | {"max_frame": True}, ["max_frame must be a whole number, not True"]),
    "true for a width": (LENGTH | {"width": True}, ["width must be one of 1, 2, 3, 4, 8, not True"]),
    "a number for true": (LENGTH | {"fail_fast": 1}, ["fail_fast must be true or false, not 1"]),
    "a width that is none": (LENGTH | {"width": 5}, ["width must be one of 1, 2, 3, 4, 8, not 5"]),
    "strip is a number here": (LENGTH | {"strip": True}, ["strip must be a whole number, not True"]),
    "strip is true or false here": (
        {"kind": "delimiter", "delimiters": [";"], "strip": 1},
        ["strip must be true or false, not 1"],
    ),
    "one digit": (LENGTH | {"magic": "0x6"}, ["magic is no hexadecimal: '0x6' (two digits for each byte)"]),
    "half a character": ({"kind": "line", "magic": "\ud800"}, ["magic is no text: '\\ud800'"]),
    "magic that is a list": (
        LENGTH | {"magic": [1]},
        ["magic must be text, or hexadecimal such as '0x0d0a', not [1]"],
    ),
    "delimiters that are text": (
        {"kind": "delimiter", "delimiters": ";"},
        ["delimiters must be a list, such as [\"0x0d0a\"], not ';'"],
    ),
    "no delimiters": (
        {"kind": "delimiter", "delimiters": []},
        ["delimiters must be one or more delimiters, not ()"],
    ),
    "a limit of nothing": (LENGTH | {"max_skipped": 0}, ["max_skipped is 0; it may be 1 to 268435456"]),
    "a resync that is none": (LENGTH | {"resync": "retry"}, ["resync must be one of close, skip, not 'retry'"]),
    "a checksum that is none": (
        LENGTH | {"checksum": "crc16"},
        [
            "checksum.kind must be one of sum8, xor8, crc8, crc16-modbus, crc16-ccitt, crc32, not 'crc16'",
        ],
    ),
    "a checksum with a slip": (
        LENGTH | {"checksum": {"kind": "crc8", "begin": 1, "striped": True}},
        [
            "unknown key checksum.begin of a checksum; there are kind, order, start, strip, trailer",
            "unknown key checksum.striped of a checksum; did you mean checksum.strip?",
        ],
    ),
    "a checksum without a kind": (LENGTH | {"checksum": {}}, ["checksum.kind must be given"]),
    "a checksum that is a number": (
        LENGTH | {"checksum": 16},
        ["checksum must be a kind, such as crc32, or keys, such as kind; not 16"],
    ),
}


@pytest.mark.parametrize(("data", "problems"), REFUSED.values(), ids=REFUSED)
def test_data_that_is_no_declaration_is_told_by_key(data: Any, problems: list[str]) -> None:
    """All that is wrong at once, and what was probably meant."""
    with pytest.raises(BadFraming) as caught:
        framing_from(data)
    assert list(caught.value.problems) == problems
    assert str(caught.value) == "; ".join(problems)


RTU = Checksum("crc16-modbus")
SENSELESS: dict[str, tuple[Any, list[str]]] = {
    "no framing": (b"\n", ["bytes is no framing; there are LengthField, Delimiter, Line and Fixed"]),
    "a class instead of an object": (Line, ["type is no framing; there are LengthField, Delimiter, Line and Fixed"]),
    "types from Python": (
        LengthField(offset=0.5, width=2, magic="h"),  # type: ignore[arg-type]
        ["magic must be bytes, not 'h'", "offset must be a whole number, not 0.5"],
    ),
    "no checksum": (Fixed(size=4, checksum="crc8"), ["checksum must be a checksum or nothing, not 'crc8'"]),  # type: ignore[arg-type]
    "no limit": (Line(max_frame=0), ["max_frame is 0; it may be 1 to 268435456"]),
    "a limit of a terabyte": (Line(max_frame=1 << 40), ["max_frame is 1099511627776; it may be 1 to 268435456"]),
    "all magic": (Line(max_frame=2, magic=b"$G"), ["max_frame is 2; the magic alone has 2 bytes"]),
    "offset negative": (LengthField(offset=-1, width=2), ["offset is -1; it may not be negative"]),
    "offset in the magic": (
        LengthField(offset=1, width=2, magic=b"\xca\xfe"),
        ["offset is 1, inside the magic of 2 bytes"],
    ),
    "header behind the limit": (
        LengthField(offset=7, width=2, max_frame=8),
        ["max_frame is 8; the length field ends at 9"],
    ),
    "strip negative": (LengthField(offset=0, width=2, strip=-1), ["strip is -1; it may not be negative"]),
    "strip beyond the header": (
        LengthField(offset=1, width=2, adjustment=1, strip=5),
        ["strip is 5; the header has 4 bytes, and a frame may have no more"],
    ),
    "adjustment that nothing makes up for": (
        LengthField(offset=0, width=1, adjustment=-256),
        ["adjustment is -256: no length of 1 bytes makes up for it"],
    ),
    "adjustment beyond the limit": (
        LengthField(offset=0, width=1, adjustment=64, max_frame=64),
        ["adjustment is 64: every frame is longer than max_frame, 64"],
    ),
    "skipping to no magic": (
        LengthField(offset=0, width=2, resync="skip"),
        ["resync is skip, but there is no magic to look for behind a bad frame"],
    ),
    "skipping to no magic, fixed": (
        Fixed(size=4, resync="skip"),
        ["resync is skip, but there is no magic to look for behind a bad frame"],
    ),
    "no size": (Fixed(size=0), ["size is 0; it must be 1 or more"]),
    "a size above the limit": (Fixed(size=9, max_frame=8), ["size is 9; max_frame is 8"]),
    "a size that is all magic": (Fixed(size=1, magic=b"ab"), ["size is 1; the magic has 2 bytes"]),
    "a size without room": (
        Fixed(size=3, checksum=Checksum("crc16-modbus", start=2)),
        ["size is 3; a frame with this checksum has 4 bytes at least"],
    ),
    "a limit without room": (
        Delimiter(delimiters=(b";",), max_frame=3, checksum=Checksum("crc32")),
        ["max_frame is 3; a frame with this checksum has 4 bytes at least"],
    ),
    "a checksum that begins before the frame": (
        Fixed(size=8, checksum=Checksum("crc8", start=-1, trailer=-1)),
        ["checksum.start is -1; it may not be negative", "checksum.trailer is -1; it may not be negative"],
    ),
    "an empty delimiter": (Delimiter(delimiters=(b";", b"")), ["delimiters: an empty one is everywhere"]),
    "a delimiter twice": (Delimiter(delimiters=(b";", b";")), ["delimiters: 3b is there twice"]),
    "a delimiter that another hides": (
        Delimiter(delimiters=(b"\r", b"\r\n")),
        ["delimiters: 0d 0a never ends a frame, because 0d is there before"],
    ),
    "a delimiter in the magic": (
        Delimiter(delimiters=(b"~",), magic=b"~A"),
        ["delimiters: 7e is in the magic, so that no frame could begin"],
    ),
    "a delimiter as long as the limit": (
        Delimiter(delimiters=(b"\r\n",), max_frame=2),
        ["delimiters: 0d 0a is as long as max_frame, 2"],
    ),
}


@pytest.mark.parametrize(("framing", "problems"), SENSELESS.values(), ids=SENSELESS)
def test_a_declaration_that_makes_no_sense_is_explained(framing: Any, problems: list[str]) -> None:
    """And no framer is made of it."""
    assert check(framing) == problems
    with pytest.raises(BadFraming) as caught:
        framer_of(framing)
    assert list(caught.value.problems) == problems
