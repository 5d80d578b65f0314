"""Link protocol version 1, as bytes. Never changed: a later version proves with it that it still reads this one.

Hex with blanks, and ``'text'`` for characters. GOOD is written and read back, and so is what was added to version 1
since, ADDED; OLDER_READS is what a later sender may add, and what version 1 makes of it; BAD is refused.
"""

from __future__ import annotations

import re

from iot_mqtt.cluster.links.values import (
    Data,
    Datagram,
    Head,
    Heartbeat,
    Lost,
    Repair,
    Reply,
    Request,
    Retained,
    Route,
    Routes,
    RoutesAck,
    Unknown,
)
from iot_mqtt.codec import Decoder, PublishRun
from iot_mqtt.ports.cluster import Forwarded
from iot_mqtt.ports.log import Reference
from iot_mqtt.values import ProtocolVersion


def raw(text: str) -> bytes:
    """The bytes of a notation."""
    quoted = re.sub(r"'([^']*)'", lambda found: found[1].encode().hex(), text)
    return bytes.fromhex(quoted)


def _run(wire: str, five: bool) -> PublishRun:
    (run,) = Decoder(version=ProtocolVersion.V5 if five else ProtocolVersion.V311).feed(raw(wire))
    assert isinstance(run, PublishRun)
    return run


HEAD = Head(sender=3, sender_boot=0x10, receiver=4, receiver_boot=0x20)
#: version, kind, sender, receiver, boots
BOOTS = "03 04 0000000000000010 0000000000000020"
DATA, HEARTBEAT, REPAIR, LOST = (f"01 0{kind} {BOOTS}" for kind in (1, 2, 3, 4))
#: first number, end, one item
ONE = f"{DATA} 0000000000000007 0000000000000100 00000001"

#: An item by itself: routes acknowledged.
ACK = "03 00000010 000000000000000a 00000000000000ff"
#: Two PUBLISH of MQTT 3.1.1 at QoS 1, and one of MQTT 5 whose topic is alias 1.
THREE = "32 08 0003 'a/b' 0007 'x'" + "32 09 0003 'a/b' 0008 'yz'"
ALIAS = "30 08 0000 03 23 0001 'hi'"

_PUBLICATION = Forwarded(_run(THREE, five=False), b"a/b", "dev-1", 1.5, Reference(2, 5, 0x0102030405, 2), plain=True)
_SHARED = Forwarded(
    _run(ALIAS, five=True), b"a/b", "g\u00fc", 2.0, None, plain=False, members=(("$share/g/a/+", "$share/h/#"),)
)
_PUBLICATION_BYTES = (
    "01 0000003d"  # kind, length
    "06 3ff8000000000000"  # plain, in the log; arrived
    "00000002 00000005 0000000102030405"  # generation, stream, position
    "0005 0000 0000 00000015"  # lengths of publisher and topic, groups, length of wire
    "'dev-1'" + THREE
)
_SHARED_BYTES = (
    "01 0000004d"
    "01 4000000000000000"  # MQTT 5
    "00000000 00000000 0000000000000000"
    "0003 0003 0002 0000000a"
    "67c3bc 'a/b'" + ALIAS + "000c '$share/g/a/+' 000a '$share/h/#'"
)

GOOD: dict[str, tuple[str, Datagram]] = {
    "a publication": (ONE + _PUBLICATION_BYTES, Data(7, 0x100, (_PUBLICATION,))),
    "a publication for shared groups, without the log, its topic beside the wire": (
        ONE + _SHARED_BYTES,
        Data(7, 0x100, (_SHARED,)),
    ),
    "two publications": (
        f"{DATA} 0000000000000007 0000000000000100 00000002" + _PUBLICATION_BYTES + _SHARED_BYTES,
        Data(7, 0x100, (_PUBLICATION, _SHARED)),
    ),
    "routes in full, first part": (
        ONE + "02 00000029  03 0000000000000000 0000000000000009 00000002"
        "01 00000000 0003 'a/#'"  # live
        "03 00000002 0003 '$s/'",  # live and durable, two members
        Data(7, 0x100, (Routes(0, 9, (Route("a/#", 1), Route("$s/", 3, 2)), full=True, more=True),)),
    ),
    "routes changed, one has gone": (
        ONE + "02 0000001f  00 0000000000000009 000000000000000a 00000001 00 00000000 0003 'a/#'",
        Data(7, 0x100, (Routes(9, 10, (Route("a/#", 0),)),)),
    ),
    "routes acknowledged": (
        ONE + "03 00000010 000000000000000a 00000000000000ff",
        Data(7, 0x100, (RoutesAck(10, 255),)),
    ),
    "retained": (
        ONE + "04 00000034  00 0000000000000005 3ff8000000000000 0005 0003 00000013 'dev-1' 'a/b'"
        "31 11 0003 'a/b' 'x0123456789a'",
        Data(
            7,
            0x100,
            (Retained(b"a/b", 5, _run("31 11 0003 'a/b' 'x0123456789a'", five=False), "dev-1", 1.5),),
        ),
    ),
    "retained message removed": (
        ONE + "04 0000001c  02 0000000000000006 0000000000000000 0000 0003 00000000 'a/b'",
        Data(7, 0x100, (Retained(b"a/b", 6, None),)),
    ),
    "request": (
        ONE + "05 00000013  00000001 0006 'detach' 00000003 'dev'",
        Data(7, 0x100, (Request(1, "detach", b"dev"),)),
    ),
    "reply": (ONE + "06 0000000b  00000001 00 00000002 'ok'", Data(7, 0x100, (Reply(1, b"ok"),))),
    "refusal": (
        ONE + "06 0000000c  00000001 01 00000003 'why'",
        Data(7, 0x100, (Reply(1, b"why", refused=True),)),
    ),
    "heartbeat": (
        HEARTBEAT + "0000000000000008 0000000000000100 0000000000000002"  # next, end, received
        "000000000000000a ffeeddccbbaa9988 3fe0000000000000 03",  # routes, load, draining and hears
        Heartbeat(8, 0x100, 2, 10, 0xFFEEDDCCBBAA9988, 0.5, draining=True, hears=True),
    ),
    "first heartbeat": (
        HEARTBEAT + "0000000000000001 0000000000000000 0000000000000001"
        "0000000000000000 0000000000000000 0000000000000000 00",
        Heartbeat(1, 0, 1),
    ),
    "repair of two spans": (
        REPAIR + "0002 0000000000000001 0000000000000003 0000000000000005 0000000000000005",
        Repair(((1, 3), (5, 5))),
    ),
    "lost": (LOST + "0000000000000001 0000000000000003", Lost(1, 3)),
}

_HEARTBEAT_8: str = HEARTBEAT + "0000000000000008 0000000000000100 0000000000000002 000000000000000a ffeeddccbbaa9988"
#: Fields behind those of GOOD, with flags that say so: releases that do not know them pass over them.
ADDED: dict[str, tuple[str, Datagram]] = {
    "heartbeat with a clock": (
        _HEARTBEAT_8 + "3fe0000000000000 0a 41d954fc40000000 7ff8000000000000",
        Heartbeat(8, 0x100, 2, 10, 0xFFEEDDCCBBAA9988, 0.5, hears=True, clocks=(1_700_000_000.0, None)),
    ),
    "heartbeat with both clocks": (
        _HEARTBEAT_8 + "3fe0000000000000 0a 41d954fc40000000 c082c00000000000",
        Heartbeat(8, 0x100, 2, 10, 0xFFEEDDCCBBAA9988, 0.5, hears=True, clocks=(1_700_000_000.0, -600.0)),
    ),
}

OLDER_READS: dict[str, tuple[str, Datagram]] = {
    "an item of a kind that came later": (
        f"{DATA} 0000000000000007 0000000000000100 00000002 63 00000003 010203 {ACK}",
        Data(7, 0x100, (Unknown(0x63), RoutesAck(10, 255))),
    ),
    "later fields behind those of an acknowledgement": (
        ONE + "03 00000012 000000000000000a 00000000000000ff ffff",
        Data(7, 0x100, (RoutesAck(10, 255),)),
    ),
    "later fields behind those of a publication": (
        ONE + _PUBLICATION_BYTES.replace("01 0000003d", "01 0000003f") + "ffff",
        Data(7, 0x100, (_PUBLICATION,)),
    ),
    "later fields behind the items": (
        ONE + "03 00000010 000000000000000a 00000000000000ff ffff",
        Data(7, 0x100, (RoutesAck(10, 255),)),
    ),
    "later fields of a heartbeat, and a later flag": (
        HEARTBEAT + "0000000000000001 0000000000000000 0000000000000001"
        "0000000000000000 0000000000000000 0000000000000000 80 ffff",
        Heartbeat(1, 0, 1),
    ),
    "later fields of LOST": (LOST + "0000000000000001 0000000000000003 ff", Lost(1, 3)),
}

BAD: dict[str, str] = {
    "nothing": "",
    "half a head": "01 01 03 04 00",
    "another version": "02 04" + LOST[5:] + "0000000000000001 0000000000000003",
    "an unknown kind": LOST.replace("01 04", "01 09", 1) + "0000000000000001 0000000000000003",
    "DATA without anything": DATA,
    "DATA of no items": f"{DATA} 0000000000000007 0000000000000100 00000000",
    "DATA from number 0 on": f"{DATA} 0000000000000000 0000000000000100 00000001 {ACK}",
    "DATA with a number beyond all": f"{DATA} ffffffffffffffff 0000000000000100 00000001 {ACK}",
    "more items than bytes": f"{DATA} 0000000000000007 0000000000000100 ffffffff {ACK}",
    "one item less than it says": f"{DATA} 0000000000000007 0000000000000100 00000002 {ACK}",
    "an item longer than the datagram": ONE + "03 00000011 000000000000000a 00000000000000ff",
    "an item as long as can be": ONE + "03 ffffffff 000000000000000a 00000000000000ff",
    "an item shorter than its fields": ONE + "03 0000000f 000000000000000a 00000000000000ff",
    "a publication whose wire is too long": ONE + _PUBLICATION_BYTES.replace("00000015", "00000016"),
    "a publication whose wire is cut": ONE + _PUBLICATION_BYTES.replace("00000015", "00000014"),
    "a publication whose wire is empty": ONE + _PUBLICATION_BYTES.replace("00000015", "00000000"),
    "a publication whose wire is no PUBLISH": ONE + _PUBLICATION_BYTES.replace("32 08", "c0 00"),
    "a publication with two runs": ONE + _PUBLICATION_BYTES.replace("32 09", "30 09"),
    "a publication of an alias, without the topic": ONE + _SHARED_BYTES.replace("0003 0003", "0006 0000"),
    "a publication with less groups than it says": ONE + _SHARED_BYTES.replace("0003 0003 0002", "0003 0003 0003"),
    "a publisher that is no text": ONE + _SHARED_BYTES.replace("67c3bc", "67c367"),
    "routes that end early": ONE + "02 0000001f  00 0000000000000009 000000000000000a 00000002 00 00000000 0003 'a/#'",
    "a filter longer than the item": ONE
    + "02 0000001f  00 0000000000000009 000000000000000a 00000001 00 00000000 0004 'a/#'",
    "a filter that is no text": ONE
    + "02 0000001f  00 0000000000000009 000000000000000a 00000001 00 00000000 0003 612fff",
    "retained without a topic": ONE + "04 00000019  02 0000000000000006 0000000000000000 0000 0000 00000000",
    "a request whose body is too long": ONE + "05 00000013  00000001 0006 'detach' 00000004 'dev'",
    "a reply whose body is too long": ONE + "06 0000000b  00000001 00 00000003 'ok'",
    "a heartbeat cut short": HEARTBEAT + "0000000000000008 0000000000000100",
    "a heartbeat with a clock without a time": _HEARTBEAT_8 + "3fe0000000000000 0a 7ff8000000000000 7ff8000000000000",
    "a heartbeat with 0 as the next number": HEARTBEAT
    + "0000000000000000 0000000000000000 0000000000000001 0000000000000000 0000000000000000 0000000000000000 00",
    "a repair with less spans than it says": REPAIR + "0002 0000000000000001 0000000000000003",
    "a repair backwards": REPAIR + "0001 0000000000000003 0000000000000001",
    "a repair from 0 on": REPAIR + "0001 0000000000000000 0000000000000001",
    "lost cut short": LOST + "0000000000000001",
    "lost beyond all": LOST + "0000000000000001 ffffffffffffffff",
}
