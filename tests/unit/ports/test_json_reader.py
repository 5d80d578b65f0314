"""JSON from outside: what is read, and what is too deep for anybody behind."""

from __future__ import annotations

import pytest

from iot_mqtt.ports.json_reader import MAX_DEPTH, read_json

DEEPER = (MAX_DEPTH + 1, 256, 257, 965, 975, 100_000)


def nested(depth: int) -> bytes:
    """Lists within one another."""
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    "text", [b'{"a": [1, 2.5, null, "\xc3\xa9"]}', b"7", b'\xef\xbb\xbf{"a": 1}', nested(MAX_DEPTH)]
)
def test_json_is_read(text: bytes) -> None:
    """As it is, also behind the mark that some editors write first."""
    assert read_json(text) is not None


def test_many_brackets_beside_one_another_are_not_deep() -> None:
    """The levels count."""
    assert read_json(b"[" + b"[]," * 5000 + b"[]]") == [[]] * 5001


@pytest.mark.parametrize("text", [b"", b"no", b"\xff", b"NaN", b'{"a": Infinity}', b"[" * 20])
def test_what_is_no_json_is_said_to_be_none(text: bytes) -> None:
    """Also what Python would read and nobody else."""
    with pytest.raises(ValueError, match="is not JSON"):
        read_json(text)


def test_an_integer_that_python_does_not_read_is_said_to_be_one() -> None:
    """It is JSON all the same."""
    with pytest.raises(ValueError, match="holds a number with more than 4300 digits"):
        read_json(b"1" * 5000)


@pytest.mark.parametrize("text", [b'{"a": 1, "a": 1}', b'[{"b": {"a": 1, "\\u0061": null}}]'])
def test_a_name_that_stands_twice_is_refused_where_each_may_stand_once(text: bytes) -> None:
    """Else the last one counts."""
    with pytest.raises(ValueError, match="holds the name 'a' twice"):
        read_json(text, once=True)
    assert read_json(text)


@pytest.mark.parametrize("text", [b"1e999", b'{"a": [-2.5E+400]}', b"1" * 400 + b".5"])
def test_a_number_that_would_be_written_as_infinity_is_refused(text: bytes) -> None:
    """Whoever reads it further on could read none of the rest."""
    with pytest.raises(ValueError, match="holds a number that is too large"):
        read_json(text)


@pytest.mark.parametrize("depth", DEEPER)
@pytest.mark.parametrize("levels", ["[]", '{"a":}'])
def test_what_is_deeper_is_refused(depth: int, levels: str) -> None:
    """Whether the decoder could read it or not."""
    with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} levels deep"):
        read_json((levels[:-1] * depth + "1" + levels[-1] * depth).encode())
