"""The codec kit: a good codec passes, and each fault is found by the check that is there for it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from iot_mqtt.sdk import (
    BadFrame,
    Codec,
    Command,
    Delimiter,
    Event,
    Fixed,
    Host,
    LengthField,
    Line,
    Readings,
    Schema,
    Send,
    Tag,
)
from iot_mqtt.sdk.codec import BadBatch
from iot_mqtt.sdk.kit import CHECKS, CodecTests, Unfit, check, subject_of
from tests.unit.sdk.samples import OPTIONS, Good, scored


class TestGood(CodecTests):
    """What a plugin's own tests are made of."""

    codec = Good
    options = OPTIONS


class FailsOnShortFrames(Good):
    """IndexError instead of BadFrame."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        return (Readings(str(frame[0]), {"v": frame[1] * 256 + frame[2]}),)


class SaysOtherThings(Good):
    """Not what the document says."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        return super().decode(frame[:1] + frame[:0:-1])


class DependsOnPieces(Good):
    """Only the first frame of a call is looked at."""

    def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
        return super().decode_many(frames[:1])


class LosesWhatWasGood(Good):
    """A bad frame in a batch takes the good ones before it along."""

    def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
        return [event for frame in frames for event in self.decode(frame)]


class SaysWhichFrame(Good):
    """A reason for every frame."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        if len(frame) not in (3, 6):
            raise BadFrame(f"size {len(frame)}")
        return super().decode(frame)


class HasManyReasons(Good):
    """Words, but one for every byte."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        if len(frame) not in (1, 3, 6):
            raise BadFrame(f"code_{frame[-1] if frame else 0}")
        return super().decode(frame)


class SaysNotANumber(Good):
    """Which JSON has no word for."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        for event in super().decode(frame):
            if isinstance(event, Readings) and frame[1] & 0x80:
                yield Readings(event.device, {"v": float("nan")})
            else:
                yield event


class HasOtherTypes(Good):
    """Than its schema."""

    schema: ClassVar[Schema] = Schema(tags={"v": Tag("string")})


class HasOtherTags(Good):
    """Than its closed schema."""

    schema: ClassVar[Schema] = Schema(tags={"w": Tag("int")}, open=False)


class FailsOnCommands(Good):
    """OverflowError instead of CannotEncode."""

    def encode(self, command: Command) -> bytes:
        return b"\x05" + command.number.to_bytes(2, "big") + b"\0\0" + bytes([command.values["x"]])


class ReturnsText(Good):
    """Not bytes."""

    def encode(self, command: Command) -> Any:
        return "text"


class ReturnsNothing(Good):
    """For a command."""

    def encode(self, command: Command) -> bytes:
        return b""


class FramesCommandsWrongly(Good):
    """One byte too few."""

    def encode(self, command: Command) -> bytes:
        return super().encode(command)[:-1]


class KeepsFrames(Good):
    """For ever."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        self.kept = [*getattr(self, "kept", []), bytearray(200)]
        return super().decode(frame)


class KeepsConnections(Good):
    """For ever."""

    kept: ClassVar[list[object]] = []

    def opened(self) -> Iterable[Event]:
        self.kept.append((self, bytearray(1000)))
        return super().opened()


class KeepsMuch(Good):
    """For each connection."""

    def opened(self) -> Iterable[Event]:
        self.buffer = bytearray(1 << 20)
        return super().opened()


class OpensFiles(Good):
    """In decode."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        with tempfile.TemporaryFile():
            return super().decode(frame)


class StartsThreads(Good):
    """When it is opened."""

    def opened(self) -> Iterable[Event]:
        threading.Thread(target=int).start()
        return super().opened()


class IsSlow(Good):
    """30 ms of computing for each frame."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        until = time.thread_time() + 0.03
        while time.thread_time() < until:
            pass
        return super().decode(frame)


class HasNoEnd(Good):
    """When it meets a certain byte."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        while len(frame) > 8:
            pass
        return super().decode(frame)


class TakesNoLongFrames(Good):
    """Although there are golden ones."""

    framing = LengthField(offset=0, width=1, strip=1, max_frame=5)


class NamesNothing(Good):
    """A device without a name."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        return (Readings("a/b", {"v": 1}),)


class YieldsOtherThings(Good):
    """None of the SDK's events."""

    def decode(self, frame: bytes) -> Any:
        return ("text",)


class CountsEverything(Good):
    """A counter for every frame."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        self.host.count(frame.hex(), 1)
        return super().decode(frame)


class FailsToOpen(Good):
    """With an exception."""

    def opened(self) -> Iterable[Event]:
        raise RuntimeError("no")


class HasNoVectors(Good):
    """Nobody knows what it should do."""

    @classmethod
    def vectors(cls) -> dict[str, Any]:
        return {"vectors": []}


class NeedsItsSurroundings(Good):
    """Which a worker process has not."""

    def decode(self, frame: bytes) -> Iterable[Event]:
        return super().decode(frame) if os.environ["HOME"] else ()


class Bytewise(Good):
    """The same frames, but cut by the codec itself: the framing gives it every byte by itself."""

    framing = Fixed(size=1)  # type: ignore[assignment]

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        self.rest = b""

    def decode(self, frame: bytes) -> Iterable[Event]:
        self.rest += frame
        size = self.rest[0]
        if len(self.rest) <= size:
            return ()
        telegram, self.rest = self.rest[1:], b""
        return self.told(telegram)

    def told(self, telegram: bytes) -> Iterable[Event]:
        return super().decode(telegram)


class FailsBehindBytes(Bytewise):
    """Behind the first byte."""

    def told(self, telegram: bytes) -> Iterable[Event]:
        return (Readings("7", {"v": telegram[1] * 256 + telegram[2]}),)


class KeepsBytes(Bytewise):
    """Until the end of a telegram, which never comes."""

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        self.kept = bytearray()

    def decode(self, frame: bytes) -> Iterable[Event]:
        self.kept += frame
        return () if self.kept[-4:] != b"\x07\x02\x01\x03" else (Readings("7", {"v": 513}),)


FAULTS: list[tuple[type[Codec], str, str]] = [
    (FailsOnShortFrames, "random", "IndexError"),
    (FailsOnShortFrames, "mutated", "IndexError"),
    (SaysOtherThings, "golden", "258, 513 was expected"),
    (HasNoVectors, "golden", "no golden frames"),
    (NamesNothing, "golden", "1 to 64 printable characters"),
    (YieldsOtherThings, "golden", "none of the SDK's events"),
    (DependsOnPieces, "glued", "all at once"),
    (DependsOnPieces, "decode_many", "decode_many["),
    (LosesWhatWasGood, "decode_many", "decode_many["),
    (SaysWhichFrame, "mutated", "a reason is a word"),
    (HasManyReasons, "random", "reasons"),
    (SaysNotANumber, "mutated", "JSON cannot hold"),
    (HasOtherTypes, "schema", "the schema says string"),
    (HasOtherTags, "schema", "not in the schema"),
    (FailsOnCommands, "commands", "only CannotEncode"),
    (ReturnsText, "commands", "not bytes"),
    (ReturnsNothing, "commands", "no bytes"),
    (FramesCommandsWrongly, "round trip", "the framing does not take"),
    (KeepsFrames, "memory", "stay for every frame"),
    (KeepsConnections, "memory", "leaves"),
    (KeepsMuch, "memory", "are allowed"),
    (OpensFiles, "quiet", "open("),
    (StartsThreads, "quiet", "Thread.start"),
    (IsSlow, "frame time", "are allowed"),
    (IsSlow, "throughput", "are wanted"),
    (TakesNoLongFrames, "sizes", "max_frame is 5"),
    (CountsEverything, "random", "32 names"),
    (FailsToOpen, "fits", "RuntimeError"),
    (FailsBehindBytes, "random", "IndexError"),
    (FailsBehindBytes, "mutated", "IndexError"),
    (KeepsBytes, "sizes", "without an end"),
    (NeedsItsSurroundings, "isolated", "KeyError"),
]


@pytest.mark.parametrize("name", CHECKS)
def test_a_codec_that_cuts_its_frames_itself_passes(name: str) -> None:
    """Its vectors are telegrams, whatever the framing makes of them."""
    score = scored(Bytewise, name)
    assert score.verdict != "FAIL", score.complaints
    if name in ("random", "mutated"):
        assert score.figures["reached"] > 3 * score.figures["frames"]


@pytest.mark.parametrize(("codec", "name", "words"), FAULTS, ids=[f"{one.__name__}-{two}" for one, two, _ in FAULTS])
def test_each_fault_is_found(codec: type[Codec], name: str, words: str) -> None:
    """By the check that is there for it, in words."""
    score = scored(codec, name)
    assert score.verdict == "FAIL"
    assert any(words in text for text in score.complaints), score.complaints


def test_a_codec_without_an_end_is_stopped() -> None:
    """By CPU time, so that the kit itself has an end."""
    score = scored(HasNoEnd, "random", replace(OPTIONS, seconds=0.2, patience=0.1))
    assert score.verdict == "FAIL"
    assert "no end" in score.complaints[0]


def test_every_check_finds_something() -> None:
    """No check is there that cannot fail; cutting in two shows itself below."""
    assert {name for _, name, _ in FAULTS} | {"cut"} == set(CHECKS)


def test_a_codec_that_remembers_calls_is_found_by_cutting() -> None:
    """What depends on how many frames come together."""

    class Counts(Good):
        calls = 0

        def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
            self.calls += 1
            return [*super().decode_many(frames), Send(bytes([self.calls]))]

        @classmethod
        def vectors(cls) -> dict[str, Any]:
            return {"vectors": [{"name": "two", "frames": ["03 07 0201 03 07 0202"]}]}

    score = scored(Counts, "cut")
    assert score.verdict == "FAIL"
    assert "cut at byte" in score.complaints[0]


def test_the_card_tells_programs_and_people_the_same() -> None:
    """A verdict, a line for each check, and figures."""
    card = check(Good, options=OPTIONS)
    told = json.loads(json.dumps(card.as_json()))
    assert (card.ok, told["ok"]) == (True, True)
    assert [one["name"] for one in told["checks"]] == list(CHECKS)
    assert all(one["name"] in str(card) for one in told["checks"])
    assert next(one for one in told["checks"] if one["name"] == "throughput")["figures"]["decode"] > 1000
    assert check(FramesCommandsWrongly, options=OPTIONS).verdict.startswith("FAIL: 2 of")


def test_the_same_seed_tries_the_same_things() -> None:
    """So that what CI found can be found again."""
    one, other = scored(Good, "mutated"), scored(Good, "mutated")
    assert one.figure == other.figure


@dataclass
class Thawed:
    """Not frozen."""


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"sdk": 99}, "version 99"),
        ({"framing": None}, "no `framing`"),
        ({"framing": Fixed(size=0)}, "cannot be"),
        ({"Config": Thawed}, "frozen"),
        ({"Config": int}, "dataclass"),
        ({"schema": {}}, "Schema"),
        ({"version": 1}, "version"),
        ({"vectors": lambda: {"vectors": [{"name": "x"}]}}, "neither frames nor a command"),
        ({"vectors": lambda: {"vectors": [{"name": "x", "frames": ["0"]}]}}, "x: "),
        ({"vectors": lambda: {"vectors": [{"name": "x", "frames": ["00"], "before": "y"}]}}, "'y'"),
        ({"vectors": lambda: {"vectors": [{"name": "x", "frames": ["00"], "event": []}]}}, "no such key: event"),
        ({"vectors": lambda: {"config": {"unit": 1}, "vectors": []}}, "takes no configuration"),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_reason(attributes: dict[str, Any], words: str) -> None:
    """As a broker would."""
    with pytest.raises(Unfit, match=words):
        subject_of(type("Odd", (Good,), attributes), None, OPTIONS)


FRAMINGS = [
    Line(max_frame=40),
    Line(max_frame=40, resync="skip"),
    Delimiter(delimiters=(b";", b"\n\n"), max_frame=40, magic=b"\x02"),
    Delimiter(delimiters=(b";",), max_frame=40, strip=False, resync="skip"),
    Fixed(size=6, magic=b"\xaa"),
    LengthField(offset=1, width=4, adjustment=-5, order="little", magic=b"\xaa", max_frame=64, resync="skip"),
    LengthField(offset=0, width=8, max_frame=64, fail_fast=False),
    LengthField(offset=2, width=3, strip=5, max_frame=64),
]


@pytest.mark.parametrize("framing", FRAMINGS, ids=str)
def test_hostile_frames_reach_a_codec_through_any_framing(framing: Any) -> None:
    """Otherwise the kit would only try the framing."""

    class Sized(Codec):
        def opened(self) -> Iterator[Event]:
            yield from Good.opened(self)  # type: ignore[arg-type]

        def decode(self, frame: bytes) -> Iterable[Event]:
            return (Readings("1", {"size": len(frame)}),)

    Sized.framing = framing
    score = scored(Sized, "random")
    assert score.verdict == "PASS", score.complaints
    assert score.figures["reached"] > 200
    assert scored(Sized, "sizes").verdict == "PASS"


def test_batches_that_are_bad_in_another_way_are_faults() -> None:
    """A BadBatch carries any exception."""

    class Wraps(Good):
        def decode_many(self, frames: Sequence[bytes]) -> list[Event]:
            raise BadBatch([], KeyError("x"))

    assert "KeyError" in scored(Wraps, "golden").complaints[0]


def test_vectors_may_be_named(tmp_path: Path) -> None:
    """A file from somewhere else."""
    file = tmp_path / "v.json"
    file.write_text(json.dumps({"vectors": [{"name": "one", "frames": ["ascii:\x03\x07\x02\x01"]}]}))
    options = replace(OPTIONS, vectors=file)
    assert list(subject_of(Good, None, options).vectors.vectors) == ["one"]


@pytest.mark.parametrize(
    ("files", "found"), [(["vectors"], "vectors"), (["vectors", "Lonely.vectors"], "Lonely.vectors")]
)
def test_vectors_lie_beside_the_codec(
    files: list[str], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file for a module, or one for each of its codecs."""
    for name in files:
        vectors = {"vectors": [{"name": name, "frames": ["03 07 0201"]}]}
        (tmp_path / f"{name}.json").write_text(json.dumps(vectors))
    module = types.ModuleType("lonely_module")
    module.__file__ = str(tmp_path / "lonely_module.py")
    monkeypatch.setitem(sys.modules, "lonely_module", module)
    lonely = type("Lonely", (Good,), {"__module__": "lonely_module", "vectors": None})
    assert list(subject_of(lonely, None, OPTIONS).vectors.vectors) == [found]
