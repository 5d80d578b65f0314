"""The frames of gateways in traces: bytes in hex, and what the codec made of them. Bounded as packets are.

A link is looked at from behind its login, so that no password is among its frames, and only while a trace is of its
gateway, of a device behind it, or of its address. A frame does not say which device it is about: who traces a device
sees the frames of its gateway, and what the codec made of them for that device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from iot_mqtt.admin.trace_resources import Wanted
from iot_mqtt.devices.link import Captures, ObservedLink
from iot_mqtt.ports.addresses import host_of
from iot_mqtt.sdk import Event, Send
from iot_mqtt.sdk.event_json import as_json

#: Bytes of a frame, and characters of an event, that are shown.
SHOWN: Final = 64
LONGEST: Final = 300


class FrameTrace(Protocol):
    """A trace, as far as frames go."""

    wanted: Wanted
    lost: int

    @property
    def full(self) -> bool: ...

    def tell(self, client: str, peer: str, direction: str, packet: str, text: str) -> None: ...


class FrameTraces:
    """``Watcher`` of the links of one node, for all its traces."""

    def __init__(self, links: Captures, traces: Mapping[str, FrameTrace]) -> None:
        self._links = links
        self._traces = traces

    def look(self) -> None:
        """Traces have come or gone."""
        self._links.on_logged_in = self._watch if self._traces else None
        for link in self._links.logged_in:
            self._watch(link)

    def _watch(self, link: ObservedLink) -> None:
        link.watch(self if any(_concerns(one.wanted, link) for one in self._traces.values()) else None)

    def frames(self, link: ObservedLink, direction: str, frames: Sequence[bytes]) -> None:
        """See ``Watcher``."""
        for trace in self._of(link):
            for frame in frames:
                if trace.full:
                    trace.lost += 1
                else:
                    rest = "" if len(frame) <= SHOWN else "…"
                    text = f"frame of {len(frame)} bytes: {bytes(frame[:SHOWN]).hex()}{rest}"
                    trace.tell(link.gateway, link.peer, direction, "FRAME", text)

    def events(self, link: ObservedLink, events: Sequence[Event]) -> None:
        """See ``Watcher``."""
        for trace in self._of(link):
            device = (trace.wanted.client or "").removeprefix(link.gateway)[1:]
            for event in events:
                # What is sent is a frame out.
                if isinstance(event, Send) or (device and getattr(event, "device", None) != device):
                    continue
                if trace.full:
                    trace.lost += 1
                else:
                    trace.tell(link.gateway, link.peer, "in", "EVENT", _text(event))

    def _of(self, link: ObservedLink) -> list[FrameTrace]:
        return [one for one in self._traces.values() if _concerns(one.wanted, link)]


def _concerns(wanted: Wanted, link: ObservedLink) -> bool:
    """Whether a trace is about a link; one of a topic is about packets only."""
    if wanted.client is not None:
        return wanted.client == link.gateway or wanted.client.startswith(f"{link.gateway}/")
    return wanted.address is not None and host_of(link.peer) == wanted.address


def _text(event: Event) -> str:
    """What a codec says may be anything: it must not end the connection."""
    try:
        told = as_json(event)
        text = f"{told.pop('event')} {json.dumps(told, ensure_ascii=False, default=repr)}"
    except (TypeError, ValueError, RecursionError) as error:
        text = f"an event that cannot be shown: {type(error).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
