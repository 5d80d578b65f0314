"""The thin client's questions against pyignite's own, byte by byte, and answers as servers give them."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from pyignite import Client
from pyignite.api.key_value import cache_get_all
from pyignite.connection.bitmask_feature import BitmaskFeature
from pyignite.connection.protocol_context import ProtocolContext
from pyignite.datatypes import ByteArrayObject
from pyignite.queries.cache_info import CacheInfo
from pyignite.utils import cache_id

from iot_mqtt.grid.ignite import thin
from iot_mqtt.grid.ignite.thin import BadAnswer, ServerError


class Asked(Exception):
    """What pyignite would have sent."""


class Spy:
    """A connection that only looks."""

    def __init__(self) -> None:
        self.client = Client(partition_aware=False)
        self.protocol_context = ProtocolContext((1, 7, 0), BitmaskFeature.all_supported())
        self.client.protocol_context = self.protocol_context

    def request(self, data: bytes) -> bytes:
        raise Asked(bytes(data))

    def info(self, name: str) -> Any:
        return CacheInfo(cache_id=cache_id(name) if name else 0, protocol_context=self.protocol_context)


def asked(call: Any, *arguments: Any, **named: Any) -> bytes:
    with pytest.raises(Asked) as caught:
        call(*arguments, **named)
    return bytes(caught.value.args[0])


def same(ours: bytes, theirs: bytes) -> bool:
    """But for the request's id, which is in bytes 6 to 14."""
    return ours[:6] == theirs[:6] and ours[14:] == theirs[14:]


@pytest.mark.parametrize("name", ["", "a", "iot_queue", "iot_log_index", "iot_subscriptions", "x" * 100])
def test_a_cache_has_the_id_that_java_gives_it(name: str) -> None:
    """Signed."""
    assert thin.cache_id(name) == (cache_id(name) if name else 0)


def test_get_all_is_asked_as_pyignite_does() -> None:
    """Keys as arrays of bytes."""
    spy = Spy()
    keys = [b"", b"\x00\xff", b"k" * 300]
    theirs = asked(cache_get_all, spy, spy.info("iot_log"), [(key, ByteArrayObject) for key in keys])
    assert same(thin.encode_get_all(7, cache_id("iot_log"), keys), theirs)


def item(value: bytes) -> bytes:
    return struct.pack("<bi", 12, len(value)) + value


def answer(body: bytes, flags: int = 0, id: int = 7) -> bytes:
    return struct.pack("<iqh", len(body) + 10, id, flags) + body


PAIRS = [(b"", b"v"), (b"k", b""), (b"\x00\xff", b"w" * 1000)]
PACKED = struct.pack("<i", 3) + b"".join(item(key) + item(value) for key, value in PAIRS)


def test_answers_are_read() -> None:
    """Also with news of the topology in front."""
    assert thin.decode_get_all(7, answer(PACKED)) == dict(PAIRS)
    assert thin.decode_get_all(7, answer(bytes(12) + PACKED, flags=2)) == dict(PAIRS)


def test_an_error_is_an_error() -> None:
    """With the server's words, the first line of them."""
    said = b"no such cache\nat somewhere"
    body = struct.pack("<i", 1000) + struct.pack("<bi", 9, len(said)) + said
    for flags, front in ((1, b""), (3, bytes(12))):
        with pytest.raises(ServerError, match=r"^no such cache \(status 1000\)$"):
            thin.decode_get_all(7, answer(front + body, flags=flags))


@pytest.mark.parametrize("size", [*range(40), len(PACKED) - 1, len(PACKED) + 8])
def test_an_answer_that_ends_early_is_no_answer(size: int) -> None:
    """Nothing is made up, at whatever byte it ends."""
    whole = answer(PACKED)
    if size < len(whole):
        with pytest.raises(BadAnswer):
            thin.decode_get_all(7, whole[:size])


def test_the_answer_to_something_else_is_no_answer() -> None:
    """Nor is one of other types."""
    with pytest.raises(BadAnswer, match="answer 8 to request 7"):
        thin.decode_get_all(7, answer(PACKED, id=8))
    with pytest.raises(BadAnswer, match="not bytes"):
        thin.decode_get_all(7, answer(PACKED.replace(b"\x0c", b"\x09", 1)))
