"""Values that are made of others with the same names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from iot_mqtt.ports.fields import made_of


@dataclass(frozen=True, slots=True)
class Shown:
    """What is made."""

    name: str
    size: int
    note: str = "none"


class Named:
    """It has one of the fields, and something else."""

    name = "a"
    other = 1


class Sized:
    """It has another one."""

    size = 3


def test_fields_come_from_whoever_has_them() -> None:
    """What is said wins, and what nobody has keeps its default."""
    assert made_of(Shown, Named(), Sized()) == Shown("a", 3)
    assert made_of(Shown, Named(), size=4, note="so") == Shown("a", 4, "so")


def test_what_is_missing_or_not_clear_is_a_mistake() -> None:
    """Whoever renames a field of one of them hears of it."""
    with pytest.raises(TypeError, match="size"):
        made_of(Shown, Named())
    with pytest.raises(TypeError, match="name of Shown is an attribute of more than one source"):
        made_of(Shown, Named(), Named(), Sized())
    assert made_of(Shown, Named(), Named(), Sized(), name="b").name == "b"
