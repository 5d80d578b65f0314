"""Every row of the case tables, read three ways and written back."""

from __future__ import annotations

import pytest

from iot_mqtt.codec import AckRun, Decoder, Disconnect, Role, encode
from iot_mqtt.errors import MqttError
from tests.cases.packets import CASES
from tests.cases.table import Case
from tests.cases.twins import DECODERS, packets

GOOD = [case for case in CASES if case.value is not None]
BAD = [case for case in CASES if case.error is not None]


@pytest.fixture(params=sorted(DECODERS))
def decoder(case: Case, request: pytest.FixtureRequest) -> Decoder:
    """A decoder in the state that the row starts from; once with each scanner."""
    kind = DECODERS[request.param]
    if case.role is Role.SERVER:
        return kind(case.limit, version=None if case.first else case.version)
    made = kind(case.limit, role=Role.CLIENT, version=case.version)
    if not case.first:
        assert len(made.feed(b"\x20\x03\x00\x00\x00" if case.version == 5 else b"\x20\x02\x00\x00")) == 1
    return made


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_a_whole_packet_is_its_value(case: Case, decoder: Decoder) -> None:
    """Reads the bytes in one piece."""
    assert packets(decoder.feed(case.wire)) == [case.value]
    assert decoder.buffered == 0


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_byte_by_byte_nothing_comes_before_the_last(case: Case, decoder: Decoder) -> None:
    """Reads the bytes one at a time."""
    for index in range(len(case.wire) - 1):
        assert decoder.feed(case.wire[index : index + 1]) == []
        assert decoder.buffered == index + 1
    assert packets(decoder.feed(case.wire[-1:])) == [case.value]
    assert decoder.buffered == 0


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_trailing_bytes_are_left_over(case: Case, decoder: Decoder) -> None:
    """Reads the packet with the beginning of the next behind it."""
    ping = b"\xc0" if case.role is Role.SERVER else b"\xf0" if case.first and case.version == 5 else b"\xd0"
    trailing = b"" if isinstance(case.value, Disconnect) else ping
    assert packets(decoder.feed(case.wire + trailing)) == [case.value]
    assert decoder.buffered == len(trailing)


@pytest.mark.parametrize("case", [case for case in GOOD if case.canonical], ids=str)
def test_the_value_is_written_as_these_bytes(case: Case) -> None:
    """Writes what was read."""
    assert case.value is not None
    assert encode(case.value, case.version) == case.wire


@pytest.mark.parametrize("case", BAD, ids=str)
def test_a_bad_packet_is_its_error(case: Case, decoder: Decoder) -> None:
    """Reads bad bytes in one piece; behind the error nothing is read any more."""
    (error,) = decoder.feed(case.wire)
    assert isinstance(error, MqttError)
    assert error.reason is case.error
    assert decoder.feed(case.wire) == []
    assert decoder.buffered == 0


@pytest.mark.parametrize("case", BAD, ids=str)
def test_byte_by_byte_a_bad_packet_is_the_same_error_once(case: Case, decoder: Decoder) -> None:
    """Reads bad bytes one at a time."""
    items = [item for index in range(len(case.wire)) for item in decoder.feed(case.wire[index : index + 1])]
    (error,) = items
    assert isinstance(error, MqttError)
    assert error.reason is case.error


@pytest.mark.parametrize("case", [case for case in BAD if not case.first], ids=str)
def test_what_came_before_a_bad_packet_is_delivered(case: Case, decoder: Decoder) -> None:
    """Glues three acknowledgements in front of the bad packet."""
    acknowledged, error = decoder.feed(b"\x40\x02\x00\x01\x40\x02\x00\x02\x40\x02\x00\x03" + case.wire)
    assert isinstance(acknowledged, AckRun)
    assert acknowledged.ids[:3] == [1, 2, 3]
    assert isinstance(error, MqttError)


def test_the_tables_are_large_enough_to_mean_something() -> None:
    """At least 150 rows, of which many are malformed, and no two of the same name."""
    assert len(CASES) >= 150
    assert len(BAD) >= 100
    names = [(case.version, case.role, case.first, case.description, case.wire) for case in CASES]
    assert len(set(names)) == len(names)
