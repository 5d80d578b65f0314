"""Traces: spans of a message's way, as OpenTelemetry and the W3C's trace context know them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

__all__ = ["TRACEPARENT", "TRACESTATE", "Context", "Kind", "Span", "Spans", "TracesSettings", "context_of", "state_of"]

#: The user property, and the header of Kafka, that a context comes and goes with.
TRACEPARENT: Final = "traceparent"
#: Likewise, beside it: what those say who traced it before us.
TRACESTATE: Final = "tracestate"
#: A later version may have more behind it.
_FORM: Final = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED: Final = 0x01
#: One member of a ``tracestate``; how many there are, and how long all of it is, at most.
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~]",
    re.ASCII,
)
_MEMBERS: Final = 32
_STATE_LENGTH: Final = 512


@dataclass(frozen=True, slots=True)
class TracesSettings:
    """``telemetry.traces.*``."""

    enabled: bool = False
    endpoint: str = "http://127.0.0.1:4318/v1/traces"
    #: Patterns of client ids, and the share of all others, whose messages are traced.
    clients: tuple[str, ...] = ()
    share: float = 0.0
    #: Patterns of users whose clients may say themselves which of their messages are traced.
    trusted_users: tuple[str, ...] = ()
    #: Whether subscribers of MQTT 5 get a context that the publisher did not send.
    user_property: bool = False
    #: Whether spans have topics and client ids.
    names: bool = True
    max_spans_per_second: int = 500
    max_queued_spans: int = 4096


class Context(NamedTuple):
    """Which span of which trace, in lower-case hexadecimal digits."""

    trace_id: str
    span_id: str
    #: The ``tracestate`` that came with it, as it is; or empty.
    state: str = ""

    @property
    def traceparent(self) -> str:
        """As it goes with a message. It is sampled, or there would be none."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def context_of(traceparent: str) -> Context | None:
    """What somebody sent; None: it is none, or is not to be recorded.

    >>> context_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").span_id
    '00f067aa0ba902b7'
    >>> context_of("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
    """
    found = _FORM.fullmatch(traceparent)
    if found is None or (found[1] == "00" and found[5]):
        return None
    if not int(found[2], 16) or not int(found[3], 16) or not int(found[4], 16) & _SAMPLED:
        return None
    return Context(found[2], found[3])


def state_of(values: Sequence[str]) -> str:
    """A ``tracestate`` that came in so many pieces; empty: it is none, or longer than we carry.

    >>> state_of(["rojo=00f0", "congo=t61 ,, a@b=1"])
    'rojo=00f0,congo=t61,a@b=1'
    >>> state_of(["rojo=1,rojo=2"]), state_of(["Rojo=1"]), state_of(["a=" + 256 * "x", "b=" + 256 * "x"])
    ('', '', '')
    """
    found = [member.strip(" \t") for value in values for member in value.split(",")]
    members = [member for member in found if member]
    keys = {member.partition("=")[0] for member in members}
    state = ",".join(members)
    if len(keys) < len(members) or len(members) > _MEMBERS or len(state) > _STATE_LENGTH:
        return ""
    return state if all(_MEMBER.fullmatch(member) for member in members) else ""


class Kind(IntEnum):
    """Of a span; the numbers are those of OTLP."""

    INTERNAL = 1
    PRODUCER = 4
    CONSUMER = 5


class Span:
    """One step of a message's way; ``parent``: the id of the step that it belongs to, or empty. Times are by the wall
    clock, in nanoseconds.
    """

    __slots__ = ("context", "parent", "name", "kind", "start", "end", "attributes")

    def __init__(
        self, context: Context, parent: str, name: str, kind: Kind, start: int, attributes: dict[str, str | int | bool]
    ) -> None:
        self.context = context
        self.parent = parent
        self.name = name
        self.kind = kind
        self.start = self.end = start
        self.attributes = attributes


class Spans(Protocol):
    """Who takes spans that are over. Never waits, and never raises."""

    #: Spans that nobody gets, by reason; whoever drops one counts it here.
    dropped: Counter[str]

    def put(self, span: Span) -> None: ...
