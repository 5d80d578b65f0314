"""Figures of framing: frames of 64 bytes per second, and what a hostile peer can cost.

    python benchmarks/micro/bench_frames.py [--seconds 0.2]

Chunks are 64 KiB, as a busy gateway's ``recv`` brings them.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt.framing import Checksum, Delimiter, Fixed, Framing, LengthField, Line, checksum_of, framer_of
from iot_mqtt.framing.checksums import SIZES

CHUNK = 65_536
SIZE = 64


def rate(framing: Framing, chunk: bytes, frames: int, seconds: float) -> float:
    """Frames per second; the best of five."""
    feed = partial(framer_of(framing).feed, chunk)
    if len(feed()) != frames:
        raise AssertionError(f"{framing} does not make {frames} frames of this")
    best = 0.0
    for _ in range(5):
        calls = 0
        start = now = time.perf_counter()
        while now - start < seconds / 5:
            feed()
            calls += 1
            now = time.perf_counter()
        best = max(best, calls * frames / (now - start))
    return best


def wires() -> dict[str, tuple[Framing, bytes]]:
    """One frame of 64 bytes for each declaration."""
    plain = b"\x68\x00\x3d" + b"v" * 61
    line = b"v" * 62 + b"\r\n"
    field = LengthField(offset=1, width=2)
    found: dict[str, tuple[Framing, bytes]] = {
        "length field": (field, plain),
        "length field, magic": (LengthField(offset=1, width=2, magic=b"\x68", strip=3), plain),
        "length field of 3 bytes": (LengthField(offset=0, width=3), b"\x00\x00\x3d" + b"v" * 61),
        "fixed": (Fixed(size=SIZE), plain),
        "fixed, magic": (Fixed(size=SIZE, magic=b"\x68"), plain),
        "delimiter": (Delimiter(delimiters=(b"\r\n",)), line),
        "two delimiters": (Delimiter(delimiters=(b"\r\n", b"\0")), line),
        "line": (Line(), line),
        "line, magic": (Line(magic=b"v"), line),
    }
    for kind, size in SIZES.items():
        body = b"\x68\x00" + bytes([SIZE - 3 - size]) + b"v" * (SIZE - 3 - size)
        checksum = Checksum(kind)  # type: ignore[arg-type]
        framing = LengthField(offset=1, width=2, adjustment=size, magic=b"\x68", checksum=checksum)
        found[f"length field, magic, {kind}"] = framing, body + checksum_of(checksum.kind)(body).to_bytes(size, "big")
    return found


def hostile() -> dict[str, tuple[Framing, bytes]]:
    """64 KiB of which every byte begins a bad frame."""
    skipping = LengthField(offset=1, width=2, magic=b"h", resync="skip", max_frame=1024)
    summed = LengthField(offset=1, width=2, magic=b"h", resync="skip", checksum=Checksum("crc16-modbus"))
    return {
        "lengths that lie": (skipping, b"h" * CHUNK),
        "checksums that are wrong": (summed, b"h\x00\x10" * (CHUNK // 3)),
        "no delimiter, byte by byte": (Delimiter(delimiters=(b"\r\n",), max_frame=2 * CHUNK), b"\r" * CHUNK),
    }


def main() -> None:
    """A table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2, help="time for each figure")
    seconds = parser.parse_args().seconds
    print(f"{'':45}{'M frames/s':>12}")
    for name, (framing, wire) in wires().items():
        count = CHUNK // len(wire)
        print(f"{name:45}{rate(framing, wire * count, count, seconds) / 1e6:12.2f}")
    print(f"{'64 KiB of':45}{'ms':>12}")
    for name, (framing, chunk) in hostile().items():
        pieces = [chunk[at : at + 1] for at in range(len(chunk))] if "byte by byte" in name else [chunk]
        framer = framer_of(framing)
        start = time.perf_counter()
        for piece in pieces:
            framer.feed(piece)
        print(f"{name:45}{1000 * (time.perf_counter() - start):12.1f}")


if __name__ == "__main__":
    main()
