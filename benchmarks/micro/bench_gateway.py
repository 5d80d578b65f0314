"""Figures of the gateway protocol: frames decoded per second, on one core.

    python benchmarks/micro/bench_gateway.py [--seconds 1]

A frame of 64 bytes has one device with three readings. Frames of a read are given to the codec together, as a busy
gateway's ``recv`` brings them.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.custom_protocols.gateway import GatewayCodec
from iot_mqtt.custom_protocols.gateway.wire import Type
from iot_mqtt.sdk import Host, NoConfig
from tests.doubles import gateway as client

TIME = 1_767_225_600_000


def codec() -> GatewayCodec:
    """One that is logged in, and knows layout 1."""
    host = Host(NoConfig(), peer="", log=logging.getLogger("bench"), count=lambda *_: None, now=lambda: TIME)
    made = GatewayCodec(host)
    made.decode_many([client.login("gw-1"), client.declare(1, one_device(0))])
    return made


def one_device(number: int) -> list[client.Device]:
    """64 bytes of frame with its layout."""
    return [
        (
            "plc-1",
            [("temperature", Type.F32, 20 + number / 7), ("rpm", Type.F64, number * 1.5), ("no", Type.U16, number)],
        )
    ]


def eight_devices(number: int) -> list[client.Device]:
    """The same from eight of them."""
    ((_, readings),) = one_device(number)
    return [(f"plc-{index}", readings) for index in range(8)]


def words(number: int) -> list[client.Device]:
    """A text among them: read piece by piece."""
    ((name, readings),) = one_device(number)
    return [(name, [*readings, ("state", Type.STRING, "running")])]


def frames(make: Callable[[int], Sequence[client.Device]], count: int = 256, *, declared: bool = False) -> list[bytes]:
    """A read's worth."""
    layout = 1 if declared else None
    return [
        client.data(make(number), sequence=number, time=TIME + number, wants_ack=number % 64 == 0, layout=layout)
        for number in range(1, count + 1)
    ]


def rate(batch: list[bytes], seconds: float) -> float:
    """Frames per second of processor time; the best of three."""
    made = codec()
    best = 0.0
    for _ in range(3):
        rounds = 0
        start = now = time.process_time()
        while now - start < seconds / 3:
            made.decode_many(batch)
            rounds += 1
            now = time.process_time()
        best = max(best, rounds * len(batch) / (now - start))
    return best


def main() -> None:
    """A table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each figure")
    seconds = parser.parse_args().seconds
    for name, batch in (
        ("one device, three readings", frames(one_device)),
        ("the same, one frame at a time", frames(one_device, 1)),
        ("the same, layout declared", frames(one_device, declared=True)),
        ("eight devices, three readings each", frames(eight_devices)),
        ("one device with a text", frames(words)),
    ):
        print(f"{name:40}{len(batch[0]):5} bytes {rate(batch, seconds):12,.0f} frames/s")


if __name__ == "__main__":
    main()
