"""The project that ``iot-mqtt plugin new`` writes, as far as it needs no environment of its own."""

from __future__ import annotations

import struct
from importlib import import_module
from pathlib import Path

import pytest

from iot_mqtt.sdk import Codec, Readings
from iot_mqtt.sdk.kit.checking import subject_of
from iot_mqtt.sdk.kit.conversation import Conversation
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.project import write_project


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> type[Codec]:
    """Its codec."""
    write_project("written-meter", tmp_path / "written-meter")
    monkeypatch.syspath_prepend(str(tmp_path / "written-meter" / "src"))
    codec: type[Codec] = import_module("written_meter.codec").WrittenMeter
    return codec


def reading(device: int, number: int) -> bytes:
    """A frame of a device, with the device's own number."""
    return struct.pack(">BBHBHhIB", 0xA5, 2, 10, device, number % 65_536, 215, 1234, 1)


def test_no_reading_looks_like_one_that_came_before(written: type[Codec]) -> None:
    """When a device's number of 16 bits begins again, after a restart, and with devices that count for themselves."""
    conversation = Conversation(subject_of(written, None, Options()))
    conversation.feed(b"\xa5\x01\x00\x06line-3")
    for frame in (reading(7, 65_535), reading(7, 65_536), reading(7, 1), reading(8, 1), reading(7, 1)):
        conversation.feed(frame)
    numbers = [one.sequence for one in conversation.events if isinstance(one, Readings)]
    assert len(numbers) == 5
    assert numbers == [None] * 5 or numbers == sorted({one for one in numbers if one is not None})
