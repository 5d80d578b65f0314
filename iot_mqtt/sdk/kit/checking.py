"""The kit itself: all checks of a codec, one after the other, each with a time limit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from iot_mqtt.sdk import fitting
from iot_mqtt.sdk.codec import Codec
from iot_mqtt.sdk.config import BadConfig, config_from
from iot_mqtt.sdk.kit import agreement, costs, hostile, streams
from iot_mqtt.sdk.kit.card import Outcome, Score, ScoreCard
from iot_mqtt.sdk.kit.conversation import Conversation, Subject, said
from iot_mqtt.sdk.kit.isolation import isolated
from iot_mqtt.sdk.kit.options import Options
from iot_mqtt.sdk.kit.rules import Fault, Stalled
from iot_mqtt.sdk.kit.vectors import BadVectors, Vectors, vectors_of

_DEFAULTS: Final = Options()


class Unfit(Exception):
    """This is no codec that can be loaded at all; the text says why."""


def misfits(codec: Any) -> list[str]:
    """Why a broker would not load it, and what else is no good; empty: it fits."""
    found = list(fitting.misfits(codec))
    if not found and not vars(codec.Config)["__dataclass_params__"].frozen:
        found.append("its Config is not frozen: @dataclass(frozen=True)")
    return found


def fits(subject: Subject, _: Options) -> Outcome:
    """It can be loaded, and a connection opened."""
    outcome = Outcome(f"SDK {subject.codec.sdk}, {type(subject.codec.framing).__name__}")
    for text in misfits(subject.codec):
        outcome.complain(text)
    Conversation(subject)
    return outcome


#: In the order of the card.
CHECKS: Final[Mapping[str, Callable[[Subject, Options], Outcome]]] = {
    "fits": fits,
    "golden": streams.golden,
    "cut": streams.cut,
    "glued": streams.glued,
    "sizes": streams.sizes,
    "random": hostile.random_bytes,
    "mutated": hostile.mutated_frames,
    "commands": hostile.odd_commands,
    "round trip": agreement.round_trip,
    "decode_many": agreement.many_as_one,
    "schema": agreement.schema_held,
    "isolated": isolated,
    "frame time": costs.frame_time,
    "throughput": costs.throughput,
    "memory": costs.memory,
    "quiet": costs.quiet,
}


def subject_of(codec: type[Codec], config: Mapping[str, object] | None, options: Options) -> Subject:
    """The codec with its configuration, that of the vectors first. Raises ``Unfit``."""
    if texts := misfits(codec):
        raise Unfit("; ".join(texts))
    try:
        vectors = vectors_of(codec, options.vectors) if options.with_vectors else Vectors()
        settings = {**vectors.config, **(config or {})}
        return Subject(codec, config_from(codec.Config, settings), vectors, settings)
    except (BadVectors, BadConfig) as error:
        raise Unfit(str(error)) from error


def check_one(name: str, subject: Subject, options: Options) -> Score:
    """One check."""
    start = time.monotonic()
    outcome = Outcome()
    limit = options.seconds + options.patience
    try:
        with _limited(limit):
            outcome = CHECKS[name](subject, options)
    except Fault as fault:
        outcome.complain(str(fault))
    except Stalled:
        outcome.complain(f"did not end within {limit:g} CPU seconds: something in the codec has no end")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # whatever a codec does, the other checks are made
        outcome.complain(f"raised {said(error)}")
    verdict = "FAIL" if outcome.complaints else "PASS" if outcome.applies else "-"
    seconds = time.monotonic() - start
    return Score(name, verdict, outcome.figure, outcome.figures, tuple(outcome.complaints), seconds)  # type: ignore[arg-type]


def check(
    codec: type[Codec],
    config: Mapping[str, object] | None = None,
    options: Options = _DEFAULTS,
    *,
    done: Callable[[Score], None] = lambda _: None,
) -> ScoreCard:
    """Hold a codec against everything; ``done`` is told each score as it is there. Raises ``Unfit``."""
    subject = subject_of(codec, config, options)
    scores = []
    for name in CHECKS:
        scores.append(check_one(name, subject, options))
        done(scores[-1])
    return ScoreCard(f"{codec.__module__}:{codec.__qualname__}", codec.version, tuple(scores))


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise ``Stalled`` inside when the time is over; only where signals arrive, which is the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGVTALRM"):
        yield
        return

    def ring(_: int, __: FrameType | None) -> None:
        raise Stalled

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
