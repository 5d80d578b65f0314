"""The keys that exist, read off the section classes: what type a dotted key has, and which key was meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import cache
from typing import get_type_hints

from iot_mqtt.app.config.limits import LISTENER_NAME, RENAMED
from iot_mqtt.app.config.migrating import name_of_now
from iot_mqtt.app.config.sections import Config, ListenerConfig, known_listeners
from iot_mqtt.app.config.values import Hint

#: Below this key the names are free.
LISTENERS = "listeners"


@cache
def fields_of(section: type) -> dict[str, Hint]:
    """Field names of a section class with their resolved types."""
    return get_type_hints(section)


def is_section(hint: Hint) -> bool:
    """Whether a key of this type has keys below it."""
    return dataclasses.is_dataclass(hint) or hint is _LISTENERS_HINT


def find(key: str, listeners: Iterable[str]) -> Hint | None:
    """The type of a key, or None if there is no such key; ``listeners`` are the names that exist."""
    hint: Hint = Config
    for name in key.split("."):
        if hint is _LISTENERS_HINT:
            hint = ListenerConfig if name in set(listeners) else None
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            hint = fields_of(hint).get(name)
        else:
            return None
        if hint is None:
            return None
    return hint


def keys(listeners: Iterable[str], *, sections: bool = False) -> list[str]:
    """Every leaf key in the order of the classes, and the sections before their keys if asked for."""
    return list(_walk(Config, "", tuple(listeners), sections))


def listener_names(written: Iterable[str]) -> list[str]:
    """The listeners of a configuration: the known ones and those that say what they speak."""
    names = list(known_listeners())
    for key in written:
        parts = key.split(".")
        says_what = len(parts) == 3 and parts[0] == LISTENERS and parts[2] in ("codec", "protocol")
        if says_what and parts[1] not in names and LISTENER_NAME.fullmatch(parts[1]):
            names.append(parts[1])
    return names


def nearest(key: str, listeners: Iterable[str]) -> str | None:
    """The existing key that was probably meant."""
    candidates = keys(listeners, sections=True)
    if close := get_close_matches(key, candidates, 1, cutoff=0.75):
        return close[0]
    last = key.rpartition(".")[2]
    by_last = {candidate.rpartition(".")[2]: candidate for candidate in reversed(candidates)}
    if close := get_close_matches(last, by_last, 1, cutoff=0.75):
        return by_last[close[0]]
    return next(iter(get_close_matches(key, candidates, 1, cutoff=0.5)), None)


def unknown(key: str, listeners: Iterable[str]) -> str:
    """What to say about a key that does not exist."""
    names = tuple(listeners)
    if (now := name_of_now(key, RENAMED)) is not None:
        return f"is called {now} now; `iot-mqtt config migrate FILE` writes it so"
    parts = key.split(".")
    text = "unknown key"
    if parts[0] == LISTENERS and len(parts) > 1 and parts[1] not in names:
        text = f"unknown listener {parts[1]!r} (another name than {', '.join(names)} needs codec or protocol)"
    elif (parent := find(".".join(parts[:-1]), names)) is not None and not is_section(parent):
        text = f"{'.'.join(parts[:-1])} has no keys below it"
    meant = nearest(key, names)
    return f"{text}; did you mean {meant}?" if meant else text


def _walk(section: type, prefix: str, listeners: tuple[str, ...], sections: bool) -> Iterator[str]:
    for name, hint in fields_of(section).items():
        key = f"{prefix}{name}"
        if not is_section(hint):
            yield key
            continue
        if sections:
            yield key
        if hint is not _LISTENERS_HINT:
            yield from _walk(hint, f"{key}.", listeners, sections)
            continue
        for listener in listeners:
            if sections:
                yield f"{key}.{listener}"
            yield from _walk(ListenerConfig, f"{key}.{listener}.", listeners, sections)


_LISTENERS_HINT: Hint = fields_of(Config)[LISTENERS]
