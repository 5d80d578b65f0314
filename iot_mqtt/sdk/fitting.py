"""Whether a class is a codec that this broker can run: its hooks, its SDK, its framing, its configuration.

What is wrong is found here, at load or by the codec kit, with a sentence for its author, and not by the first gateway.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import FunctionType
from typing import Any, Final

from iot_mqtt.framing.checking import check
from iot_mqtt.sdk.codec import SDK_VERSION, Codec
from iot_mqtt.sdk.config import BadConfig, config_from
from iot_mqtt.sdk.schema import Schema

#: Hooks and how many arguments they get besides ``self``.
HOOKS: Final = {
    "opened": 0,
    "decode": 1,
    "decode_many": 1,
    "welcome": 0,
    "refuse": 1,
    "safe": 1,
    "encode": 1,
    "idle": 0,
}
#: Those that return bytes.
_WHOLE = ("welcome", "refuse", "safe", "encode", "decode_many")
#: How alike two names are of which one may be meant for the other.
_NEAR: Final = 0.8


class DoesNotFit(Exception):
    """Why a plugin is refused: a sentence for a person."""


def check_codec(cls: object) -> type[Codec]:
    """The class, if it fits. Raises ``DoesNotFit``."""
    for text in misfits(cls):
        raise DoesNotFit(text)
    assert isinstance(cls, type)
    return cls


def misfits(cls: Any) -> Iterator[str]:
    """Why the class cannot be run, each reason as a sentence."""
    if not isinstance(cls, type) or not issubclass(cls, Codec):
        yield f"{_named(cls)} is not a subclass of iot_mqtt.sdk.Codec"
        return
    plain: Any = cls
    if plain.sdk != SDK_VERSION:
        yield (
            f"it is written for version {plain.sdk!r} of the SDK; this broker has version {SDK_VERSION}: "
            "install a version of the plugin, or of the broker, that fits"
        )
    framing = getattr(plain, "framing", None)
    if framing is None:
        yield "it declares no `framing`; see iot_mqtt.sdk.LengthField, Delimiter, Line and Fixed"
    elif problems := check(framing):
        yield f"its framing cannot be: {'; '.join(problems)}"
    if not isinstance(plain.version, str) or not 0 < len(plain.version) <= 64 or not plain.version.isprintable():
        yield "`version` must be a text of 1 to 64 characters"
    if not isinstance(plain.schema, Schema) or type(plain.schema.version) is not int or plain.schema.version < 0:
        yield "`schema` must be an iot_mqtt.sdk.Schema with a whole number as version"
    if not isinstance(plain.answers, bool):
        yield "`answers` must be True or False"
    if not isinstance(plain.Config, type) or not dataclasses.is_dataclass(plain.Config):
        yield "`Config` must be a frozen dataclass"
    yield from misspelt(cls)
    if cls.decode is Codec.decode and cls.decode_many is Codec.decode_many:
        yield "it has no `decode`"
    for hook, arguments in HOOKS.items():
        if text := _wrong_hook(cls, hook, arguments):
            yield text


def check_config(cls: type[Codec], mapping: Mapping[str, object]) -> Any:
    """The codec's configuration. Raises ``DoesNotFit``."""
    try:
        return config_from(cls.Config, mapping)
    except BadConfig as error:
        raise DoesNotFit(f"its configuration: {'; '.join(error.lines)}") from error
    except TypeError as error:  # the declaration, not the values
        raise DoesNotFit(f"its Config cannot be used: {error}") from error


def _wrong_hook(cls: type[Codec], hook: str, arguments: int) -> str | None:
    function = getattr(cls, hook)
    if not callable(function):
        return f"`{hook}` must be a method"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return f"`{hook}` must not be async: a codec waits for nothing"
    if hook in _WHOLE and inspect.isgeneratorfunction(function):
        return f"`{hook}` must return what it has to say, not yield it"
    static = isinstance(inspect.getattr_static(cls, hook), staticmethod | classmethod)
    try:
        inspect.signature(function).bind(*[None] * (arguments if static else arguments + 1))
    except TypeError as error:
        return f"`{hook}` must take {inspect.signature(getattr(Codec, hook))}: {error}"
    except ValueError:  # compiled code that does not tell its signature
        pass
    return None


def misspelt(codec: type[Any]) -> Iterator[str]:
    """Methods that were nearly hooks, in words: a misspelt one is never called, and nobody would notice."""
    for base in codec.__mro__[: codec.__mro__.index(Codec)]:
        for name, value in vars(base).items():
            if name.startswith("_") or name in HOOKS or not isinstance(value, FunctionType):
                continue
            if near := _near(name.lower()):
                yield (
                    f"`{name}` is none of a codec's hooks; did you mean `{near}`? "
                    "(Names of your own methods may begin with an underscore.)"
                )


def _near(name: str) -> str:
    """The hook with the same letters in another order, or with nearly the same name."""
    for hook in HOOKS:
        if sorted(name) == sorted(hook):
            return hook
    return next(iter(get_close_matches(name, HOOKS, 1, _NEAR)), "")


def _named(thing: object) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
