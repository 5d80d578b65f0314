"""Runs and messages in the form of another hop, acknowledgements in rows, and what cannot be written."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from iot_mqtt.codec import (
    AckRun,
    Auth,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    PacketType,
    Properties,
    Publish,
    PublishRun,
    Suback,
    encode,
    encode_acks,
    encode_publish,
    encode_run,
    size,
)
from iot_mqtt.codec import encoder as encoder_module
from iot_mqtt.codec import properties as props
from iot_mqtt.errors import ReasonCode
from tests.cases.table import V5, V31, V311, picture
from tests.cases.twins import MODULES

PAYLOADS = [b"x" * number for number in (0, 5, 5, 122, 123, 130, 17_000)]
BLOCK = picture("01 01 26 'k' 'v'")


@pytest.fixture(params=sorted(MODULES), autouse=True)
def native_module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test once with each twin."""
    monkeypatch.setattr(encoder_module, "native", MODULES[request.param])


def run_of(payloads: list[bytes], *, five: bool, qos: int, block: bytes = b"") -> PublishRun:
    """A run as a publisher sends it."""
    wire = b"".join(
        encode_publish(
            b"a/b", payload, five=five, qos=qos, retain=True, dup=False, packet_id=900 + index, properties=block
        )
        for index, payload in enumerate(payloads)
    )
    (run,) = Decoder(version=V5 if five else V311).feed(wire)
    assert isinstance(run, PublishRun)
    return run


FORMS = list(itertools.product((False, True), (0, 1, 2), (False, True), (0, 1, 2)))


@pytest.mark.parametrize(("from_five", "from_qos", "five", "qos"), FORMS)
@pytest.mark.parametrize("even", [False, True])
def test_a_run_in_any_form_is_its_messages_in_that_form(
    from_five: bool, from_qos: int, five: bool, qos: int, even: bool
) -> None:
    """Each version and QoS to each other; payloads of one size and of many."""
    payloads = [b"0123456789"] * 5 if even else PAYLOADS
    run = run_of(payloads, five=from_five, qos=from_qos, block=BLOCK if from_five else b"")
    ids = list(range(500, 500 + len(payloads))) if qos else []
    for block, topic in ((b"", None), (BLOCK, None), (BLOCK + picture("23 0001"), b"")):
        wanted = b"".join(
            encode_publish(
                b"a/b" if topic is None else topic,
                payload,
                five=five,
                qos=qos,
                retain=False,
                dup=qos > 0,
                packet_id=ids[index] if qos else 0,
                properties=block,
            )
            for index, payload in enumerate(payloads)
        )
        assert (
            encode_run(run, five=five, qos=qos, retain=False, dup=qos > 0, ids=ids, properties=block, topic=topic)
            == wanted
        )


def test_the_same_form_is_the_same_bytes() -> None:
    """Not even copied."""
    run = run_of(PAYLOADS, five=False, qos=0)
    assert encode_run(run, five=False, qos=0, retain=True, properties=b"ignored") is run.wire


def test_lengths_longer_than_need_be_survive_new_ids() -> None:
    """MQTT 3 clients may write fixed widths."""
    (run,) = Decoder(version=V311).feed(picture("32 8600 'a' 0001 62"))
    assert isinstance(run, PublishRun)
    assert encode_run(run, five=False, qos=1, retain=False, ids=[258]) == picture("32 8600 'a' 0102 62")


@pytest.mark.parametrize("ids", [[], [1], [1, 2, 3, 4]])
def test_ids_must_be_as_many_as_packets(ids: list[int]) -> None:
    """Three packets at QoS 1."""
    with pytest.raises(ValueError, match="packet ids"):
        encode_run(run_of([b"x"] * 3, five=False, qos=1), five=False, qos=1, retain=False, ids=ids)


def test_ids_at_qos_0_are_refused() -> None:
    """They would go nowhere."""
    with pytest.raises(ValueError, match="QoS 0"):
        encode_run(run_of([b"x"], five=False, qos=0), five=False, qos=0, retain=False, ids=[1])


@pytest.mark.parametrize("five", [False, True])
def test_ids_that_are_none_are_refused(five: bool) -> None:
    """65536 does not fit, on either path."""
    run = run_of([b"x"] * 2, five=False, qos=1)
    with pytest.raises(OverflowError):
        encode_run(run, five=five, qos=1, retain=False, ids=[1, 65536])


@pytest.mark.parametrize("ids", [range(1, 700), tuple(range(1, 700)), list(range(1, 700))])
def test_ids_may_be_any_sequence(ids: Any) -> None:
    """Ranges, tuples and lists."""
    run = run_of([b"x"] * 699, five=False, qos=1)
    (read,) = Decoder(version=V311).feed(encode_run(run, five=False, qos=1, retain=False, ids=ids))
    assert isinstance(read, PublishRun)
    assert read.ids == list(ids)
    (acked,) = Decoder(version=V311).feed(encode_acks(PacketType.PUBACK, ids, V311))
    assert isinstance(acked, AckRun)
    assert acked.ids == list(ids)


@pytest.mark.parametrize("kind", [PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP])
def test_acknowledgements_have_their_short_form(kind: PacketType) -> None:
    """Four bytes each in every version; with a reason five, and only in MQTT 5."""
    head = {4: "40", 5: "50", 6: "62", 7: "70"}[kind]
    for version in (V31, V311, V5):
        assert encode_acks(kind, [1, 65535], version) == picture(f"{head}020001 {head}02ffff")
        assert encode_acks(kind, [], version) == b""
    gone = ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
    assert encode_acks(kind, [1, 2], V5, gone) == picture(f"{head}03000192 {head}03000292")
    assert encode_acks(kind, [1], V311, gone) == picture(f"{head}020001")


def test_only_acknowledgements_are_acknowledgements() -> None:
    """SUBACK has a form of its own."""
    with pytest.raises(ValueError, match="SUBACK"):
        encode_acks(PacketType.SUBACK, [1], V5)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, 1),
        (ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, 2),
        (ReasonCode.SERVER_BUSY, 3),
        (ReasonCode.SERVER_SHUTTING_DOWN, 3),
        (ReasonCode.BAD_USER_NAME_OR_PASSWORD, 4),
        (ReasonCode.BANNED, 5),
    ],
)
def test_mqtt_3_says_a_refusal_with_a_return_code(reason: ReasonCode, code: int) -> None:
    """And leaves the session out of it."""
    assert encode(Connack(True, reason), V311) == bytes((0x20, 2, 0, code))


def test_mqtt_3_says_nothing_where_it_has_no_return_code() -> None:
    """The connection is closed without a CONNACK [MQTT-3.2.2-6] (3.1.1)."""
    assert encode(Connack(False, ReasonCode.MALFORMED_PACKET), V311) == b""


def test_mqtt_31_has_no_session_present() -> None:
    """Its byte is reserved."""
    assert encode(Connack(True), V31) == b"\x20\x02\x00\x00"


def test_mqtt_3_refuses_a_subscription_in_one_way() -> None:
    """Every reason is 0x80."""
    assert encode(Suback(1, (0, 2, 0x87, 0x8F)), V311) == picture("90 06 0001 00 02 80 80")


@pytest.mark.parametrize(
    ("packet", "version"),
    [
        (Auth(), V311),
        (Publish(b"a", b"", 1), V311),
        (Publish(b"a" * 65536, b""), V311),
        (Publish(b"a", b"", properties=Properties(content_type="x" * 65536)), V5),
        (Suback(0, (0,)), V5),
        (Connect(V311, "a", password=b"x"), V311),
        (Connect(V311, "a", keep_alive=65536), V311),
    ],
)
def test_what_cannot_be_said_is_our_own_error(packet: Any, version: Any) -> None:
    """A ValueError, never a packet that the peer must refuse."""
    with pytest.raises(ValueError, match=r"."):
        encode(packet, version)


def test_a_size_is_what_goes_over_the_wire() -> None:
    """To be held against a maximum packet size."""
    assert size(Disconnect(ReasonCode.SERVER_MOVED, Properties(server_reference="other")), V5) == 2 + 2 + 8


def test_wills_pass_on_what_receivers_may_see() -> None:
    """Neither the delay nor what belongs to one hop."""
    will = Properties(will_delay_interval=5, message_expiry_interval=9, content_type="t", user_properties=(("k", "v"),))
    assert props.passed_on(will) == picture("03 't' 26 'k' 'v'")
    assert props.passed_on(Properties()) == b""


@pytest.mark.parametrize(
    "secret",
    [
        Connect(V5, "a", password=b"hush"),
        Auth(properties=Properties(authentication_method="M", authentication_data=b"hush")),
    ],
)
def test_secrets_stay_out_of_representations(secret: Any) -> None:
    """Passwords and authentication data."""
    assert "hush" not in repr(secret)
