"""Truths about the codec for any packet and any bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iot_mqtt.codec import (
    Ack,
    Auth,
    Connack,
    Connect,
    ConnectWill,
    Decoder,
    Disconnect,
    Packet,
    PacketType,
    Pingreq,
    Pingresp,
    Properties,
    Publish,
    PublishRun,
    Request,
    Role,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    encode,
    encode_run,
)
from iot_mqtt.codec import properties as props
from iot_mqtt.codec.reasons import ALLOWED, from_return_code
from iot_mqtt.errors import MqttError
from iot_mqtt.values import ProtocolVersion
from tests.cases.packets import CASES
from tests.cases.table import ALL, V5, V31, V311
from tests.cases.twins import DECODERS, MODULES, fields, packets

# -- values ------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
TOPIC_TEXT = st.text(st.characters(exclude_characters="\0#+", exclude_categories=["Cs"]), min_size=1, max_size=12)
TOPIC = TOPIC_TEXT.map(str.encode)
BINARY = st.binary(max_size=12)
U16, U32 = st.integers(0, 0xFFFF), st.integers(0, 0xFFFF_FFFF)
ID = st.integers(1, 0xFFFF)
QOS = st.integers(0, 2)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "payload_format_indicator": st.integers(0, 1),
    "message_expiry_interval": U32,
    "content_type": TEXT,
    "response_topic": TOPIC_TEXT,
    "correlation_data": BINARY,
    "session_expiry_interval": U32,
    "assigned_client_identifier": TEXT,
    "server_keep_alive": U16,
    "authentication_method": TEXT,
    "authentication_data": BINARY,
    "request_problem_information": st.booleans(),
    "will_delay_interval": U32,
    "request_response_information": st.booleans(),
    "response_information": TEXT,
    "server_reference": TEXT,
    "reason_string": TEXT,
    "receive_maximum": ID,
    "topic_alias_maximum": U16,
    "topic_alias": ID,
    "maximum_qos": st.integers(0, 1),
    "retain_available": st.booleans(),
    "user_properties": st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    "maximum_packet_size": st.integers(1, 0xFFFF_FFFF),
    "wildcard_subscription_available": st.booleans(),
    "subscription_identifier_available": st.booleans(),
    "shared_subscription_available": st.booleans(),
}


def properties_of(packet: int, role: Role = Role.CLIENT) -> st.SearchStrategy[Properties]:
    """Any properties that the packet may carry when it comes to ``role``."""
    names = {entry.name: VALUES.get(entry.name) for entry in props._TABLE if packet in entry.packets}
    optional: dict[str, st.SearchStrategy[Any]] = {name: values for name, values in names.items() if values is not None}
    if "subscription_identifiers" in names and (packet != PacketType.PUBLISH or role is Role.CLIENT):
        most = 3 if packet == PacketType.PUBLISH else 1
        optional["subscription_identifiers"] = st.lists(st.integers(1, 268_435_455), max_size=most).map(tuple)
    if packet == PacketType.DISCONNECT and role is Role.CLIENT:
        del optional["session_expiry_interval"]
    return st.fixed_dictionaries({}, optional=optional).map(_consistent).map(lambda found: Properties(**found))


def _consistent(found: dict[str, Any]) -> dict[str, Any]:
    if "authentication_method" not in found:
        found.pop("authentication_data", None)
    return found


@st.composite
def connects(draw: st.DrawFn, version: ProtocolVersion) -> Connect:
    """Any CONNECT."""
    five = version == V5
    will = None
    if draw(st.booleans()):
        will_properties = draw(properties_of(props.WILL)) if five else Properties()
        will = ConnectWill(draw(TOPIC), draw(BINARY), draw(QOS), draw(st.booleans()), will_properties)
    username = draw(st.none() | TEXT)
    password = draw(st.none() | BINARY) if five or username is not None else None
    properties = draw(properties_of(PacketType.CONNECT)) if five else Properties()
    bridge = not five and draw(st.booleans())
    return Connect(version, draw(TEXT), draw(st.booleans()), draw(U16), username, password, will, properties, bridge)


@st.composite
def publishes(draw: st.DrawFn, version: ProtocolVersion, role: Role) -> Publish:
    """Any PUBLISH."""
    qos = draw(QOS)
    properties = draw(properties_of(PacketType.PUBLISH, role)) if version == V5 else Properties()
    topic = draw(TOPIC)
    if properties.topic_alias is not None and draw(st.booleans()):
        topic = b""
    payload = draw(st.binary(max_size=200))
    return Publish(
        topic, payload, qos, draw(st.booleans()), qos > 0 and draw(st.booleans()), draw(ID) if qos else 0, properties
    )


def reasons_of(packet: PacketType, role: Role) -> st.SearchStrategy[Any]:
    """Any reason that the packet may carry."""
    return st.sampled_from(sorted(ALLOWED[packet, role].values()))


def acks(version: ProtocolVersion, role: Role) -> st.SearchStrategy[Packet]:
    """Any of the four acknowledgements."""
    kinds = (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
    if version != V5:
        return st.builds(Ack, st.sampled_from(kinds), ID)
    return st.one_of([st.builds(Ack, st.just(kind), ID, reasons_of(kind, role), properties_of(kind)) for kind in kinds])


def requests(version: ProtocolVersion) -> st.SearchStrategy[Request]:
    """Any filter with options."""
    names = TEXT.filter(lambda name: not name.startswith("$share/"))
    if version != V5:
        return st.tuples(TEXT, QOS).map(lambda told: Request(*told))
    return st.builds(Request, names, QOS, st.booleans(), st.booleans(), st.integers(0, 2))


def optional_properties(version: ProtocolVersion, packet: PacketType, role: Role) -> st.SearchStrategy[Properties]:
    """Properties in MQTT 5, none before."""
    return properties_of(packet, role) if version == V5 else st.just(Properties())


def from_client(version: ProtocolVersion) -> st.SearchStrategy[Packet]:
    """Any packet that a server reads behind CONNECT."""
    role = Role.SERVER
    subscribe = optional_properties(version, PacketType.SUBSCRIBE, role)
    unsubscribe = optional_properties(version, PacketType.UNSUBSCRIBE, role)
    found: list[st.SearchStrategy[Packet]] = [
        publishes(version, role),
        acks(version, role),
        st.builds(Subscribe, ID, st.lists(requests(version), min_size=1, max_size=4).map(tuple), subscribe),
        st.builds(Unsubscribe, ID, st.lists(TEXT, min_size=1, max_size=4).map(tuple), unsubscribe),
        st.just(Pingreq()),
    ]
    if version == V5:
        found.append(auths(role))
        leaving = properties_of(PacketType.DISCONNECT, role)
        found.append(st.builds(Disconnect, reasons_of(PacketType.DISCONNECT, role), leaving))
    else:
        found.append(st.just(Disconnect()))
    return st.one_of(found)


def auths(role: Role) -> st.SearchStrategy[Packet]:
    """Any AUTH, which has a method."""
    with_method = st.builds(
        lambda found, method: replace(found, authentication_method=method), properties_of(PacketType.AUTH), TEXT
    )
    return st.builds(Auth, reasons_of(PacketType.AUTH, role), with_method)


def from_server(version: ProtocolVersion) -> st.SearchStrategy[Packet]:
    """Any packet that a client reads behind CONNACK."""
    role = Role.CLIENT
    found: list[st.SearchStrategy[Packet]] = [publishes(version, role), acks(version, role), st.just(Pingresp())]
    if version != V5:
        codes = st.lists(st.sampled_from([0, 1, 2, 0x80]), min_size=1, max_size=4).map(tuple)
        return st.one_of([*found, st.builds(Suback, ID, codes), st.builds(Unsuback, ID)])
    for value, kind in ((Suback, PacketType.SUBACK), (Unsuback, PacketType.UNSUBACK)):
        codes = st.lists(reasons_of(kind, role).map(int), min_size=1, max_size=4).map(tuple)
        found.append(st.builds(value, ID, codes, properties_of(kind)))
    leaving = properties_of(PacketType.DISCONNECT, role)
    found.append(st.builds(Disconnect, reasons_of(PacketType.DISCONNECT, role), leaving))
    return st.one_of([*found, auths(role)])


def connacks(version: ProtocolVersion) -> st.SearchStrategy[Packet]:
    """Any CONNACK."""
    if version == V5:
        reasons = reasons_of(PacketType.CONNACK, Role.CLIENT)
        return st.builds(
            lambda present, reason, found: Connack(present and not reason, reason, found),
            st.booleans(),
            reasons,
            properties_of(PacketType.CONNACK),
        )
    refused = st.builds(Connack, st.just(False), st.integers(0, 5).map(from_return_code))
    return refused | st.just(Connack(version == V311))


def server(version: ProtocolVersion, kind: type[Decoder] = Decoder) -> Decoder:
    """A decoder behind CONNECT."""
    return kind(version=version)


def client(version: ProtocolVersion) -> Decoder:
    """A decoder behind CONNACK."""
    made = Decoder(role=Role.CLIENT, version=version)
    made.feed(encode(Connack(), version))
    return made


# -- read(write(p)) == p -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
@given(data=st.data())
def test_a_connect_that_was_written_is_read_again(version: ProtocolVersion, data: st.DataObject) -> None:
    """CONNECT, with wills and properties."""
    packet = data.draw(connects(version))
    assert Decoder().feed(encode(packet, version)) == [packet]


@pytest.mark.parametrize("version", ALL)
@given(data=st.data())
def test_a_connack_that_was_written_is_read_again(version: ProtocolVersion, data: st.DataObject) -> None:
    """CONNACK, with return codes and reasons."""
    packet = data.draw(connacks(version))
    assert Decoder(role=Role.CLIENT, version=version).feed(encode(packet, version)) == [packet]


@pytest.mark.parametrize("version", ALL)
@given(data=st.data())
def test_what_a_client_wrote_is_read_again(version: ProtocolVersion, data: st.DataObject) -> None:
    """Every packet of a client, several in a row."""
    wanted = data.draw(st.lists(from_client(version), max_size=6))
    for index, packet in enumerate(wanted):
        if isinstance(packet, Disconnect):
            wanted = wanted[: index + 1]
            break
    wire = b"".join(encode(packet, version) for packet in wanted)
    for kind in DECODERS.values():
        assert packets(server(version, kind).feed(wire)) == wanted


@pytest.mark.parametrize("version", ALL)
@given(data=st.data())
def test_what_a_server_wrote_is_read_again(version: ProtocolVersion, data: st.DataObject) -> None:
    """Every packet of a server."""
    packet = data.draw(from_server(version))
    assert packets(client(version).feed(encode(packet, version))) == [packet]


# -- any bytes ---------------------------------------------------------------------------------------


def in_pieces(decoder: Decoder, wire: bytes, cuts: list[int]) -> list[Any]:
    """Everything the decoder says when the bytes come in these pieces."""
    places = [0, *sorted(cut % (len(wire) + 1) for cut in cuts), len(wire)]
    return [item for start, stop in pairwise(places) for item in decoder.feed(wire[start:stop])]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[ProtocolVersion, Role, bool, bytes]:
    """Rows of the case tables glued together, with some bytes changed, lost or put in."""
    first = draw(st.sampled_from(CASES))
    alike = [case for case in CASES if (case.version, case.role) == (first.version, first.role)]
    more = draw(st.lists(st.sampled_from(alike), max_size=4))
    wire = bytearray(b"".join(case.wire[:400] for case in (first, *more)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(wire) - 1)))
        match draw(st.integers(0, 2)):
            case 0 if wire:
                wire[at] = draw(st.integers(0, 255))
            case 1:
                del wire[at : at + draw(st.integers(1, 3))]
            case _:
                wire[at:at] = draw(st.binary(max_size=3))
    return first.version, first.role, first.first, bytes(wire)


def start(kind: type[Decoder], version: ProtocolVersion, role: Role, first: bool) -> Decoder:
    """A decoder of either role, before or behind its first packet."""
    if role is Role.SERVER:
        return kind(100_000, version=None if first else version)
    made = kind(100_000, role=role, version=version)
    if not first:
        made.feed(encode(Connack(), version))
    return made


@given(
    wire=st.binary(max_size=300),
    version=st.none() | st.sampled_from(ALL),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_random_bytes_become_items_or_one_last_error(
    wire: bytes, version: ProtocolVersion | None, cuts: list[int]
) -> None:
    """Nothing is raised, whatever comes, however it is cut; both twins say the same."""
    said = []
    for kind in DECODERS.values():
        items = in_pieces(kind(10_000, version=version), wire, cuts)
        assert not [item for item in items[:-1] if isinstance(item, MqttError)]
        said.append(fields(items))
    assert said[0] == said[-1]


@given(mutated(), st.lists(st.integers(0, 2000), max_size=5))
def test_mutated_packets_become_items_or_one_last_error(
    mutation: tuple[ProtocolVersion, Role, bool, bytes], cuts: list[int]
) -> None:
    """The same for bytes that are nearly right; and a cut changes nothing but the runs' lengths."""
    version, role, first, wire = mutation
    said = []
    for kind in DECODERS.values():
        items = in_pieces(start(kind, version, role, first), wire, cuts)
        assert not [item for item in items[:-1] if isinstance(item, MqttError)]
        said.append(fields(items))
        whole = packets(start(kind, version, role, first).feed(wire))
        assert [repr(packet) for packet in packets(items)] == [repr(packet) for packet in whole]
    assert said[0] == said[-1]


@st.composite
def streams(draw: st.DrawFn) -> tuple[ProtocolVersion, bytes]:
    """Messages and acknowledgements with few topics, ids and properties, so that runs come about."""
    version = draw(st.sampled_from([V31, V311, V5]))
    blocks = [Properties(), Properties(user_properties=(("a", "b"),)), Properties(topic_alias=3)]
    found: list[Packet] = []
    for _ in range(draw(st.integers(1, 12))):
        qos = draw(QOS)
        packet = Publish(
            draw(st.sampled_from([b"a", b"b", "\u00e4".encode()])),
            b"p" * draw(st.sampled_from([0, 1, 1, 1, 122, 200])),
            qos,
            packet_id=draw(st.integers(1, 3)) if qos else 0,
            properties=draw(st.sampled_from(blocks)) if version == V5 else Properties(),
        )
        found += [packet] * draw(st.integers(1, 3))
        if draw(st.booleans()):
            found += [Ack(draw(st.sampled_from([PacketType.PUBACK, PacketType.PUBREL])), 1)] * draw(st.integers(1, 3))
    return version, b"".join(encode(packet, version) for packet in found)


@given(streams(), st.lists(st.integers(0, 5000), max_size=3))
def test_both_twins_cut_the_same_runs(stream: tuple[ProtocolVersion, bytes], cuts: list[int]) -> None:
    """Every field of every run."""
    version, wire = stream
    said = [fields(in_pieces(server(version, kind), wire, cuts)) for kind in DECODERS.values()]
    assert said[0] == said[-1]


@given(streams(), st.booleans(), QOS, st.booleans())
def test_both_twins_write_the_same_bytes(
    stream: tuple[ProtocolVersion, bytes], five: bool, qos: int, retain: bool
) -> None:
    """A run in any form, its payloads and its parts."""
    version, wire = stream
    for run in server(version).feed(wire):
        if not isinstance(run, PublishRun):
            continue
        ids = list(range(1, run.count + 1)) if qos else []
        written = encode_run(run, five=five, qos=qos, retain=retain, ids=ids, properties=run.forwardable)
        head = 0x30 | qos << 1 | retain
        block = props.block(replace(run.properties, topic_alias=None)) if five else b""
        before = len(run.topic).to_bytes(2, "big") + run.topic
        for module in MODULES.values():
            assert module.recode(run.wire, run.count, run.prefix, head, before, block, ids) == written
            assert module.payloads(run.wire, run.count, run.prefix) == run.payloads()
            for stop in range(1, run.count + 1):
                begin, end, longest = module.locate(run.wire, stop - 1, stop)
                assert run.wire[begin:end] == run.part(stop - 1, stop).wire
                assert longest == end - begin
        (again,) = client(V5 if five else V311).feed(written)
        assert isinstance(again, PublishRun)
        assert again.payloads() == run.payloads()
        assert again.ids == ids
