"""Names that are made of what a message says: ``iot.lines.{gateway}``, ``{client}/{topic[1]}``.

What is in the braces comes from clients. As the name of a platform's topic it is therefore made to fit Kafka's
alphabet, and how many different names there may be is bounded (``choice.Names``). Kafka takes ``.`` and ``_`` for one
letter where it compares names (``folded``): it makes no topic beside one that differs from it in these alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

FIELDS = ("gateway", "device", "codec", "client", "topic")
#: What stands for a level that a topic does not have, and for a character that Kafka does not take.
NOTHING = "_"
#: The codec of what came through none.
NO_CODEC = "mqtt"
#: What Kafka takes as the length of a topic's name.
MAX_NAME = 249
#: What stands in the place of every field when there are too many different names.
OTHER = "other"

_FIELD = re.compile(r"\{([^{}]*)\}")
_LEVEL = re.compile(r"topic\[([0-9]{1,3})\]")
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")


class Source(NamedTuple):
    """What a template is filled from."""

    topic: str
    client: str
    #: What a gateway's codec made; None: any other message.
    reading: Mapping[str, object] | None


Fill = Callable[[Source], str]


class Template:
    """A text with fields. ``ValueError`` says what is wrong with it."""

    __slots__ = ("text", "fixed", "_fills")

    def __init__(self, text: str) -> None:
        self.text = text
        parts = _FIELD.split(text)
        #: What stands around the fields.
        self.fixed = tuple(parts[::2])
        self._fills = tuple(_fill(field) for field in parts[1::2])
        if any(brace in fixed for fixed in self.fixed for brace in "{}"):
            raise ValueError(f"{text!r} has a brace without its other one")

    def filled(self, source: Source) -> str:
        """The text with what a message says."""
        return self._around([fill(source) for fill in self._fills])

    @property
    def other(self) -> str:
        """The one name for all that there is no room for."""
        return self._around([OTHER] * len(self._fills))

    def _around(self, values: list[str]) -> str:
        parts = [self.fixed[0]]
        for value, fixed in zip(values, self.fixed[1:], strict=True):
            parts += (value, fixed)
        return "".join(parts)


def sanitised(name: str) -> str:
    """A name that Kafka and every file system take; different names may become the same one."""
    found = _FOREIGN.sub(NOTHING, name[:MAX_NAME].replace("/", "."))
    return NOTHING + found[1:] if found.startswith(".") else found


def folded(name: str) -> str:
    """What is the same of all names that Kafka takes for one."""
    return name.replace(".", NOTHING)


def _fill(field: str) -> Fill:
    level = _LEVEL.fullmatch(field)
    if level is not None:
        number = int(level.group(1))
        return lambda source: _level(source.topic, number)
    if field in ("gateway", "device"):
        return lambda source: _said(source, field, source.client)
    if field == "codec":
        return lambda source: _said(source, field, NO_CODEC)
    if field == "client":
        return lambda source: source.client
    if field == "topic":
        return lambda source: source.topic
    known = ", ".join(f"{{{one}}}" for one in FIELDS)
    raise ValueError(f"unknown field {{{field}}}; there are {known} and {{topic[0]}} for one level")


def _said(source: Source, field: str, otherwise: str) -> str:
    return otherwise if source.reading is None else str(source.reading.get(field, otherwise))


def _level(topic: str, number: int) -> str:
    levels = topic.split("/", number + 1)
    return (levels[number] if number < len(levels) else "") or NOTHING
