"""Methods of a codec that were meant to be hooks: a misspelt one is never called, and nobody would notice."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from types import FunctionType
from typing import Any, Final

from iot_mqtt.sdk.codec import Codec

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
_NEAR: Final = 0.8


def misspelt(codec: type[Any]) -> Iterator[str]:
    """What is nearly a hook, in words."""
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
