"""Checks with golden frames: that they mean what they should, however the network cuts them."""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.framing import Fixed, LengthField, framer_of
from iot_mqtt.sdk.event_json import difference
from iot_mqtt.sdk.kit.card import Outcome
from iot_mqtt.sdk.kit.conversation import Conversation, Subject
from iot_mqtt.sdk.kit.forging import mended, with_length
from iot_mqtt.sdk.kit.memory import in_use, traced
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.rules import Fault
from iot_mqtt.sdk.kit.vectors import Vector

#: Vectors that are led on without an end, and bytes of that at once.
_ENDLESS = 2
_CHUNK = 16_384
#: Pieces of a glued stream, in bytes: odd, so that frames are cut everywhere.
_PIECE = 1_021


def golden(subject: Subject, _: Options) -> Outcome:
    """Each vector gives the events, the bytes or the refusal that it says."""
    outcome = Outcome()
    vectors = subject.vectors.vectors
    if not subject.vectors.up():
        outcome.complain(
            "there are no golden frames: write vectors.json beside the codec, from the protocol's document"
        )
    for vector in vectors.values():
        try:
            for text in _held_against(subject, vector):
                outcome.complain(f"{vector.name}: {text}")
        except (Fault, ValueError) as error:
            outcome.complain(f"{vector.name}: {error}")
    outcome.figure = f"{len(vectors)} vectors"
    outcome.figures["vectors"] = len(vectors)
    return outcome


def _held_against(subject: Subject, vector: Vector) -> Iterator[str]:
    conversation = Conversation.after(subject, vector)
    before = conversation.frames
    if conversation.end:
        yield f"what comes before it ended the connection: {conversation.end}"
        return
    result = conversation.play(vector)
    if vector.cannot is not None:
        if not isinstance(result, str):
            yield "the command was encoded, CannotEncode was expected"
        elif vector.cannot not in result:
            yield f"CannotEncode says {result!r}, without {vector.cannot!r}"
    elif isinstance(result, str):
        yield f"the command was not encoded: {result}"
    elif vector.data is not None and result != vector.data:
        yield f"gave {(result or b'').hex(' ')}, {vector.data.hex(' ')} was expected"
    if vector.events is not None:
        told = [event for event in conversation.story() if "end" not in event]
        if text := difference(list(vector.events), told, "events"):
            yield text
    end = str(conversation.end)
    if end not in ((vector.bad,) if vector.bad else ("", "closed")):
        yield f"ended with {end or 'nothing'!r}, {vector.bad or 'nothing'!r} was expected"
    framing = subject.codec.framing
    expected = len(vector.frames)
    if isinstance(framing, Fixed):  # a vector may have them one by one, or as the telegram that they are together
        expected = sum(map(len, vector.frames)) // framing.size
    if not vector.bad and conversation.frames - before != expected:
        yield f"the framing made {conversation.frames - before} frames of {expected}"


def cut(subject: Subject, options: Options) -> Outcome:
    """A stream that arrives in two pieces, or byte by byte, means the same."""
    vectors = subject.vectors.up()
    if not vectors:
        return Outcome.not_for("no golden frames")
    outcome = Outcome()
    total = sum(sum(map(len, vector.frames)) for vector in vectors)
    step = max(1, total // options.cuts)
    count = 0
    for vector in vectors:
        whole = Conversation.after(subject, vector)
        for frame in vector.frames:
            whole.feed(frame)
        stream = b"".join(vector.frames)
        # Near both ends of the stream headers and checksums are cut; these places are never left out.
        places = sorted({*range(1, len(stream), step), *range(1, min(16, len(stream))), max(1, len(stream) - 1)})
        for place in places:
            count += 1
            _compare(subject, vector, whole, [stream[:place], stream[place:]], f"cut at byte {place}", outcome)
        pieces = [stream[place : place + 1] for place in range(len(stream))]
        _compare(subject, vector, whole, pieces, "byte by byte", outcome)
    outcome.figure = f"{count} places" + (f", every {step}th" if step > 1 else ", every one")
    outcome.figures["cuts"] = count
    return outcome


def glued(subject: Subject, options: Options) -> Outcome:
    """Many frames in one piece mean the same as one by one."""
    vectors = [vector for vector in subject.vectors.up() if not vector.bad]
    if not vectors:
        return Outcome.not_for("no golden frames")
    outcome = Outcome(figure=f"× {options.glued}, {len(vectors)} vectors")
    for vector in vectors:
        whole = Conversation.after(subject, vector)
        for frame in vector.frames * options.glued:
            whole.feed(frame)
        stream = b"".join(vector.frames) * options.glued
        pieces = [stream[place : place + _PIECE] for place in range(0, len(stream), _PIECE)]
        _compare(subject, vector, whole, [stream], "all at once", outcome)
        _compare(subject, vector, whole, pieces, f"in pieces of {_PIECE} bytes", outcome)
    return outcome


def _compare(
    subject: Subject, vector: Vector, whole: Conversation, pieces: list[bytes], how: str, outcome: Outcome
) -> None:
    other = Conversation.after(subject, vector)
    for piece in pieces:
        other.feed(piece)
    if other.events == whole.events and other.end == whole.end:
        return
    if text := difference(whole.story(), other.story(), "events"):
        outcome.complain(f"{vector.name}, {how}: {text}")


def sizes(subject: Subject, options: Options) -> Outcome:
    """Frames that are too long, empty, negative or shorter and longer than they say."""
    framing = subject.codec.framing
    outcome = Outcome()
    for vector in subject.vectors.up():
        for frame in vector.frames:
            if len(frame) > framing.max_frame and not isinstance(framing, Fixed):
                outcome.complain(
                    f"{vector.name}: a golden frame has {len(frame)} bytes, max_frame is {framing.max_frame}"
                )
    if isinstance(framing, Fixed):
        return _without_end(subject, options, outcome)
    streams = _lying(subject) if isinstance(framing, LengthField) else _endless(subject)
    # Without fail-fast it is told only when all of it went by, which may be never.
    is_told = framing.resync == "close" and getattr(framing, "fail_fast", True)
    count = 0
    for place, how, stream in streams:
        count += 1
        conversation = Conversation.after(subject, place) if place else Conversation(subject)
        try:
            for start in range(0, len(stream), 65_536):
                conversation.feed(stream[start : start + 65_536])
        except Fault as fault:
            outcome.complain(f"{how}: {fault}")
        if conversation.buffered > framing.max_frame:
            outcome.complain(f"{how}: {conversation.buffered} bytes are kept, max_frame is {framing.max_frame}")
        if how.startswith("oversize") and is_told and not conversation.end:
            outcome.complain(f"{how}: was taken")
    outcome.figure = f"{count} frames: oversize, empty, negative, lying"
    outcome.figures["frames"] = count
    return outcome


def _without_end(subject: Subject, options: Options, outcome: Outcome) -> Outcome:
    """All frames have one size, but a codec may put something longer together: it must not keep it without a limit."""
    framing = subject.codec.framing
    assert isinstance(framing, Fixed)
    for vector, frame in _places(subject)[:_ENDLESS]:
        piece = mended(framing, b"0" * framing.size)
        conversation = Conversation.after(subject, vector) if vector else Conversation(subject)
        with traced():
            before, kept = in_use(), 0
            conversation.feed(frame[: framing.size])
            for _ in range(0, 2 * options.state_bytes, _CHUNK):
                conversation.feed(piece * (_CHUNK // framing.size + 1))
                conversation.events.clear()
                if (kept := in_use() - before) > options.state_bytes:
                    break
        if kept > options.state_bytes:
            name = vector.name if vector else "zeros"
            outcome.complain(f"without an end, {name}: {kept:,} bytes are kept, {options.state_bytes:,} are allowed")
    outcome.figure = "all frames have one size; what has no end is not kept"
    return outcome


def _places(subject: Subject) -> list[tuple[Vector | None, bytes]]:
    """Golden frames, and where in a connection they come; without any, one made of zeros."""
    places: list[tuple[Vector | None, bytes]] = []
    places += ((vector, vector.frames[0]) for vector in subject.vectors.up())
    return places or [(None, bytes(64))]


def _lying(subject: Subject) -> Iterator[tuple[Vector | None, str, bytes]]:
    framing = subject.codec.framing
    assert isinstance(framing, LengthField)
    top = 1 << (8 * framing.width)
    for vector, frame in _places(subject):
        value = int.from_bytes(frame[framing.offset : framing.offset + framing.width], framing.order)
        over = framing.max_frame + 1 - framing.offset - framing.width - framing.adjustment
        lengths = {0, 1, value - 1, value + 1, value * 2, top - 1, top // 2, top // 2 - 1, over - 1, over}
        for length in sorted(length for length in lengths if 0 <= length < top):
            size = length + framing.offset + framing.width + framing.adjustment
            how = "oversize, length" if size > framing.max_frame else "length"
            stream = with_length(framing, frame, length) + frame + bytes(min(size, framing.max_frame))
            yield vector, f"{how} {length} in {vector.name if vector else 'zeros'}", stream


def _endless(subject: Subject) -> Iterator[tuple[Vector | None, str, bytes]]:
    framing = subject.codec.framing
    ends = getattr(framing, "delimiters", (b"\n", b"\r\n"))
    for vector, frame in _places(subject):
        name = vector.name if vector else "zeros"
        yield vector, f"oversize, without an end, {name}", framing.magic + b"0" * (framing.max_frame + 1)
        yield vector, f"oversize, {name}", framing.magic + b"0" * framing.max_frame + ends[0]
        for end in ends:
            yield vector, f"empty, {name}", end * 3 + frame
            yield vector, f"short, {name}", framing.magic + end + frame[:1] + end


def wholly_framed(subject: Subject, data: bytes) -> bool:
    """Whether bytes are whole frames, and nothing else."""
    framer = framer_of(subject.codec.framing)
    items = framer.feed(data)
    return bool(items) and not framer.over and not framer.skipped and not framer.buffered
