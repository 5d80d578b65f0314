"""Keys that do something under a condition only, and the sentence for whoever writes one where it does nothing.

A key that is written where nobody reads it is a mistake of which its author hears nothing: he believes that there is a
limit. It is refused unless a higher layer decided otherwise than the one in which the key stands: ``--set
uplink.kind=none`` may pass over a file that configures Kafka. What a key needs stands beside it in ``keys.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from iot_mqtt.app.config.errors import Problem
from iot_mqtt.app.config.limits import KEYS, Condition, around, pattern_of
from iot_mqtt.app.config.reading import LoadedConfig, default_of

#: Of ``Condition``: any value but nothing.
SET = "set"
_OF_LISTENERS = "listeners.*."


def without_effect(loaded: LoadedConfig) -> Iterator[Problem]:
    """What was written and does nothing here."""
    enabled = loaded.config.enabled_listeners
    for key, settings in loaded.written.items():
        listener = _listener_of(key)
        if listener is not None and listener not in enabled:
            yield from _of_closed(loaded, key, listener)
        elif settings[-1].value is not None:
            yield from _unmet(loaded, key, listener)


def notes(loaded: LoadedConfig) -> Iterator[Problem]:
    """What is right, and may yet not be what its author means."""
    yield from loaded.layers.unread
    for key in loaded.written:
        known, listener = KEYS[pattern_of(key)], _listener_of(key)
        # Nothing is to be known of what is off.
        if (
            known.hint
            and loaded.value(key) is not False
            and (known.hint_with is None or _holds(loaded, known.hint_with, listener))
            and (known.hint_without is None or not _holds(loaded, known.hint_without, listener))
        ):
            yield Problem(loaded.origin(key), key, known.hint)


def _unmet(loaded: LoadedConfig, key: str, listener: str | None) -> Iterator[Problem]:
    for known in around(key):
        need = known.needs
        if need is None or _holds(loaded, need, listener) or _is_passed_over(loaded, key, need, listener):
            continue
        decided_by = _deciders(loaded, next(iter(need.any_of)), listener)[0]
        way_out = need.instead or f"set {' or '.join(_ways(need, listener))}"
        text = f"has no effect with {decided_by}: {_shown(loaded.value(decided_by))}; {way_out}, or leave it out"
        yield Problem(loaded.origin(key), key, text)
        return


def _of_closed(loaded: LoadedConfig, key: str, listener: str) -> Iterator[Problem]:
    """A listener that is opened by its certificate only, and has none."""
    switch = f"listeners.{listener}.enabled"
    if switch not in loaded.written and not default_of(switch) and loaded.value(key) != default_of(key):
        text = f"is of a listener that is not opened; set listeners.{listener}.tls.cert and key, or {switch}: false"
        yield Problem(loaded.origin(key), key, text)


def _holds(loaded: LoadedConfig, condition: Condition, listener: str | None) -> bool:
    return any(
        _fits(loaded.value(decided_by), values)
        for name, values in condition.any_of.items()
        for decided_by in _deciders(loaded, name, listener)
    )


def _fits(value: object, values: tuple[object, ...]) -> bool:
    if isinstance(value, tuple):
        return any(one in values for one in value) or (SET in values and bool(value))
    if isinstance(value, Mapping):
        return SET in values and bool(value)
    return value in values or (SET in values and value not in (None, "", 0, False))


def _is_passed_over(loaded: LoadedConfig, key: str, condition: Condition, listener: str | None) -> bool:
    layer = loaded.origin(key).layer
    names = (one for name in condition.any_of for one in _deciders(loaded, name, listener))
    return any(layer < loaded.origin(decided_by).layer for decided_by in names)


def _deciders(loaded: LoadedConfig, name: str, listener: str | None) -> list[str]:
    """The keys that are meant: of the same listener, or of any that is open."""
    if not name.startswith(_OF_LISTENERS):
        return [name]
    listeners = loaded.config.enabled_listeners if listener is None else (listener,)
    return [f"listeners.{one}.{name.removeprefix(_OF_LISTENERS)}" for one in listeners]


def _ways(condition: Condition, listener: str | None) -> Iterator[str]:
    for name, values in condition.any_of.items():
        key = name if listener is None else name.replace("*", listener, 1)
        yield key if SET in values else f"{key}: {' or '.join(map(_shown, values))}"


def _listener_of(key: str) -> str | None:
    parts = key.split(".")
    return parts[1] if parts[0] == "listeners" and len(parts) > 2 else None


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        value = list(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")
