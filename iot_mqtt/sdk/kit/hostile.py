"""Checks with what no honest gateway sends, and with commands that nobody should give. Seeded and bounded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from iot_mqtt.sdk.codec import Command
from iot_mqtt.sdk.event_json import command_from
from iot_mqtt.sdk.kit.card import Outcome
from iot_mqtt.sdk.kit.conversation import Conversation, Subject
from iot_mqtt.sdk.kit.forging import from_nothing, mended, mutated, units
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.rules import Fault
from iot_mqtt.sdk.kit.vectors import Vector

#: Reasons of bad frames are labels of a metric; more than these are no closed set.
_MAX_REASONS = 32
#: Hostile frames on one connection, if it lives that long.
_ON_ONE = 40

#: Where in a connection, the bytes, and whether they are a whole frame as far as the framing can tell.
Making = Callable[[Subject, Random], Iterator[tuple[Vector | None, bytes, bool]]]


def random_bytes(subject: Subject, options: Options) -> Outcome:
    """Noise, raw and as frames that the framing takes."""
    return _survives(subject, options, _noise)


def mutated_frames(subject: Subject, options: Options) -> Outcome:
    """Golden frames with bytes flipped, left out, put in, repeated; most with length and checksum made right again."""
    if not subject.vectors.up():
        return Outcome.not_for("no golden frames")
    return _survives(subject, options, _mutants)


def _survives(subject: Subject, options: Options, making: Making) -> Outcome:
    outcome = Outcome()
    ends: Counter[str] = Counter()
    sent = reached = 0
    until = time.monotonic() + options.seconds
    conversation: Conversation | None = None
    place: Vector | None = None
    on_this = 0
    for vector, data, is_whole in making(subject, Random(options.seed)):
        if sent >= options.frames or len(outcome.complaints) >= 5 or (sent % 64 == 0 and time.monotonic() > until):
            break
        sent += 1
        try:
            if conversation is None or conversation.end or vector is not place or on_this >= _ON_ONE:
                reached += conversation.frames if conversation else 0
                conversation = Conversation.after(subject, vector) if vector else Conversation(subject)
                reached -= conversation.frames
                place, on_this = vector, 0
            on_this += 1
            conversation.feed(data)
            conversation.events.clear()
        except Fault as fault:
            outcome.complain(f"frame {sent} ({data.hex():.200}): {fault}")
            conversation = None
        else:
            if conversation.end:
                ends[conversation.end] += 1
            elif not is_whole or conversation.buffered:
                # Everything that follows would be the rest of this one.
                reached += conversation.frames
                conversation = None
    if len(ends) > _MAX_REASONS:
        outcome.complain(f"BadFrame has {len(ends)} reasons; more than {_MAX_REASONS} make a metric grow for ever")
    reached += conversation.frames if conversation else 0
    common = ", ".join(f"{reason} {count}" for reason, count in ends.most_common(3))
    outcome.figure = f"{sent} frames, {reached} reached the codec; {common or 'nothing refused'}"
    outcome.figures.update(frames=sent, reached=reached, refused=ends.total())
    return outcome


def _noise(subject: Subject, random: Random) -> Iterator[tuple[Vector | None, bytes, bool]]:
    framing = subject.codec.framing
    places: list[Vector | None] = [None]
    places += (vector for vector in subject.vectors.up() if vector.before)
    longest = max((len(frame) for vector in subject.vectors.up() for frame in vector.frames), default=64)
    while True:
        place = random.choice(places)
        for _ in range(random.randrange(1, 8)):
            noise = from_nothing(framing, longest, random)
            is_whole = random.random() < 0.7
            yield place, mended(framing, noise) if is_whole else noise, is_whole


def _mutants(subject: Subject, random: Random) -> Iterator[tuple[Vector | None, bytes, bool]]:
    framing = subject.codec.framing
    vectors = subject.vectors.up()
    frames = [frame for vector in vectors for frame in units(framing, vector.frames)]
    while True:
        vector = random.choice(vectors)
        own = units(framing, vector.frames)
        for _ in range(random.randrange(1, 8)):
            frame = mutated(random.choice(own), random.choice(frames), random)
            is_whole = random.random() < 0.8
            yield vector, mended(framing, frame) if is_whole else frame, is_whole


def odd_commands(subject: Subject, _: Options) -> Outcome:
    """Commands with strange numbers, devices and values are encoded or refused, and nothing else."""
    outcome = Outcome()
    vectors = [vector for vector in subject.vectors.vectors.values() if vector.command is not None]
    known = [command_from(vector.command) for vector in vectors if vector.command is not None]
    place = vectors[0] if vectors else next((one for one in subject.vectors.up() if one.before), None)
    encoded = refused = 0
    for command in _odd(known or [Command(1, "1", {}, b"{}")]):
        try:
            conversation = Conversation.after(subject, place) if place else Conversation(subject)
            result = conversation.encode(command)
            encoded, refused = (encoded, refused + 1) if isinstance(result, str) else (encoded + 1, refused)
        except Fault as fault:
            outcome.complain(str(fault))
    for word, argument in (("welcome", None), ("refuse", "not_authorized"), ("refuse", ""), ("safe", 0)):
        try:
            conversation = Conversation.after(subject, place) if place else Conversation(subject)
            conversation.say(word, argument)
        except Fault as fault:
            outcome.complain(str(fault))
    outcome.figure = f"{encoded + refused} commands, {encoded} encoded, {refused} refused"
    outcome.figures.update(encoded=encoded, refused=refused)
    return outcome


_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 16, 1 << 64, -1.5, 1e300, float("nan"), "", "x" * 70_000, "\u20ac\0", [], [1], {},
)  # fmt: skip


def _odd(known: list[Command]) -> Iterator[Command]:
    """Each known command with one thing after the other made strange."""
    for command in known:
        for number in (1, 255, 256, 65_535, 65_536, 0xFFFFFFFF):
            yield replace(command, number=number)
        for device in ("0", "99999999999", "-1", "nobody", "Gerät 7", "\u20ac", "x" * 64):
            yield replace(command, device=device)
        for body in (b"", b"\xff\xfe", b"[1, 2]", b"null", b"x" * 100_000):
            yield replace(command, values={}, body=body)
        yield replace(command, values={"no such thing": 1})
        for tag in command.values:
            yield replace(command, values={name: value for name, value in command.values.items() if name != tag})
            for value in _VALUES:
                yield replace(command, values={**command.values, tag: value})
