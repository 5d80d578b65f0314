"""Very many nearly right packets to the decoder alone, in both twins: what a storm has no time for.

    python -m tests.fuzz.flood --packets 10000000 [--seed 5]

Streams as in a storm, in two pieces, for each version. Both twins say the same, an error is the last thing that they
say, and nothing is raised.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from typing import Any

from iot_mqtt.codec import AckRun, PublishRun
from iot_mqtt.errors import MqttError
from tests.cases.twins import DECODERS, fields
from tests.fuzz.packets import Streams, streams_of


def flood(packets: int, seed: int) -> Counter[str]:
    """So many packets; raises what is wrong with the first stream that goes wrong."""
    dice, counts = random.Random(seed), Counter[str]()
    streams = streams_of(dice)
    while counts["sent"] < packets:
        one_stream(dice, dice.choice(streams), counts)
    return counts


def one_stream(dice: random.Random, streams: Streams, counts: Counter[str]) -> None:
    """CONNECT and some packets, of which few are wrong: the first that is one ends it."""
    wire = [streams.connect(0.02), *streams.packets(dice.choice((5, 50, 200)), dice.choice((0.0, 0.005, 0.02, 0.2)))]
    counts["sent"] += len(wire)
    counts["streams"] += 1
    stream = b"".join(wire)
    cut = dice.randrange(len(stream) + 1)
    said: list[list[Any]] = []
    for kind in DECODERS.values():
        decoder = kind(100_000, topic_alias_maximum=_aliases(cut))
        items = [*decoder.feed(stream[:cut]), *decoder.feed(stream[cut:])]
        assert not [item for item in items[:-1] if isinstance(item, MqttError)], stream.hex()
        said.append(fields(items))
        if len(said) == 1:
            counts["read"] += sum(_size(item) for item in items)
            counts["refused"] += bool(items) and isinstance(items[-1], MqttError)
    assert said[0] == said[-1], f"the twins differ, cut at {cut}: {stream.hex()}"


def _aliases(cut: int) -> int | None:
    """Whether the decoder sees to aliases itself, and how many there may be."""
    return (None, 3, 65_535)[cut % 3]


def _size(item: object) -> int:
    if isinstance(item, PublishRun):
        return item.count
    return len(item.ids) if isinstance(item, AckRun) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.flood", description="Mutated packets to the decoders.")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000_000))
    told = parser.parse_args()
    print(f"seed {told.seed}", flush=True)
    began = time.monotonic()
    counts = flood(told.packets, told.seed)
    print(
        f"{counts['sent']} packets in {counts['streams']} streams to {' and '.join(DECODERS)}: {counts['read']} read "
        f"by each, {counts['refused']} streams refused, no fault; {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
