"""Text between STX and ETX, words between spaces: how a terminal with up to 99 scales speaks.

::

    │ STX │ S 01 +0012.345 kg ST │ ETX │

Weights are told in the unit of the configuration, whatever unit a scale is set to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from iot_mqtt.sdk import (
    Answer,
    BadFrame,
    CannotEncode,
    Codec,
    Command,
    Delimiter,
    Event,
    Heartbeat,
    Host,
    Login,
    Readings,
    Schema,
    Send,
    Tag,
)

STX, ETX = b"\x02", b"\x03"
_GRAMS: Mapping[str, float] = {"kg": 1000.0, "g": 1.0, "lb": 453.59237}
_WEIGHT = re.compile(r"[+-]?[0-9]{1,7}(\.[0-9]{1,6})?")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SCALE = re.compile(r"[0-9]{2}")
_NUMBER = re.compile(r"[0-9]{1,10}")
_HEAVIEST = 9_999.999


@dataclass(frozen=True, slots=True)
class Settings:
    """``plugins.acme-scale.config``."""

    #: Of the weights that are published.
    unit: Literal["kg", "g", "lb"] = "kg"
    #: Ask terminals that are silent whether they are there.
    poll: bool = True


class AcmeScale(Codec):
    """One terminal."""

    version = "1.0.0"
    answers = True
    framing = Delimiter(magic=STX, delimiters=(ETX,), max_frame=256)
    schema = Schema(
        version=1,
        tags={
            "weight": Tag("float", "", "In the unit of the configuration"),
            "stable": Tag("bool", "", "Whether the weight has come to rest"),
            "unit": Tag("string", "", "The unit of the weight"),
        },
        open=False,
    )
    Config = Settings

    def __init__(self, host: Host[Settings]) -> None:
        super().__init__(host)
        self.unit: str = host.config.unit
        self.poll = host.config.poll
        self.is_known = False
        self._by_word: Mapping[str, Callable[[list[str]], Event]] = {
            "S": self._weight,
            "A": self._answer,
            "HB": lambda _: Heartbeat(),
        }

    def decode(self, frame: bytes) -> Iterable[Event]:
        """The event of one text."""
        try:
            words = frame[1:].decode("ascii").split(" ")
        except UnicodeDecodeError:
            raise BadFrame("text", "other characters than those of ASCII") from None
        if words[0] == "ID":
            return (self._login(words),)
        if not self.is_known:
            raise BadFrame("no_login", f"{words[0][:20]!r} came first")
        if (meaning := self._by_word.get(words[0])) is None:
            raise BadFrame("unknown", f"{words[0][:20]!r}")
        return (meaning(words),)

    def _login(self, words: list[str]) -> Event:
        if self.is_known:
            raise BadFrame("second_login")
        if not 2 <= len(words) <= 3 or not _NAME.fullmatch(words[1]):
            raise BadFrame("login", "a login is: ID name, or ID name password")
        self.is_known = True
        return Login(words[1], words[1], words[2].encode() if len(words) == 3 else None, heartbeat=30.0)

    def _weight(self, words: list[str]) -> Event:
        _, scale, weight, unit, state = words if len(words) == 5 else ("",) * 5
        if not _SCALE.fullmatch(scale) or not _WEIGHT.fullmatch(weight) or unit not in _GRAMS:
            raise BadFrame("weight", "a weight is: S 01 +0012.345 kg ST")
        if state == "OL":
            self.host.count("overloads", 1)
            return Readings(scale, {"weight": None, "stable": False, "unit": self.unit}, quality={"weight": "bad"})
        if state not in ("ST", "US"):
            raise BadFrame("state", f"{state[:20]!r}")
        value = float(weight) if unit == self.unit else round(float(weight) * _GRAMS[unit] / _GRAMS[self.unit], 6)
        quality = None if state == "ST" else {"weight": "uncertain"}
        return Readings(scale, {"weight": value, "stable": state == "ST", "unit": self.unit}, quality=quality)

    def _answer(self, words: list[str]) -> Event:
        if len(words) < 3 or not _NUMBER.fullmatch(words[1]) or int(words[1]) > 0xFFFFFFFF:
            raise BadFrame("answer", "an answer is: A 17 OK, or A 17 ER reason")
        return Answer(int(words[1]), words[2] == "OK", " ".join(words[3:]) if words[2] != "OK" else "")

    def welcome(self) -> bytes:
        """The terminal is let in."""
        return _framed("HI")

    def refuse(self, reason: str) -> bytes:
        """It is not, and its display says why."""
        return _framed(f"NO {reason}")

    def idle(self) -> Iterable[Event]:
        """Ask whether it is there."""
        return (Send(_framed("Q")),) if self.poll else ()

    def encode(self, command: Command) -> bytes:
        """Zero or tare of a scale."""
        if not _SCALE.fullmatch(command.device):
            raise CannotEncode(f"there is no scale {command.device}; they are 00 to 99")
        match command.values.get("do"):
            case "zero":
                return _framed(f"Z {command.number} {command.device}")
            case "tare":
                return _framed(f"T {command.number} {command.device} {_tare(command.values.get('weight', 0.0)):.3f}")
            case _:
                raise CannotEncode('a scale can {"do": "zero"} and {"do": "tare"}')


def _tare(weight: object) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
        raise CannotEncode("weight is no number")
    if not 0 <= weight <= _HEAVIEST:
        raise CannotEncode(f"weight is not from 0 to {_HEAVIEST} kg")
    return float(weight)


def _framed(text: str) -> bytes:
    return STX + text.encode("ascii", "replace") + ETX
