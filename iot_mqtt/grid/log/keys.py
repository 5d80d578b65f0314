"""The keys of the log's caches. Integers are big-endian.

    log         generation (4) │ shard (2) │ stream (4) │ writer (2) │ turn (8)     a page
    log_index   generation (4) │ shard (2) │ stream (4) │ writer (2) │ block (8)    the turns of a stream in a block
                … with stream 0xFFFFFFFF                                            those of all streams of the shard
    log_turns   "r" │ writer (2) │ shard (2) │ slot (2)                             what a recent turn wrote
    log_meta    "g" │ generation (4)                                                a generation
                "s" │ generation (4) │ stream (4)                                   a stream
                "b" │ writer (2)                                                    where the last start began
                "w" │ writer (2) │ block (8)                                        when the turns of a block were

A block is 256 turns. The generation stands in front so that a whole one is under one prefix.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from iot_mqtt.ports.log import TURN_BITS

#: Who writes; one node has one log and this number.
WRITER: Final = 0
BLOCK_BITS: Final = 8
BLOCK_TURNS: Final = 1 << BLOCK_BITS
#: The last turns whose summaries are kept: those of the block that fills, and of the one before it.
SLOTS: Final = 2 * BLOCK_TURNS
#: In the place of a stream: all of them.
ALL_STREAMS: Final = 0xFFFF_FFFF

_PAGE = Struct(">IHIHQ")
_GENERATION = Struct(">cI")
_STREAM = Struct(">cII")
_RING = Struct(">cHHH")
_BLOCK = Struct(">cHQ")
_U32 = Struct(">I")

page_key = _PAGE.pack
GENERATIONS: Final = b"g"
STREAMS: Final = b"s"
BEGUN: Final = b"b" + WRITER.to_bytes(2, "big")
RING: Final = b"r" + WRITER.to_bytes(2, "big")


def turn_of(position: int) -> int:
    return position >> TURN_BITS


def block_of(turn: int) -> int:
    return turn >> BLOCK_BITS


def generation_prefix(generation: int) -> bytes:
    """Of everything of a generation, in log and log_index."""
    return _U32.pack(generation)


def generation_key(generation: int) -> bytes:
    return _GENERATION.pack(GENERATIONS, generation)


def streams_prefix(generation: int) -> bytes:
    """Of the stream records of a generation."""
    return _GENERATION.pack(STREAMS, generation)


def stream_key(generation: int, stream: int) -> bytes:
    return _STREAM.pack(STREAMS, generation, stream)


def ring_key(shard: int, turn: int) -> bytes:
    return _RING.pack(b"r", WRITER, shard, turn % SLOTS)


def shard_of_ring(key: bytes) -> int:
    return int(_RING.unpack(key)[2])


def times_key(block: int) -> bytes:
    return _BLOCK.pack(b"w", WRITER, block)
