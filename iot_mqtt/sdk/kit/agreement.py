"""Checks that parts of a codec agree: decode_many with decode, commands with the framing, data with the schema."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

from iot_mqtt.framing import framer_of
from iot_mqtt.sdk.codec import Codec
from iot_mqtt.sdk.errors import BadFrame
from iot_mqtt.sdk.event_json import as_json, command_from, difference, values_of
from iot_mqtt.sdk.events import Event, Readings
from iot_mqtt.sdk.kit.card import Outcome
from iot_mqtt.sdk.kit.conversation import Conversation, Subject, decoded, said
from iot_mqtt.sdk.kit.forging import mended, mutated, units
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.rules import NOT_ITS_OWN, Fault, check_reason
from iot_mqtt.sdk.kit.streams import wholly_framed
from iot_mqtt.sdk.kit.vectors import Vector

_BATCH = 20


def many_as_one(subject: Subject, options: Options) -> Outcome:
    """``decode_many`` gives what ``decode`` gives, also when a frame among them is bad."""
    if subject.codec.decode_many is Codec.decode_many:
        return Outcome.not_for("decode_many is the SDK's own")
    outcome = Outcome()
    random = Random(options.seed)
    rounds = 0
    for vector in subject.vectors.up():
        frames = _cut_out(subject, vector.frames)
        batches = [frames, frames * 3]
        own = units(subject.codec.framing, vector.frames)
        for _ in range(min(50, options.frames // 20)):
            hostile = [mended(subject.codec.framing, mutated(one, one, random)) for one in own]
            batches.append((frames + _cut_out(subject, tuple(hostile)) + frames)[: max(_BATCH, 3 * len(frames))])
        for batch in batches:
            rounds += 1
            together = Conversation.after(subject, vector).codec
            events, error = decoded(together, batch)
            alone, reason = _one_by_one(Conversation.after(subject, vector).codec, batch)
            found = [*map(_told, events), {"end": error.reason if error else ""}]
            if text := difference([*map(_told, alone), {"end": reason}], found, "decode_many"):
                outcome.complain(f"{vector.name}: {text}")
    if not rounds:
        return Outcome.not_for("no golden frames")
    outcome.figure = f"{rounds} batches"
    outcome.figures["batches"] = rounds
    return outcome


def _cut_out(subject: Subject, frames: tuple[bytes, ...]) -> list[bytes]:
    """The frames as a codec gets them."""
    cut: list[bytes] = []
    for frame in frames:
        cut += [item for item in framer_of(subject.codec.framing).feed(frame) if isinstance(item, bytes)]
    return cut


def _told(event: Event) -> dict[str, Any]:
    return as_json(event, secrets=True)


def _one_by_one(codec: Codec, frames: list[bytes]) -> tuple[list[Event], str]:
    events: list[Event] = []
    for frame in frames:
        try:
            events.extend(codec.decode(frame))
        except BadFrame as bad:
            check_reason(bad.reason)
            return events, bad.reason
        except NOT_ITS_OWN:
            raise
        except BaseException as error:
            raise Fault(f"decode({frame.hex():.200}) raised {said(error)}; only BadFrame may be raised") from error
    return events, ""


def round_trip(subject: Subject, _: Options) -> Outcome:
    """What a command is encoded as are whole frames; where a vector has the device's answer, it is understood."""
    if not subject.vectors.commands_framed:
        return Outcome.not_for("commands are framed otherwise")
    outcome = Outcome()
    count = answered = 0
    for vector in subject.vectors.vectors.values():
        if vector.command is None or vector.cannot is not None:
            continue
        count += 1
        conversation = Conversation.after(subject, vector)
        data = conversation.encode(command_from(vector.command))
        if isinstance(data, str) or not wholly_framed(subject, data):
            shown = data if isinstance(data, str) else data.hex(" ")
            outcome.complain(
                f"{vector.name}: the framing does not take what encode gave ({shown:.200}); if commands have another "
                'framing, say "commands_framed": false'
            )
        for frame in vector.frames:
            conversation.feed(frame)
        answered += bool(vector.frames)
    if not count:
        return Outcome.not_for("no vector has a command")
    outcome.figure = f"{count} commands, {answered} with the device's answer"
    outcome.figures.update(commands=count, answered=answered)
    return outcome


def schema_held(subject: Subject, options: Options) -> Outcome:
    """Tags and types of readings are those of the schema, of golden frames and of mutated ones."""
    schema = subject.codec.schema
    if not schema.tags:
        return Outcome.not_for("the schema has no tags")
    outcome = Outcome()
    seen: set[str] = set()
    random = Random(options.seed)
    for vector in subject.vectors.up():
        try:
            conversation = Conversation.after(subject, vector, with_schema=True)
            conversation.play(vector)
            seen.update(tag for event in conversation.events if isinstance(event, Readings) for tag in values_of(event))
            _mutants_hold(subject, vector, random, options)
        except Fault as fault:
            outcome.complain(f"{vector.name}: {fault}")
    known = seen & set(schema.tags)
    outcome.figure = f"{len(known)} of {len(schema.tags)} tags are in golden frames"
    if missing := sorted(set(schema.tags) - seen):
        outcome.figure += f", not {', '.join(missing[:5])}"
    outcome.figures.update(tags=len(schema.tags), seen=len(known))
    return outcome


def _mutants_hold(subject: Subject, vector: Vector, random: Random, options: Options) -> None:
    conversation = Conversation.after(subject, vector, with_schema=True)
    own = units(subject.codec.framing, vector.frames)
    for frame in islice((one for _ in range(1000) for one in own), min(300, options.frames)):
        if conversation.end:
            conversation = Conversation.after(subject, vector, with_schema=True)
        conversation.feed(mended(subject.codec.framing, mutated(frame, frame, random)))
        conversation.events.clear()
