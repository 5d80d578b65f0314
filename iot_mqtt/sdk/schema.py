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
