"""A codec without faults, and what is needed to make one with exactly one fault of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from iot_mqtt.sdk import (
    Answer,
    BadFrame,
    CannotEncode,
    Codec,
    Command,
    Event,
    Host,
    LengthField,
    Login,
    Readings,
    Schema,
    Tag,
)
from iot_mqtt.sdk.kit import Options, Score, check_one, subject_of

#: Enough to find each fault, and no more.
OPTIONS = Options(frames=600, seconds=3.0, patience=2.0, measured=0.05, cuts=50, memory_frames=400, glued=5)


class Good(Codec):
    """│ length │ device │ value (2) │, or │ length │ 0 │ answer (5) │; logged in as soon as it is there."""

    framing = LengthField(offset=0, width=1, strip=1, max_frame=40)
    schema: ClassVar[Schema] = Schema(tags={"v": Tag("int")}, open=False)

    def __init__(self, host: Host[Any]) -> None:
        super().__init__(host)
        self.last = b""

    @classmethod
    def vectors(cls) -> dict[str, Any]:
        """A reading, an answered command, a bad frame."""
        reading = {"event": "readings", "device": "7", "values": {"v": 513}}
        return {
            "vectors": [
                {"name": "value", "frames": ["03 07 0201"], "events": [reading]},
                {"name": "bad", "frames": ["01 07"], "events": [], "bad": "size"},
                {
                    "name": "do",
                    "command": {"number": 5, "device": "7", "values": {"x": 1}},
                    "bytes": "05 00000005 01",
                    "frames": ["06 00 00000005 01"],
                    "events": [{"event": "answer", "number": 5, "ok": True}],
                },
                {"name": "cannot", "command": {"device": "7", "values": {"x": 999}}, "cannot": "byte"},
            ]
        }

    def opened(self) -> Iterable[Event]:
        return (Login("g"),)

    def decode(self, frame: bytes) -> Iterable[Event]:
        self.last = frame
        if len(frame) == 3:
            return (Readings(str(frame[0]), {"v": int.from_bytes(frame[1:], "big")}),)
        if len(frame) == 6:
            return (Answer(int.from_bytes(frame[1:5], "big"), frame[5] == 1),)
        raise BadFrame("size", f"{len(frame)} bytes")

    def encode(self, command: Command) -> bytes:
        x = command.values.get("x")
        if type(x) is not int or not 0 <= x <= 255:
            raise CannotEncode("x is no byte")
        return b"\x05" + command.number.to_bytes(4, "big") + bytes([x])


def scored(codec: type[Codec], name: str, options: Options = OPTIONS) -> Score:
    """One check of the kit."""
    return check_one(name, subject_of(codec, None, options), options)
