"""What a codec's values are: names, types, units. Published with the data, and held against it by the codec kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

TagType = Literal["bool", "int", "float", "string"]


@dataclass(frozen=True, slots=True)
class Tag:
    """One value of a device."""

    type: TagType
    unit: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tags of a codec. ``version`` grows with every change; a change adds tags, it does not change their types."""

    version: int = 1
    tags: Mapping[str, Tag] = field(default_factory=dict)
    #: Whether a device may have tags that are not listed: gateways that are configured in the field.
    open: bool = True


def conflict(before: Schema, after: Schema) -> str | None:
    """Why data of both must not stand on the same topics, in words; None: ``after`` may follow ``before``."""
    for name, tag in after.tags.items():
        old = before.tags.get(name)
        if old is not None and old.type != tag.type:
            return (
                f"the tag {name!r} was {old.type} and would be {tag.type}; a change adds tags, under names of their own"
            )
    if after.version > before.version:
        return None
    if _shape(before) != _shape(after) or after.version < before.version:
        return (
            f"its schema is another one than that of the version at work, which has number {before.version}; "
            f"it has {after.version}: raise Schema.version"
        )
    return None


def _shape(schema: Schema) -> object:
    return schema.open, {name: (tag.type, tag.unit) for name, tag in schema.tags.items()}
