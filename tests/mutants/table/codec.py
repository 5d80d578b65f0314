"""Faults in ``iot_mqtt.codec``: bounds, reserved bits, order of packets."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutation import Mutation

_WIRE: Final = "iot_mqtt/codec/wire.py"
_SUBSCRIBE: Final = "iot_mqtt/codec/packets/subscribe.py"
_ORDER: Final = "iot_mqtt/codec/order.py"
_DECODER: Final = "iot_mqtt/codec/decoder.py"
_CASES: Final = "tests/unit/codec/test_packet_cases.py"

CODEC: Final = (
    Mutation(
        "codec.varint-five-bytes",
        _WIRE,
        "if shift > 21:",
        "if shift > 28:",
        (_CASES, "tests/unit/codec/test_properties.py"),
        "a length of five bytes is read as one [MQTT-1.5.5]",
    ),
    Mutation(
        "codec.varint-overlong",
        _WIRE,
        "if shift and not byte:",
        "if shift and byte > 127:",
        (_CASES, "tests/unit/codec/test_properties.py"),
        "lengths that are longer than they need be are taken [MQTT-1.5.5-1]",
    ),
    Mutation(
        "codec.nul",
        _WIRE,
        'if "\\0" in decoded:',
        'if decoded == "\\0":',
        (_CASES,),
        "U+0000 inside of a text is let through [MQTT-1.5.4-2]",
    ),
    Mutation(
        "codec.plus-in-topic",
        _WIRE,
        'if b"#" in topic or b"+" in topic:',
        'if b"#" in topic:',
        (_CASES,),
        "a message to a wildcard [MQTT-3.3.2-2]",
    ),
    Mutation(
        "codec.left-over-bytes",
        _WIRE,
        "if self.pos != self.end:",
        "if self.pos > self.end:",
        (_CASES,),
        "bytes behind the last field are passed over",
    ),
    Mutation(
        "codec.subscribe-id-zero",
        "iot_mqtt/codec/wire.py",
        "if not value:",
        "if value < 0:",
        (_CASES,),
        "SUBSCRIBE with packet id 0 is answered [MQTT-2.2.1-3]",
    ),
    Mutation(
        "codec.subscribe-reserved",
        _SUBSCRIBE,
        "if options & 0xC0:",
        "if options & 0x80:",
        (_CASES,),
        "a reserved subscription option is taken [MQTT-3.8.3-5]",
    ),
    Mutation(
        "codec.no-local-shared",
        _SUBSCRIBE,
        'if no_local and name.startswith("$share/"):',
        'if no_local and name == "$share/":',
        (_CASES,),
        "no local on a shared subscription [MQTT-3.8.3-4]",
    ),
    Mutation(
        "codec.retain-handling-3",
        _SUBSCRIBE,
        "if options & 0x30 == 0x30:",
        "if options & 0x30 == 0x40:",
        (_CASES,),
        "retain handling 3 is a protocol error",
    ),
    Mutation(
        "codec.ack-reason-lost",
        "iot_mqtt/codec/packets/acks.py",
        "        elif packet.reason:\n",
        "        elif packet.reason > 0xFF:\n",
        (_CASES,),
        "a refusal is written as success",
    ),
    Mutation(
        "codec.pubrel-flags",
        "iot_mqtt/codec/packets/acks.py",
        "(2 if type is PacketType.PUBREL else 0)",
        "(2 if type is PacketType.PUBREC else 0)",
        (_CASES,),
        "PUBREL without its flags: every client closes [MQTT-3.6.1-1]",
    ),
    Mutation(
        "codec.connect-twice",
        _ORDER,
        "        (_OPEN, _P.SUBSCRIBE): _OPEN,\n",
        "        (_OPEN, _P.CONNECT): _OPEN,\n        (_OPEN, _P.SUBSCRIBE): _OPEN,\n",
        ("tests/unit/codec/test_decoder.py",),
        "a second CONNECT makes another client of a connection [MQTT-3.1.0-2]",
    ),
    Mutation(
        "codec.after-disconnect",
        _ORDER,
        "        (_OPEN, _P.DISCONNECT): _OVER,\n    },\n    Role.CLIENT",
        "        (_OPEN, _P.DISCONNECT): _OPEN,\n    },\n    Role.CLIENT",
        ("tests/unit/codec/test_decoder.py",),
        "what comes behind DISCONNECT is served [MQTT-3.14.4-1]",
    ),
    Mutation(
        "codec.size-limit",
        _DECODER,
        "if stop - pos > self._limit:",
        "if stop - start > self._limit:",
        ("tests/unit/codec/test_decoder.py",),
        "packets may be some bytes larger than the Maximum Packet Size that was announced",
    ),
    Mutation(
        "codec.acks-merged",
        _DECODER,
        "                and last.reason is packet.reason\n",
        "",
        ("tests/unit/codec/test_decoder.py", "tests/unit/codec/test_runs.py"),
        "a refused message counts as delivered because the one before it was",
    ),
    Mutation(
        "codec.alias-not-bounded",
        _DECODER,
        "if alias > maximum:",
        "if alias > 65_535:",
        ("tests/unit/codec/test_named.py", "tests/unit/codec/test_decoder.py"),
        "a client may not be told that its alias is too large [MQTT-3.3.2-9]",
    ),
    Mutation(
        "codec.identifier-from-client",
        "iot_mqtt/codec/properties.py",
        "if from_client and properties.subscription_identifiers:",
        "if not from_client and properties.subscription_identifiers:",
        (_CASES, "tests/unit/codec/test_properties.py"),
        "a client makes up subscription identifiers for others [MQTT-3.3.4-6]",
    ),
    Mutation(
        "codec.secrets-cached",
        "iot_mqtt/codec/properties.py",
        "if len(raw) <= _NUMBERS_SIZE and _SECRETS.isdisjoint(raw):",
        "if len(raw) <= _NUMBERS_SIZE:",
        ("tests/unit/codec/test_properties.py",),
        "authentication data stays in memory for ever",
    ),
)
