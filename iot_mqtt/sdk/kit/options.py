"""How hard a codec is tried, and what it must reach. The same seed tries the same things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """Defaults fit a run in CI: some seconds."""

    seed: int = 1
    #: Hostile frames for each of the two checks that make them; the seconds end them earlier.
    frames: int = 10_000
    seconds: float = 10.0
    #: CPU seconds that any check may take on top of that: something without an end is found.
    patience: float = 60.0
    #: Positions at which streams are cut in two; more are drawn evenly.
    cuts: int = 1_000
    glued: int = 50
    #: CPU seconds that one frame may take. The broker calls 50 ms slow.
    frame_seconds: float = 0.02
    #: CPU seconds of one measurement of that.
    measured: float = 0.3
    #: Frames a CPU second, at least, through framing and decode.
    least_rate: float = 2_000.0
    #: Frames, over which memory must not grow.
    memory_frames: int = 4_000
    #: Bytes that a connection may keep.
    state_bytes: int = 256 * 1024
    #: Where the golden vectors are, if not beside the codec.
    vectors: Path | None = None
    #: False: leave them alone, with the configuration they are written for.
    with_vectors: bool = True


#: For the tests of a plugin, which run all day.
QUICK = Options(frames=2_000, seconds=2.0, measured=0.1, cuts=300, memory_frames=1_000)
