"""CONNECT in one pass: both twins say the same of any bytes, and what they say is what the reader of fields says."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iot_mqtt import native
from iot_mqtt.codec import Connect, ConnectWill, Decoder, Properties
from iot_mqtt.codec.packets import connect
from iot_mqtt.codec.wire import MAX_PACKET_SIZE, Reader
from iot_mqtt.errors import MqttError
from iot_mqtt.native import _pure_connecting
from iot_mqtt.values import ProtocolVersion

V311, V5 = ProtocolVersion.V311, ProtocolVersion.V5

READERS: list[native.ConnectReader] = [connect.build(_pure_connecting.ConnectReader)]
if native.HAVE_NATIVE:
    from iot_mqtt.native import _connecting

    READERS.append(connect.build(_connecting.ConnectReader))

WILL = ConnectWill(b"last/words", b"\0gone", 2, retain=True)
WILL_5 = ConnectWill(b"last", b"", 1, properties=Properties(will_delay_interval=7, content_type="x"))
#: What nearly every client sends.
USUAL = [
    Connect(V311, "c"),
    Connect(V311, "", clean_start=True, keep_alive=65_535),
    Connect(V311, "é" * 200, clean_start=False, username="user", password=b"\0\xff"),
    Connect(V311, "c", username="", will=WILL),
    Connect(V5, ""),
    Connect(V5, "c" * 300, password=b"without a name"),
    Connect(V5, "c", properties=Properties(session_expiry_interval=60, receive_maximum=20)),
    Connect(V5, "c", username="u", will=WILL_5, properties=Properties(user_properties=(("a", "b"),))),
]
WRITTEN = [connect.write(packet, packet.version) for packet in USUAL]


def by_fields(data: bytes) -> Connect | None:
    """What the reader of fields makes of one whole packet; None: an error."""
    reader = Reader(data, 2 if data[1] < 128 else 3)
    try:
        version, bridge = connect.read_version(reader)
        packet = connect.read(reader, version, bridge=bridge)
        reader.finish()
    except MqttError:
        return None
    return packet


def by(reader: native.ConnectReader, data: bytes, limit: int = MAX_PACKET_SIZE) -> Connect | str | None:
    """What a reader in one pass makes of it."""
    try:
        found: Connect | None = reader.read(data, limit)
    except MqttError as error:
        return str(error)
    return found


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("packet", USUAL)
def test_what_clients_send_is_read_in_one_pass(reader: native.ConnectReader, packet: Connect) -> None:
    """Each field of it, in the class that the codec has for it."""
    found = by(reader, connect.write(packet, packet.version))
    assert found == packet
    assert isinstance(found, Connect)
    assert type(found.clean_start) is bool
    assert found.version is packet.version


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("data", WRITTEN)
def test_what_is_not_one_whole_packet_within_its_limit_is_left(reader: native.ConnectReader, data: bytes) -> None:
    """Any beginning of it, with something behind it, and a byte too large."""
    assert all(by(reader, data[:stop]) is None for stop in range(len(data)))
    assert by(reader, data + b"\0") is None
    assert by(reader, data, len(data)) is not None
    assert by(reader, data, len(data) - 1) is None


@given(st.sampled_from(WRITTEN), st.data())
def test_a_changed_byte_is_read_as_the_reader_of_fields_reads_it(written: bytes, data: st.DataObject) -> None:
    """Or left to it; never read where that says that it is wrong."""
    at = data.draw(st.integers(2 if written[1] < 128 else 3, len(written) - 1))
    changed = written[:at] + bytes((data.draw(st.integers(0, 255)),)) + written[at + 1 :]
    found = [by(reader, changed) for reader in READERS]
    assert found[0] == found[-1]
    expected = by_fields(changed)
    assert found[0] == expected if isinstance(found[0], Connect) else expected is None or found[0] is None


@given(st.binary(max_size=60))
@example(b"\x10\x0c\0\4MQTT\4\2\0\0\0\0")
@example(b"\x10\x8c\0\0\4MQTT\4\2\0\0\0\0")
@example(b"\x10\x0d\0\4MQTT\5\2\0\0\x80\0\0")
def test_the_twins_agree_on_any_bytes(tail: bytes) -> None:
    """Also on what no client sends."""
    for data in (
        tail,
        b"\x10" + bytes((len(tail),)) + tail,
        b"\x10" + bytes((10 + len(tail),)) + b"\0\4MQTT\5\xc2" + tail,
    ):
        assert by(READERS[0], data) == by(READERS[-1], data)


def test_what_is_wrong_is_said_by_the_decoder_in_the_words_of_its_version() -> None:
    """The properties were refused in one pass; the version is known, for the answer depends on it."""
    decoder = Decoder()
    twice = b"\x10\x13\0\4MQTT\5\2\0\0\6\x21\0\1\x21\0\1\0\0"
    (error,) = decoder.feed(twice)
    assert isinstance(error, MqttError)
    assert "receive_maximum stands twice" in str(error)
    assert decoder.version is V5
    assert decoder.feed(WRITTEN[0]) == []
