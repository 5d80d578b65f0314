"""Configuration as text: the annotated ``application.yaml``, the effective values, and one key explained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

import yaml

from iot_mqtt.app.config import schema
from iot_mqtt.app.config.errors import Layer
from iot_mqtt.app.config.limits import KEYS, SECTIONS, pattern_of
from iot_mqtt.app.config.reading import LoadedConfig, default_of
from iot_mqtt.app.config.secret_files import SUFFIX, is_for_file, secret_behind
from iot_mqtt.app.config.sections import known_listeners
from iot_mqtt.app.config.values import describe
from iot_mqtt.secrecy import masked_key

_HEAD = """\
# Configuration of iot-mqtt: every key with its default. Lines that begin with `#` and a key are those defaults;
# take the `#` away to change one. The environment (IOT_MQTT__NODE__ID=...) wins over this file, and
# `--set node.id=...` over both. `iot-mqtt config explain KEY` says which of them a value comes from.
# For a secret there is KEY_file, too: the path of a file that has nothing but the secret in it.
"""

#: Listeners after the first are shown with what tells them apart; they have all the keys of the first.
_SHOWN_OF_LISTENERS = {
    "mqtts": ("host", "port", "tls.cert", "tls.key"),
    "ws": ("enabled", "host", "port", "path", "allowed_origins"),
    "wss": ("host", "port", "path", "tls.cert", "tls.key"),
    "gateway": ("enabled", "host", "port", "codec"),
}


def reference() -> str:
    """The text of ``application.yaml``: all keys, their defaults and what they mean."""
    return _HEAD + "".join(_reference_lines())


def shown(loaded: LoadedConfig) -> str:
    """The effective configuration as YAML, secrets masked, with where each value that is no default comes from."""
    lines = []
    for key, depth, leaf in _outline(loaded.config.listeners):
        indent, name = "  " * depth, key.rpartition(".")[2]
        if not leaf:
            lines.append(f"{indent}{name}:\n")
            continue
        origin = loaded.origin(key)
        note = f"  # {origin}" if str(origin) != "default" else ""
        lines.append(f"{indent}{name}: {value_text(masked_key(key, loaded.value(key)))}{note}\n")
    return "".join(lines)


def explained(loaded: LoadedConfig, key: str) -> str | None:
    """Value, winning layer, overridden layers, type, default and meaning of a key; None if there is no such key."""
    key = secret_behind(key) or key
    names = list(loaded.config.listeners)
    hint = schema.find(key, names)
    if hint is None:
        return None
    if schema.is_section(hint):
        return _explained_section(loaded, key)
    rows = [("from", str(loaded.origin(key)))]
    for setting in reversed(loaded.written.get(key, ())[:-1]):
        rows.append(("overrides", f"{setting.origin} = {value_text(masked_key(key, setting.value))}"))
    if loaded.origin(key).layer is not Layer.DEFAULT and key in loaded.derived:
        rows.append(("overrides", f"{loaded.derived[key].origin} = {value_text(loaded.derived[key].value)}"))
    rows.append(("type", _type(key, hint)))
    rows.append(("default", value_text(default_of(key))))
    table = "".join(f"  {label:<10} {text}\n" for label, text in rows)
    meaning = textwrap.fill(document(key), 100, initial_indent="  ", subsequent_indent="  ")
    return f"{key} = {value_text(masked_key(key, loaded.value(key)))}\n{table}\n{meaning}\n"


def document(key: str) -> str:
    """What a key or a section means; empty if nobody wrote it down."""
    pattern = pattern_of(key)
    found = KEYS.get(pattern) or SECTIONS.get(key) or SECTIONS.get(pattern)
    return "" if found is None else found.means


def _explained_section(loaded: LoadedConfig, key: str) -> str:
    below = [leaf for leaf in schema.keys(loaded.config.listeners) if leaf.startswith(f"{key}.")]
    lines = []
    for leaf in below:
        value = value_text(masked_key(leaf, loaded.value(leaf)))
        lines.append(f"  {leaf} = {value}  ({loaded.origin(leaf)})\n")
    return f"{document(key)}\n\n{''.join(lines)}"


def _type(key: str, hint: object) -> str:
    known = KEYS[pattern_of(key)]
    if known.one_of:
        return " | ".join(known.one_of)
    return describe(hint) if known.range is None else f"{describe(hint)}, {known.range}"


def _reference_lines() -> Iterator[str]:
    for key, depth, leaf in _outline(known_listeners()):
        parts = key.split(".")
        if parts[0] == "listeners" and len(parts) > 2 and not _is_shown(parts):
            continue
        indent = "  " * depth
        if depth == 0:
            yield "\n"
        if not (parts[0] == "listeners" and len(parts) > 2 and parts[1] != "mqtt"):
            yield from _comment(document(key), indent)
        name = parts[-1]
        yield f"{indent}#{name}: {value_text(default_of(key))}\n" if leaf else f"{indent}{name}:\n"
        if leaf and is_for_file(key):
            yield f"{indent}#{name}{SUFFIX}: null\n"


def _is_shown(parts: list[str]) -> bool:
    if parts[1] == "mqtt":
        return True
    rest = ".".join(parts[2:])
    return any(shown == rest or shown.startswith(f"{rest}.") for shown in _SHOWN_OF_LISTENERS[parts[1]])


def _comment(text: str, indent: str) -> Iterator[str]:
    for line in textwrap.wrap(text, 116 - len(indent)):
        yield f"{indent}# {line}\n"


def _outline(listeners: Mapping[str, object]) -> Iterator[tuple[str, int, bool]]:
    """Every key in order with its depth, and whether it has a value."""
    for key in schema.keys(listeners, sections=True):
        hint = schema.find(key, listeners)
        yield key, key.count("."), not schema.is_section(hint)


def value_text(value: object) -> str:
    """A value in one line, as YAML has it."""
    if isinstance(value, tuple):
        value = list(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
