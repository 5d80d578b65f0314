"""Values that are made of other values field by field, where a name means the same on both sides."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Value = TypeVar("Value", bound=DataclassInstance)


def made_of(cls: type[Value], *sources: object, **rest: Any) -> Value:
    """A value of the class: each field as ``rest`` says, else as the first source that has an attribute of its name.

    What no source has keeps its default; a field without one is a ``TypeError``.
    """
    for field in fields(cls):
        for source in sources if field.name not in rest else ():
            if hasattr(source, field.name):
                rest[field.name] = getattr(source, field.name)
                break
    return cls(**rest)
