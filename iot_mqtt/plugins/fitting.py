"""Whether a class is a codec that this broker can run: its hooks, its SDK, its framing, its configuration.

What is wrong is found here, at load, with a sentence for its author, and not by the first gateway.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from iot_mqtt.framing.checking import check
from iot_mqtt.sdk import SDK_VERSION, Codec, Delimiter, Fixed, LengthField, Line, Schema
from iot_mqtt.sdk.config import BadConfig, config_from
from iot_mqtt.sdk.spelling import HOOKS, misspelt

#: Those that return bytes.
_WHOLE = ("welcome", "refuse", "safe", "encode", "decode_many")


class DoesNotFit(Exception):
    """Why a plugin is refused: a sentence for a person."""


def check_codec(cls: object) -> type[Codec]:
    """The class, if it fits. Raises ``DoesNotFit``."""
    if not isinstance(cls, type) or not issubclass(cls, Codec):
        raise DoesNotFit(f"{_named(cls)} is not a subclass of iot_mqtt.sdk.Codec")
    if cls.sdk != SDK_VERSION:
        raise DoesNotFit(
            f"it is written for version {cls.sdk!r} of the SDK; this broker has version {SDK_VERSION}: "
            "install a version of the plugin, or of the broker, that fits"
        )
    _check_framing(cls)
    version: object = cls.version
    if not isinstance(version, str) or not 0 < len(version) <= 64 or not version.isprintable():
        raise DoesNotFit("`version` must be a text of 1 to 64 characters")
    schema: object = cls.schema
    if not isinstance(schema, Schema) or type(schema.version) is not int or schema.version < 0:
        raise DoesNotFit("`schema` must be an iot_mqtt.sdk.Schema with a whole number as version")
    config: object = cls.Config
    if not isinstance(config, type) or not dataclasses.is_dataclass(config):
        raise DoesNotFit("`Config` must be a frozen dataclass")
    for text in misspelt(cls):
        raise DoesNotFit(text)
    if cls.decode is Codec.decode and cls.decode_many is Codec.decode_many:
        raise DoesNotFit("it has no `decode`")
    for hook, arguments in HOOKS.items():
        _check_hook(cls, hook, arguments)
    return cls


def check_config(cls: type[Codec], mapping: Mapping[str, object]) -> Any:
    """The codec's configuration. Raises ``DoesNotFit``."""
    try:
        return config_from(cls.Config, mapping)
    except BadConfig as error:
        raise DoesNotFit(f"its configuration: {'; '.join(error.lines)}") from error
    except TypeError as error:  # the declaration, not the values
        raise DoesNotFit(f"its Config cannot be used: {error}") from error


def _check_framing(cls: type[Codec]) -> None:
    framing = getattr(cls, "framing", None)
    if framing is None:
        raise DoesNotFit("it declares no `framing`; see iot_mqtt.sdk.LengthField, Delimiter, Line and Fixed")
    if not isinstance(framing, LengthField | Delimiter | Line | Fixed):
        raise DoesNotFit(f"`framing` is {_named(framing)}, not a LengthField, Delimiter, Line or Fixed")
    if problems := check(framing):
        raise DoesNotFit(f"its framing: {'; '.join(problems)}")


def _check_hook(cls: type[Codec], hook: str, arguments: int) -> None:
    function = getattr(cls, hook)
    if not callable(function):
        raise DoesNotFit(f"`{hook}` must be a method")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise DoesNotFit(f"`{hook}` must not be async: a codec waits for nothing")
    if hook in _WHOLE and inspect.isgeneratorfunction(function):
        raise DoesNotFit(f"`{hook}` must return what it has to say, not yield it")
    static = isinstance(inspect.getattr_static(cls, hook), staticmethod | classmethod)
    try:
        inspect.signature(function).bind(*[None] * (arguments if static else arguments + 1))
    except TypeError as error:
        expected = inspect.signature(getattr(Codec, hook))
        raise DoesNotFit(f"`{hook}` must take {expected}: {error}") from error
    except ValueError:  # compiled code that does not tell its signature
        return


def _named(thing: object) -> str:
    return getattr(thing, "__name__", type(thing).__name__)
