"""The keys of the log's caches. Integers are big-endian.

    log         generation (4) │ shard (2) │ stream (4) │ writer (2) │ turn (8)     a page
    log_index   generation (4) │ shard (2) │ stream (4) │ writer (2) │ block (8)    the turns of a stream in a block
                … with stream 0xFFFFFFFF                                            those of all streams of the shard
    log_turns   "r" │ writer (2) │ shard (2) │ slot (2)                             what a recent turn wrote
    log_meta    "g" │ generation (4)                                                a generation
                "s" │ generation (4) │ stream (4)                                   a stream
                "b" │ writer (2)                                                    where the last start began
                "w" │ writer (2) │ block (8)                                        when the turns of a block were

A block is 256 turns. The generation stands in front so that a whole one is under one prefix; its first byte is the
writer (``ports.log.writer_of``), so that those of one writer are too. Writers share nothing but the caches.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from iot_mqtt.ports.log import TURN_BITS, WRITER_SHIFT

BLOCK_BITS: Final = 8
BLOCK_TURNS: Final = 1 << BLOCK_BITS
#: The last turns whose summaries are kept: those of the block that fills, and of the one before it.
SLOTS: Final = 2 * BLOCK_TURNS
#: One batch has no more turns than this, and a start leaves out as many.
MAX_TURNS: Final = 200
#: In the place of a stream: all of them.
ALL_STREAMS: Final = 0xFFFF_FFFF

_PAGE = Struct(">IHIHQ")
_GENERATION = Struct(">cI")
_STREAM = Struct(">cII")
_RING = Struct(">cHHH")
_BLOCK = Struct(">cHQ")
_NUMBERED = Struct(">cH")
_U32 = Struct(">I")

_pack_page = _PAGE.pack


def turn_of(position: int) -> int:
    return position >> TURN_BITS


def block_of(turn: int) -> int:
    return turn >> BLOCK_BITS


def page_key(generation: int, shard: int, stream: int, turn: int) -> bytes:
    """Of a page; and of an index entry, with a block in the place of the turn."""
    return _pack_page(generation, shard, stream, generation >> WRITER_SHIFT, turn)


def stream_pages(generation: int, shard: int, stream: int) -> bytes:
    """What the keys of a stream's pages begin with; ``turn_key`` is the rest."""
    return _pack_page(generation, shard, stream, generation >> WRITER_SHIFT, 0)[:-8]


def turn_key(turn: int) -> bytes:
    """Where the keys of a turn's pages end."""
    return turn.to_bytes(8, "big")


def place_of(key: bytes) -> tuple[int, int]:
    """The writer, and the turn of a page or the block of an index entry."""
    _, _, _, writer, turn = _PAGE.unpack(key)
    return writer, turn


def generation_prefix(generation: int) -> bytes:
    """Of everything of a generation, in log and log_index."""
    return _U32.pack(generation)


def generations_prefix(writer: int) -> bytes:
    """Of the generations of a writer."""
    return b"g" + bytes((writer,))


def generation_key(generation: int) -> bytes:
    return _GENERATION.pack(b"g", generation)


def streams_prefix(generation: int) -> bytes:
    """Of the stream records of a generation."""
    return _GENERATION.pack(b"s", generation)


def stream_key(generation: int, stream: int) -> bytes:
    return _STREAM.pack(b"s", generation, stream)


def begun_key(writer: int) -> bytes:
    return _NUMBERED.pack(b"b", writer)


def ring_prefix(writer: int) -> bytes:
    """Of the summaries of a writer's recent turns."""
    return _NUMBERED.pack(b"r", writer)


def ring_key(writer: int, shard: int, turn: int) -> bytes:
    return _RING.pack(b"r", writer, shard, turn % SLOTS)


def shard_of_ring(key: bytes) -> int:
    return int(_RING.unpack(key)[2])


def writer_of_ring(key: bytes) -> int:
    return int(_RING.unpack(key)[1])


def times_key(writer: int, block: int) -> bytes:
    return _BLOCK.pack(b"w", writer, block)
