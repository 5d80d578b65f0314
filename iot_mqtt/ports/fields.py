"""Values that are made of other values field by field, where a name means the same on both sides, and settings that
change for all who hold them.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Value = TypeVar("Value", bound=DataclassInstance)


def made_of(cls: type[Value], *sources: object, **rest: Any) -> Value:
    """A value of the class: each field as ``rest`` says, else as the source that has an attribute of its name.

    What no source has keeps its default. ``TypeError``: a field has none, or two sources have the name.
    """
    for name in [field.name for field in fields(cls) if field.name not in rest]:
        found = [getattr(source, name) for source in sources if hasattr(source, name)]
        if len(found) > 1:
            raise TypeError(f"{name} of {cls.__name__} is an attribute of more than one source")
        if found:
            rest[name] = found[0]
    return cls(**rest)


def renew(settings: Value, now: Value) -> None:
    """Have frozen settings say from now on what others of their class say.

    Settings are given to the parts of a node once, and each part looks up what it needs when it needs it. What may
    change while a node runs changes here and nowhere else, in the reactor's thread; to everybody else they are frozen.
    """
    assert type(settings) is type(now)
    for field in fields(settings):
        object.__setattr__(settings, field.name, getattr(now, field.name))
