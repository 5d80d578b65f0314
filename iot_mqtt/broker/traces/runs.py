"""Messages of watched clients: each is a run of its own."""

from __future__ import annotations

from collections.abc import Iterator

from iot_mqtt.codec import PublishRun
from iot_mqtt.ports.tracing import TRACEPARENT

_MARK = TRACEPARENT.encode()


class TracedRun(PublishRun):
    """One message of a watched client, for ``Dispatch``, which finds its handler by its class."""

    __slots__ = ("run", "sampled")

    #: The same as one that is like any other: what is written natively takes no other.
    run: PublishRun
    #: Whether its client is sampled; else only a context that is believed makes it traced.
    sampled: bool


def has_context(run: PublishRun) -> bool:
    """Whether it may have come with a context, believed or not."""
    return _MARK in run.raw_properties


def singles(run: PublishRun, *, sampled: bool) -> Iterator[PublishRun]:
    """The messages of a run, one by one; the run as it is where it is no business of ours."""
    if isinstance(run, TracedRun) or not (sampled or has_context(run)):
        yield run
        return
    for position in range(run.count):
        yield _of(run.part(position, position + 1), sampled=sampled)


def _of(run: PublishRun, *, sampled: bool) -> TracedRun:
    made = TracedRun()
    for name in PublishRun.__slots__:
        setattr(made, name, getattr(run, name))
    made.run, made.sampled = run, sampled
    return made
