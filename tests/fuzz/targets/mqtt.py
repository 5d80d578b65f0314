"""MQTT as a server and as a client reads it, in all versions.

Both scanners say the same; how bytes arrive changes nothing; an error comes once and last; nothing is raised; no more
is held than a packet may have; what was read can be written, and is then read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from iot_mqtt.codec import Connack, Connect, Decoder, Publish, Role, encode
from iot_mqtt.errors import MqttError
from iot_mqtt.values import ProtocolVersion
from tests.cases.packets import CASES
from tests.cases.table import ALL
from tests.cases.twins import DECODERS, fields, packets
from tests.fuzz.target import Target, head, ways

SMALL, NAMED = 0x04, 0x08
#: Of a SERVER that takes CONNECT as read, and of one that does not.
_VERSIONS: tuple[ProtocolVersion | None, ...] = (None, *ALL)


class _Setting:
    """A way to begin, chosen by two bytes."""

    def __init__(self, role: Role, choice: bytes) -> None:
        version = _VERSIONS[choice[0] & 3]
        self.role = role
        self.version = (version or ProtocolVersion.V311) if role is Role.CLIENT else version
        self.open = version is not None
        self.limit = 64 if choice[0] & SMALL else 100_000
        self.aliases = 3 if choice[0] & NAMED and role is Role.SERVER else None
        self.how = choice[1]

    def decoder(self, kind: type[Decoder]) -> Decoder:
        made = kind(self.limit, role=self.role, version=self.version, topic_alias_maximum=self.aliases)
        if self.role is Role.CLIENT and self.open:
            assert self.version is not None
            made.feed(encode(Connack(), self.version))
        return made


def _read(decoder: Decoder, limit: int, pieces: Iterable[bytes]) -> list[Any]:
    items: list[Any] = []
    for piece in pieces:
        items += decoder.feed(piece)
        assert decoder.buffered < max(limit, 5), "more is held than a packet may have"
    assert not [item for item in items[:-1] if isinstance(item, MqttError)], "an error is the last item"
    if items and isinstance(items[-1], MqttError):
        assert not decoder.feed(b"\xc0\x00"), "something is read behind an error"
    return items


def _again(setting: _Setting, items: list[Any], version: ProtocolVersion | None) -> None:
    """What was read is written, and read again."""
    for packet in packets(items):
        if isinstance(packet, MqttError):
            return
        assert version is not None, "a packet was read before the version was known"
        wire = encode(packet, version)
        if setting.role is Role.SERVER:
            decoder = Decoder() if isinstance(packet, Connect) else Decoder(version=version)
        else:
            decoder = Decoder(role=Role.CLIENT, version=version)
            if not isinstance(packet, Connack):
                decoder.feed(encode(Connack(), version))
        assert packets(decoder.feed(wire)) == [packet], f"{packet} was written as {wire.hex(' ')}"


def _run(role: Role, data: bytes) -> None:
    choice, wire = head(data, 2)
    setting = _Setting(role, choice)
    said = []
    for kind in DECODERS.values():
        whole: list[Any] | None = None
        for pieces in ways(wire, setting.how):
            decoder = setting.decoder(kind)
            items = _read(decoder, setting.limit, pieces)
            apart = packets(items)
            if whole is None:
                whole = apart
                said.append(fields(items))
                _again(setting, items, decoder.version)
            else:
                assert repr(apart) == repr(whole), "it matters how the bytes arrive"
        read = sum(len(item.payload) for item in whole or () if isinstance(item, Publish))
        assert read <= len(wire), "more was read than came"
    assert said[0] == said[-1], "the twins differ"


def run_server(data: bytes) -> None:
    _run(Role.SERVER, data)


def run_client(data: bytes) -> None:
    _run(Role.CLIENT, data)


def _seeds(role: Role) -> Iterator[bytes]:
    joined: dict[int, bytes] = {}
    for case in CASES:
        if case.role is not role or len(case.wire) > 300:
            continue
        chosen = 0 if case.first and role is Role.SERVER else ALL.index(case.version) + 1
        yield bytes((chosen, 5)) + case.wire
        if case.value is not None and not case.first and len(joined.get(chosen, b"")) < 300:
            joined[chosen] = joined.get(chosen, b"") + case.wire
    for chosen, wire in joined.items():
        yield bytes((chosen | NAMED, 9)) + wire
        yield bytes((chosen | SMALL, 9)) + wire


_WORDS = (
    *tuple(bytes((kind,)) for kind in range(16, 256, 16)),
    b"\x00\x04MQTT\x05",
    b"\x00\x06MQIsdp\x03",
    b"$share/g/",
    b"\xff\xff\xff\x7f",
    b"\xed\xa0\x80",
    b"#\x00\x01",
)
TARGETS = (
    Target("mqtt-server", run_server, lambda: _seeds(Role.SERVER), _WORDS, 600, 2500),
    Target("mqtt-client", run_client, lambda: _seeds(Role.CLIENT), _WORDS, 600, 2500),
)
