r"""Golden vectors: what a protocol's document says, as bytes and what they mean. The codec's author writes them.

They lie beside the codec's module as ``vectors.json`` (``<Class>.vectors.json`` if there are several codecs), or the
codec has a class method ``vectors()`` that returns the same thing::

    {"config": {"unit": "kg"},
     "vectors": [
       {"name": "login", "frames": ["7e 01 …"], "events": [{"event": "login", "gateway": "g1"}]},
       {"name": "weight", "before": "login", "frames": ["7e 02 …"], "events": [{"event": "readings", …}]},
       {"name": "bad sum", "before": "login", "frames": ["7e 02 …"], "bad": "checksum"},
       {"name": "tare", "before": "login", "command": {"device": "1", "values": {"tare": true}}, "bytes": "7e 81 …",
                        "frames": ["7e 82 …"], "events": [{"event": "answer", "number": 1, "ok": true}]},
       {"name": "no such thing", "before": "login", "command": {"device": "1", "values": {"fly": 1}}, "cannot": "fly"},
       {"name": "let in", "before": "login", "say": {"welcome": true}, "bytes": "06"}]}

``frames`` are whole frames as they are on the wire, in hexadecimal with or without spaces; ``"ascii:…"`` is text,
with ``\r`` and the like. Each vector has a connection of its own, on which the vectors of ``before`` happened.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from iot_mqtt.sdk.codec import Codec

FILE: Final = "vectors.json"
_KEYS: Final = ("name", "before", "frames", "events", "bad", "command", "bytes", "cannot", "say", "note")
_SAY: Final = ("welcome", "refuse", "safe")


class BadVectors(Exception):
    """The vectors cannot be read; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One of them."""

    name: str
    before: str = ""
    frames: tuple[bytes, ...] = ()
    #: None: what they are is not held against anything but the rules.
    events: tuple[Mapping[str, Any], ...] | None = None
    #: The reason of the ``BadFrame`` that ends it, or of the framing.
    bad: str = ""
    command: Mapping[str, Any] | None = None
    #: What the command is encoded as, or what is said.
    data: bytes | None = None
    #: Words of the reason why there is no such command.
    cannot: str | None = None
    say: tuple[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Vectors:
    """All of a codec."""

    vectors: Mapping[str, Vector] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    #: Whether commands are framed as what comes from the gateway is.
    commands_framed: bool = True

    def before(self, vector: Vector) -> list[Vector]:
        """What happened on the connection before, the first thing first."""
        chain: list[Vector] = []
        while vector.before:
            vector = self.vectors[vector.before]
            chain.append(vector)
        return chain[::-1]

    def up(self) -> list[Vector]:
        """Those with frames."""
        return [vector for vector in self.vectors.values() if vector.frames]


def vectors_of(codec: type[Codec], path: Path | None = None) -> Vectors:
    """The vectors of a codec; none if it has none. Raises ``BadVectors``."""
    hook = getattr(codec, "vectors", None)
    if path is None and callable(hook):
        return read_vectors(_told_by(hook))
    if path is None:
        source = getattr(sys.modules.get(codec.__module__), "__file__", None)
        names = (f"{codec.__name__}.{FILE}", FILE)
        places = [Path(source).with_name(name) for name in names] if source else []
        path = next((place for place in places if place.exists()), None)
        if path is None:
            return Vectors()
    try:
        return read_vectors(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BadVectors(f"{path}: {error}") from error


def _told_by(hook: Callable[[], Any]) -> Any:
    try:
        return hook()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BadVectors(f"vectors() raised {type(error).__name__}: {error}") from error


def read_vectors(told: Any) -> Vectors:
    """Vectors from JSON. Raises ``BadVectors``."""
    if not isinstance(told, Mapping) or not isinstance(told.get("vectors"), Sequence):
        raise BadVectors('golden vectors are a JSON object with a list "vectors"')
    found: dict[str, Vector] = {}
    for number, one in enumerate(told["vectors"], 1):
        name = str(one.get("name", "")) if isinstance(one, Mapping) else ""
        try:
            vector = _vector(one, name or f"number {number}")
        except (TypeError, ValueError, AttributeError) as error:
            raise BadVectors(f"vector {name or number}: {error}") from error
        if vector.name in found:
            raise BadVectors(f"there are two vectors called {vector.name}")
        if vector.before and vector.before not in found:
            raise BadVectors(f"vector {vector.name}: no vector above it is called {vector.before!r}")
        found[vector.name] = vector
    return Vectors(found, dict(told.get("config", {})), bool(told.get("commands_framed", True)))


def _vector(one: Any, name: str) -> Vector:
    if unknown := sorted(set(one) - set(_KEYS)):
        raise ValueError(f"there is no such key: {unknown[0]}; known are {', '.join(_KEYS)}")
    say = None
    if "say" in one:
        ((word, argument),) = one["say"].items()
        if word not in _SAY:
            raise ValueError(f"say is one of {', '.join(_SAY)}, not {word}")
        say = (word, argument)
    if not one.get("frames") and "command" not in one and say is None:
        raise ValueError("it has neither frames nor a command, nor anything to say")
    events = one.get("events")
    return Vector(
        name=name,
        before=str(one.get("before", "")),
        frames=tuple(as_bytes(text) for text in one.get("frames", ())),
        events=None if events is None else tuple(events),
        bad=str(one.get("bad", "")),
        command=one.get("command"),
        data=as_bytes(one["bytes"]) if "bytes" in one else None,
        cannot=one.get("cannot"),
        say=say,
    )


def as_bytes(text: str) -> bytes:
    """Hexadecimal, or ``ascii:`` and text."""
    if text.startswith("ascii:"):
        return text.removeprefix("ascii:").encode("latin-1")
    return bytes.fromhex(text)
