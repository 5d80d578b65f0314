"""PUBACK, PUBREC, PUBREL and PUBCOMP, as either end reads them."""

from iot_mqtt.codec import Ack, PacketType, Properties
from iot_mqtt.errors import ReasonCode as R
from tests.cases.table import ALL, FIVE, THREE, V5, V31, V311, bad, good, rows

ACK, REC, REL, COMP = PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP
WHY = Properties(reason_string="why", user_properties=(("k", "v"),))

CASES = rows(
    good("PUBACK", ALL, "40 02 0001", Ack(ACK, 1)),
    good("PUBREC", ALL, "50 02 0100", Ack(REC, 256)),
    good("PUBREL", ALL, "62 02 ffff", Ack(REL, 65535)),
    good("PUBCOMP", ALL, "70 02 1234", Ack(COMP, 0x1234)),
    good("PUBACK, reason 0 spelt out", FIVE, "40 03 0001 00", Ack(ACK, 1), canonical=False),
    good("PUBACK, reason 0 and no properties", FIVE, "40 04 0001 00 00", Ack(ACK, 1), canonical=False),
    good("PUBREL, reason 0 and no properties", FIVE, "62 04 0001 00 00", Ack(REL, 1), canonical=False),
    good("PUBACK, no subscribers", FIVE, "40 03 0001 10", Ack(ACK, 1, R.NO_MATCHING_SUBSCRIBERS)),
    good(
        "PUBACK, no subscribers, no properties",
        FIVE,
        "40 04 0001 10 00",
        Ack(ACK, 1, R.NO_MATCHING_SUBSCRIBERS),
        canonical=False,
    ),
    good("PUBREC, quota", FIVE, "50 03 0001 97", Ack(REC, 1, R.QUOTA_EXCEEDED)),
    good("PUBREL, unknown id", FIVE, "62 03 0001 92", Ack(REL, 1, R.PACKET_IDENTIFIER_NOT_FOUND)),
    good("PUBCOMP, unknown id", FIVE, "70 03 0001 92", Ack(COMP, 1, R.PACKET_IDENTIFIER_NOT_FOUND)),
    good("PUBACK with properties", FIVE, "40 * 0001 80 ( 1f 'why' 26 'k' 'v' )", Ack(ACK, 1, R.UNSPECIFIED_ERROR, WHY)),
    good("PUBCOMP with properties", FIVE, "70 * 0001 00 ( 1f 'why' 26 'k' 'v' )", Ack(COMP, 1, R.SUCCESS, WHY)),
    good("PUBREL sent again in MQTT 3.1", [V31], "6a 02 0001", Ack(REL, 1), canonical=False),
    *[
        bad(f"{kind} id 0", ALL, f"{head} 02 0000", R.PROTOCOL_ERROR)
        for kind, head in (("PUBACK", "40"), ("PUBREC", "50"), ("PUBREL", "62"), ("PUBCOMP", "70"))
    ],
    *[
        bad(f"{kind} flags", [V311, V5], f"{head} 02 0001", R.MALFORMED_PACKET)
        for kind, head in (
            ("PUBACK", "42"),
            ("PUBREC", "51"),
            ("PUBREL", "60"),
            ("PUBREL dup", "6a"),
            ("PUBCOMP", "78"),
        )
    ],
    bad("PUBACK without id", ALL, "40 00", R.MALFORMED_PACKET),
    bad("PUBACK with half an id", ALL, "40 01 00", R.MALFORMED_PACKET),
    bad("PUBACK too long", THREE, "40 03 0001 00", R.MALFORMED_PACKET),
    bad("PUBREL too long", THREE, "62 04 0001 00 00", R.MALFORMED_PACKET),
    bad("PUBACK with a reason of PUBREL", FIVE, "40 03 0001 92", R.PROTOCOL_ERROR),
    bad("PUBREL with a reason of PUBACK", FIVE, "62 03 0001 10", R.PROTOCOL_ERROR),
    bad("PUBACK with an unknown reason", FIVE, "40 03 0001 05", R.PROTOCOL_ERROR),
    bad("PUBACK, property length behind the end", FIVE, "40 04 0001 00 01", R.MALFORMED_PACKET),
    bad("PUBACK, bytes behind the properties", FIVE, "40 05 0001 00 00 00", R.MALFORMED_PACKET),
    bad("PUBACK with a property of PUBLISH", FIVE, "40 * 0001 00 ( 01 00 )", R.MALFORMED_PACKET),
    bad("PUBACK, reason string twice", FIVE, "40 * 0001 00 ( 1f 'a' 1f 'a' )", R.PROTOCOL_ERROR),
)
