"""Codecs that raise what is no ``Exception``: the kit says so, as of any other, and no program ends for it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest

from iot_mqtt.sdk import Codec, Command, Event, Host
from iot_mqtt.sdk.kit import Unfit, subject_of
from tests.unit.sdk.samples import OPTIONS, Good, scored


class Exits(Good):
    """As if that were the end of a program."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        sys.exit()


class ExitsAtOnce(Good):
    """So that there is no connection at all."""

    def __init__(self, host: Host[Any]) -> None:
        sys.exit()


class Panics(Good):
    """As extensions in Rust do."""

    def encode(self, command: Command) -> bytes:
        raise BaseException("panic")


@pytest.mark.parametrize(
    ("codec", "name", "words"),
    [
        (Exits, "golden", "decode raised SystemExit"),
        (Exits, "random", "decode raised SystemExit"),
        (Exits, "frame time", "raised SystemExit"),
        (ExitsAtOnce, "fits", "the constructor raised SystemExit"),
        (Panics, "commands", "raised BaseException: panic"),
        (Panics, "round trip", "raised BaseException: panic"),
    ],
)
def test_it_fails_the_check(codec: type[Codec], name: str, words: str) -> None:
    """Each in its words."""
    score = scored(codec, name)
    assert score.verdict == "FAIL"
    assert words in score.complaints[0]


def test_an_exit_in_vectors_is_told() -> None:
    """They are a codec's code, too."""
    with pytest.raises(Unfit, match=r"vectors\(\) raised SystemExit"):
        subject_of(type("Odd", (Good,), {"vectors": staticmethod(sys.exit)}), None, OPTIONS)


def test_ctrl_c_is_none_of_the_codec() -> None:
    """It ends the kit."""

    class Interrupted(Good):
        def decode(self, frame: bytes) -> Iterable[Event]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scored(Interrupted, "golden")
