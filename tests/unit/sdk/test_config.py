"""A codec's configuration: what is taken, what is refused, and in which words."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from iot_mqtt.sdk import NoConfig
from iot_mqtt.sdk.config import BadConfig, config_from, described


class Parity(enum.Enum):
    """Of a serial line."""

    NONE = "none"
    EVEN = "even"


@dataclass(frozen=True, slots=True)
class Register:
    """A nested one."""

    address: int
    scale: float = 1.0


@dataclass(frozen=True)
class Sample:
    """One field of each type."""

    host: str
    port: int = 502
    factor: float = 1.0
    on: bool = False
    unit: Literal["kg", "g"] = "kg"
    size: Literal[1, 2] = 1
    parity: Parity = Parity.NONE
    comment: str | None = None
    names: tuple[str, ...] = ()
    pair: tuple[int, str] = (0, "")
    lists: list[int] = field(default_factory=list)
    registers: dict[str, Register] = field(default_factory=dict)
    first: Register = Register(0)
    either: int | str = 0
    whatever: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.port == 666:
            raise ValueError("port 666 is not for us")


def lines(mapping: dict[Any, object]) -> list[str]:
    """The complaints about this, with the key that is required."""
    with pytest.raises(BadConfig) as bad:
        config_from(Sample, {"host": "h", **mapping})
    return list(bad.value.lines)


def test_all_types_are_read() -> None:
    """From what YAML makes of a file."""
    told = {
        "host": "h", "port": 1, "factor": 2, "on": True, "unit": "g", "size": 2, "parity": "even", "comment": None,
        "names": ["a", "b"], "pair": [1, "x"], "lists": [1], "registers": {"t": {"address": 4, "scale": 0.1}},
        "first": {"address": 9}, "either": "x", "whatever": {"a": [1]},
    }  # fmt: skip
    registers = {"t": Register(4, 0.1)}
    assert config_from(Sample, told) == Sample(
        "h", 1, 2.0, True, "g", 2, Parity.EVEN, None, ("a", "b"), (1, "x"), [1], registers, Register(9), "x", {"a": [1]}
    )  # fmt: skip
    assert isinstance(config_from(Sample, told).factor, float)
    assert config_from(NoConfig, None) == NoConfig()


@pytest.mark.parametrize(
    ("mapping", "line"),
    [
        ({"prot": 1}, "prot: there is no such key; did you mean port?"),
        ({"zzz": 1}, "zzz: there is no such key; known are host, port"),
        ({7: 1}, "7: there is no such key"),
        ({"port": "1"}, "port: must be a whole number, not '1'"),
        ({"port": True}, "port: must be a whole number, not true"),
        ({"port": 1.5}, "port: must be a whole number, not 1.5"),
        ({"factor": float("nan")}, "factor: must be a number, not nan"),
        ({"on": 1}, "on: must be true or false, not 1"),
        ({"host": None}, "host: must be a text, not null"),
        ({"unit": "kgs"}, "unit: must be one of kg, g, not 'kgs'; did you mean kg?"),
        ({"size": True}, "size: must be one of 1, 2, not true"),
        ({"size": "1"}, "size: must be one of 1, 2, not '1'"),
        ({"parity": "odd"}, "parity: must be one of none, even, not 'odd'"),
        ({"comment": 1}, "comment: must be a text, not 1"),
        ({"names": "a"}, "names: must be a list, not 'a'"),
        ({"names": ["a", 1]}, "names[1]: must be a text, not 1"),
        ({"pair": [1]}, "pair: must be a list of 2 things, not of 1"),
        ({"registers": [1]}, "registers: must be a mapping, not a list"),
        ({"registers": {"t": {"addr": 1}}}, "registers.t.addr: there is no such key; did you mean"),
        ({"registers": {"t": {}}}, "registers.t.address: is required (a whole number)"),
        ({"registers": {1: {"address": 1}}}, "registers: the key 1: must be a text, not 1"),
        ({"first": 5}, "first: must be a mapping, not 5"),
        ({"either": 1.5}, "either: must be a whole number or a text, not 1.5"),
        ({"port": 666}, "port 666 is not for us"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_path_of_its_key(mapping: dict[Any, object], line: str) -> None:
    """One line for each, and what would be right."""
    assert any(line in one for one in lines(mapping))


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """Not the first thing only; and a thousand mistakes make no thousand lines."""
    assert len(lines({"port": "x", "on": 3, "unit": "t"})) == 3
    many = lines({f"k{number}": 1 for number in range(1000)})
    assert (len(many), many[-1]) == (51, "… and 950 more")


def test_a_field_without_a_default_is_required() -> None:
    """And so is a mapping at all."""
    with pytest.raises(BadConfig, match=r"^host: is required \(a text\)$"):
        config_from(Sample, {})
    with pytest.raises(BadConfig, match="must be a mapping, not 'text'"):
        config_from(Sample, "text")  # type: ignore[arg-type]


def test_the_keys_can_be_listed() -> None:
    """For documentation: key, type, default."""
    told = {key: (kind, default) for key, kind, default in described(Sample)}
    assert told["host"] == ("a text", "required")
    assert told["port"] == ("a whole number", "502")
    assert told["first.address"] == ("a whole number", "required")
