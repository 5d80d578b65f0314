"""Checks of what a codec costs: CPU time, memory, and things it must not touch.

Times are CPU time of this thread, so that a busy machine does not fail a codec. Memory is what ``tracemalloc`` sees;
what native code allocates by itself is not seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from iot_mqtt.framing import framer_of
from iot_mqtt.sdk.codec import Codec
from iot_mqtt.sdk.event_json import command_from
from iot_mqtt.sdk.events import Readings
from iot_mqtt.sdk.kit.card import Outcome
from iot_mqtt.sdk.kit.conversation import Conversation, Subject, decoded
from iot_mqtt.sdk.kit.memory import in_use, traced
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.vectors import Vector
from iot_mqtt.sdk.kit.watching import watched

_BATCH = 64
_CHUNK = 65_536
#: Growth that is no growth: caches that fill, and what the measuring itself keeps.
_NOISE = 32 * 1024
_CONNECTIONS = 100
_DESCRIPTORS = Path("/proc/self/fd")


def _steady(subject: Subject) -> Vector | None:
    """Frames that a gateway sends all day: no bad ones, no end, no login; the vector with most readings a frame."""
    best: tuple[float, Vector] | None = None
    for vector in subject.vectors.up():
        if vector.bad:
            continue
        conversation = Conversation.after(subject, vector)
        for frame in vector.frames * 2:
            conversation.feed(frame)
        readings = sum(isinstance(event, Readings) for event in conversation.events) / len(vector.frames)
        if not conversation.end and (best is None or readings > best[0]):
            best = (readings, vector)
    return best[1] if best else None


def throughput(subject: Subject, options: Options) -> Outcome:
    """Frames a CPU second: decode alone, and with the framing before it."""
    vector = _steady(subject)
    if vector is None:
        return Outcome.not_for("no golden frames that can come again and again")
    alone = _rate_alone(subject, vector, options.measured)
    framed = _rate_framed(subject, vector, options.measured)
    size = sum(map(len, vector.frames)) / len(vector.frames)
    outcome = Outcome(
        f"{alone:,.0f} frames/s decode alone, {framed:,.0f} with framing ({size:.0f} bytes: {vector.name})"
    )
    outcome.figures.update(decode=round(alone), framed=round(framed), frame_bytes=round(size))
    if framed < options.least_rate:
        outcome.complain(f"at least {options.least_rate:,.0f} frames/s are wanted")
    return outcome


def _rate_alone(subject: Subject, vector: Vector, seconds: float) -> float:
    framer = framer_of(subject.codec.framing)
    frames = [item for item in framer.feed(b"".join(vector.frames)) if isinstance(item, bytes)]
    codec = Conversation.after(subject, vector).codec

    def work(times: int) -> int:
        codec.decode_many(frames * times)
        return len(frames) * times

    return _rate(work, max(1, _BATCH // len(frames)), seconds)


def _rate_framed(subject: Subject, vector: Vector, seconds: float) -> float:
    stream = b"".join(vector.frames)
    framer = framer_of(subject.codec.framing)
    codec = Conversation.after(subject, vector).codec

    def work(times: int) -> int:
        frames = [item for item in framer.feed(stream * times) if isinstance(item, bytes)]
        for place in range(0, len(frames), _BATCH):
            codec.decode_many(frames[place : place + _BATCH])
        return len(frames)

    return _rate(work, max(1, _CHUNK // len(stream)), seconds)


def _rate(work: Callable[[int], int], most: int, seconds: float) -> float:
    """Frames a second; begins with little at once, because a codec may be very slow."""
    count, times, start = 0, 1, time.thread_time()
    while (spent := time.thread_time() - start) < seconds:
        count += work(times)
        times = min(most, times * 2)
    return count / spent


def frame_time(subject: Subject, options: Options) -> Outcome:
    """CPU time of the slowest golden frame, the best of three, so that a pause for garbage is nobody's fault."""
    outcome = Outcome()
    slowest, name = 0.0, ""
    for vector in subject.vectors.up():
        best = [float("inf")] * len(vector.frames)
        for _ in range(3):
            conversation = Conversation.after(subject, vector)
            for place, frame in enumerate(vector.frames):
                start = time.thread_time()
                conversation.feed(frame)
                best[place] = min(best[place], time.thread_time() - start)
        if max(best) > slowest:
            slowest, name = max(best), vector.name
    if not name:
        return Outcome.not_for("no golden frames")
    if slowest > options.frame_seconds:
        outcome.complain(f"{name} takes {slowest * 1000:.1f} ms, {options.frame_seconds * 1000:g} ms are allowed")
    outcome.figure = f"{slowest * 1e6:.0f} µs at most ({name})"
    outcome.figures["slowest_us"] = round(slowest * 1e6)
    return outcome


def memory(subject: Subject, options: Options) -> Outcome:
    """Frames leave nothing behind; a connection keeps a bounded state, and gives it back."""
    vector = _steady(subject)
    if vector is None:
        return Outcome.not_for("no golden frames that can come again and again")
    with traced():
        grown, count = _growth(subject, vector, options.memory_frames)
        state, left = _state(subject, vector)
    outcome = Outcome(f"{state:,.0f} bytes a connection, {max(0, grown):,.0f} bytes more after {count} frames")
    outcome.figures.update(state_bytes=state, grown_bytes=grown, frames=count, left_bytes=left)
    if grown > _NOISE and grown > count:
        outcome.complain(f"{grown / count:.1f} bytes stay for every frame: {grown:,.0f} after {count}")
    if state > options.state_bytes:
        outcome.complain(f"a connection keeps {state:,.0f} bytes, {options.state_bytes:,} are allowed")
    if left * _CONNECTIONS > _NOISE and left > 64:
        outcome.complain(f"a connection that is over leaves {left:,.0f} bytes behind")
    return outcome


def _growth(subject: Subject, vector: Vector, frames: int) -> tuple[float, int]:
    """Bytes that are more after as many frames again."""
    conversation = Conversation.after(subject, vector)

    def play(count: int) -> int:
        done = 0
        while done < count and not conversation.end:
            for frame in vector.frames:
                conversation.feed(frame)
                done += 1
            conversation.events.clear()
        return done

    play(frames)
    before = in_use()
    count = play(frames)
    return in_use() - before, max(1, count)


def _state(subject: Subject, vector: Vector) -> tuple[float, float]:
    """Bytes of one open connection, and what stays of one that was closed."""

    def made() -> Codec:
        conversation = Conversation.after(subject, vector)
        conversation.play(vector)
        codec: Codec = conversation.codec
        return codec

    del (warm := [made() for _ in range(_CONNECTIONS)])[:]
    before = in_use()
    codecs = [made() for _ in range(_CONNECTIONS)]
    there = in_use()
    del codecs, warm
    return (there - before) / _CONNECTIONS, max(0.0, (in_use() - before) / _CONNECTIONS)


def quiet(subject: Subject, _: Options) -> Outcome:
    """No threads, no files, no sockets, no processes. Best effort: native code can hide them."""
    outcome = Outcome()
    threads, descriptors = threading.active_count(), _descriptors()
    kept: list[Conversation] = []
    with watched() as seen:
        for vector in subject.vectors.vectors.values():
            conversation = Conversation.after(subject, vector)
            conversation.play(vector)
            conversation.encode(command_from({"device": "1"}))
            kept.append(conversation)
        if not kept:
            conversation = Conversation(subject)
            decoded(conversation.codec, [b"\0" * 64])
            kept.append(conversation)
    for what in sorted(seen):
        outcome.complain(f"the codec called {what}; it gets bytes and gives bytes, and does nothing else")
    if (more := threading.active_count() - threads) > 0:
        outcome.complain(f"{more} threads were started")
    if (more := _descriptors() - descriptors) > 0:
        outcome.complain(f"{more} file descriptors stay open")
    outcome.figure = "no threads, files, sockets or processes" if not outcome.complaints else ""
    return outcome


def _descriptors() -> int:
    return sum(1 for _ in _DESCRIPTORS.iterdir()) if _DESCRIPTORS.exists() else 0
