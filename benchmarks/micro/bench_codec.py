"""Figures of the codec, pure against native: packets per second, and microseconds per small feed.

    python benchmarks/micro/bench_codec.py [--seconds 0.2]

Buffers are 16 KiB of 64-byte payloads on one topic, as a busy publisher's ``recv`` brings them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from iot_mqtt import native
from iot_mqtt.codec import (
    Connect,
    Decoder,
    PacketType,
    Properties,
    PublishRun,
    Request,
    Subscribe,
    encode,
    encode_acks,
    encode_publish,
    encode_run,
)
from iot_mqtt.codec import encoder as encoder_module
from iot_mqtt.codec import runs as runs_module
from iot_mqtt.codec.scan import build
from iot_mqtt.native import _pure
from iot_mqtt.values import ProtocolVersion

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5
TOPIC = b"site/line/plc/0001"
USER = b"\x26\x00\x01k\x00\x01v"


def rate(work: Callable[[], object], each: int, seconds: float) -> float:
    """How many ``each`` per second; the best of three."""
    best = 0.0
    for _ in range(3):
        calls = 0
        start = now = time.perf_counter()
        while now - start < seconds / 3:
            for _ in range(8):
                work()
            calls += 8
            now = time.perf_counter()
        best = max(best, calls * each / (now - start))
    return best


def publish(number: int, *, five: bool, qos: int, properties: bytes = b"", size: int = 64) -> bytes:
    """One PUBLISH."""
    return encode_publish(
        TOPIC,
        b"x" * size,
        five=five,
        qos=qos,
        retain=False,
        dup=False,
        packet_id=number + 1,
        properties=properties,
    )


class Bench:
    """The figures of one twin."""

    def __init__(self, module: Any, seconds: float) -> None:
        self.seconds = seconds
        self.figures: dict[str, float] = {}
        self.decoder_class = type("Twin", (Decoder,), {"__slots__": (), "_scanner": build(module.Scanner)})
        # The process chose one twin for encoding; here each has its turn.
        encoder_module.native = runs_module.native = module  # type: ignore[attr-defined]

    def million(self, name: str, work: Callable[[], object], each: int) -> None:
        """A throughput, in millions of packets per second."""
        self.figures[f"{name}, M/s"] = rate(work, each, self.seconds) / 1e6

    def micro(self, name: str, work: Callable[[], object]) -> None:
        """A cost, in microseconds per call."""
        self.figures[f"{name}, us"] = 1e6 / rate(work, 1, self.seconds)

    def scans(self) -> None:
        """Whole buffers."""
        for five, qos, properties, size in (
            (False, 0, b"", 64),
            (False, 1, b"", 64),
            (True, 0, b"", 64),
            (True, 1, USER, 64),
            (False, 0, b"", 0),
        ):
            one = publish(0, five=five, qos=qos, properties=properties, size=size or 64)
            count = 16_384 // len(one)
            # Payloads of changing size, if none is given.
            wire = b"".join(
                publish(number, five=five, qos=qos, properties=properties, size=size or 30 + number * 37 % 70)
                for number in range(count)
            )
            decoder = self.decoder_class(version=V5 if five else V311)
            (run,) = decoder.feed(wire)
            assert isinstance(run, PublishRun)
            name = f"{'v5' if five else 'v3'} QoS {qos}{', user property' if properties else ''}"
            name += "" if size else ", mixed sizes"
            self.million(f"scan {name}", partial(decoder.feed, wire), count)
            if size and not properties:
                self.encodes(name, run)

    def encodes(self, name: str, run: PublishRun) -> None:
        """One run to its receivers."""
        ids = list(range(1001, 1001 + run.count))

        def split() -> None:
            run._payloads = None
            run.payloads()

        self.million(f"payloads {name}", split, run.count)
        self.million(
            f"to QoS 1 {name}", lambda: encode_run(run, five=run.five, qos=1, retain=False, ids=ids), run.count
        )
        self.million(
            f"to the other version {name}", lambda: encode_run(run, five=not run.five, qos=0, retain=False), run.count
        )

    def acknowledgements(self) -> None:
        """PUBACKs in a row."""
        ids = list(range(1, 1001))
        wire = encode_acks(PacketType.PUBACK, ids, V5)
        decoder = self.decoder_class(version=V5)
        self.million("scan PUBACK", lambda: decoder.feed(wire), 1000)
        self.million("write PUBACK", lambda: encode_acks(PacketType.PUBACK, ids, V5), 1000)

    def connect(self, wire: bytes) -> None:
        """A connection begins."""
        self.decoder_class(1 << 20).feed(wire)

    def small(self) -> None:
        """What one packet costs by itself."""
        for five, qos in ((False, 0), (False, 1), (True, 0), (True, 1)):
            wire = publish(0, five=five, qos=qos, size=48)
            decoder = self.decoder_class(version=V5 if five else V311)
            self.micro(f"feed one {'v5' if five else 'v3'} QoS {qos} of {len(wire)} bytes", partial(decoder.feed, wire))
        self.micro("encode one PUBLISH", lambda: publish(0, five=False, qos=1, size=48))
        decoder = self.decoder_class(version=V311)
        puback = b"\x40\x02\x00\x01"
        self.micro("feed one PUBACK", lambda: decoder.feed(puback))
        self.micro("feed one PINGREQ", lambda: decoder.feed(b"\xc0\x00"))
        subscribe = encode(Subscribe(1, (Request("a/b"),)), V311)
        self.micro("feed one SUBSCRIBE", lambda: decoder.feed(subscribe))
        for version, properties in ((V311, Properties()), (V5, Properties(session_expiry_interval=60))):
            wire = encode(Connect(version, "client-0001", keep_alive=60, properties=properties), version)
            self.micro(f"new decoder and CONNECT {version.name}", partial(self.connect, wire))


def main() -> None:
    """Both twins side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.2, help="time for each figure")
    seconds = parser.parse_args().seconds
    modules: dict[str, Any] = {"pure": _pure}
    if native.HAVE_NATIVE:
        from iot_mqtt.native import _scan

        modules["native"] = _scan
    tables = {}
    for name, module in modules.items():
        bench = Bench(module, seconds)
        bench.scans()
        bench.acknowledgements()
        bench.small()
        tables[name] = bench.figures
    print(f"{'':45}" + "".join(f"{name:>10}" for name in tables))
    for row in tables["pure"]:
        print(f"{row:45}" + "".join(f"{figures[row]:10.2f}" for figures in tables.values()))


if __name__ == "__main__":
    main()
