"""PINGREQ, PINGRESP, DISCONNECT, AUTH, and what is wrong whatever the packet: types, lengths, order."""

from iot_mqtt.codec import Auth, Disconnect, Pingreq, Pingresp, Properties, Role
from iot_mqtt.errors import ReasonCode as R
from tests.cases.table import ALL, FIVE, THREE, V5, V311, bad, good, rows

CLIENT = Role.CLIENT
METHOD = Properties(
    authentication_method="M", authentication_data=b"d", reason_string="r", user_properties=(("k", "v"),)
)
LEAVING = Properties(session_expiry_interval=0, reason_string="r", user_properties=(("k", "v"),))
MOVED = Properties(server_reference="other", reason_string="r")

PING = rows(
    good("PINGREQ", ALL, "c0 00", Pingreq()),
    good("PINGRESP", ALL, "d0 00", Pingresp(), role=CLIENT),
    bad("PINGREQ with a body", ALL, "c0 01 00", R.MALFORMED_PACKET),
    bad("PINGRESP with a body", ALL, "d0 01 00", R.MALFORMED_PACKET, role=CLIENT),
    bad("PINGREQ with flags", ALL, "c1 00", R.MALFORMED_PACKET),
)
DISCONNECT = rows(
    good("plain", ALL, "e0 00", Disconnect()),
    good("with will", FIVE, "e0 01 04", Disconnect(R.DISCONNECT_WITH_WILL)),
    good("reason 0 spelt out", FIVE, "e0 01 00", Disconnect(), canonical=False),
    good("reason 0 and no properties", FIVE, "e0 02 00 00", Disconnect(), canonical=False),
    good("with properties", FIVE, "e0 * 00 ( 11 00000000 1f 'r' 26 'k' 'v' )", Disconnect(R.SUCCESS, LEAVING)),
    good("taken over", FIVE, "e0 01 8e", Disconnect(R.SESSION_TAKEN_OVER), role=CLIENT),
    good("server moved", FIVE, "e0 * 9d ( 1c 'other' 1f 'r' )", Disconnect(R.SERVER_MOVED, MOVED), role=CLIENT),
    bad("with a reason", THREE, "e0 01 00", R.MALFORMED_PACKET),
    bad("flags [MQTT-3.14.1-1]", ALL, "e2 00", R.MALFORMED_PACKET),
    bad("reason only a server has", FIVE, "e0 01 8e", R.PROTOCOL_ERROR),
    bad("reason only a client has", FIVE, "e0 01 04", R.PROTOCOL_ERROR, role=CLIENT),
    bad("unknown reason", FIVE, "e0 01 01", R.PROTOCOL_ERROR),
    bad("expiry from a server [MQTT-3.14.2-2]", FIVE, "e0 * 00 ( 11 00000000 )", R.PROTOCOL_ERROR, role=CLIENT),
    bad("expiry twice", FIVE, "e0 * 00 ( 11 00000000 11 00000000 )", R.PROTOCOL_ERROR),
    bad("property of CONNECT", FIVE, "e0 * 00 ( 21 0001 )", R.MALFORMED_PACKET),
    bad("bytes left over", FIVE, "e0 03 00 00 00", R.MALFORMED_PACKET),
    bad("from an MQTT 3 server", THREE, "e0 00", R.PROTOCOL_ERROR, role=CLIENT),
)
AUTH = rows(
    good("continue", FIVE, "f0 * 18 ( 15 'M' 16 0001 64 1f 'r' 26 'k' 'v' )", Auth(R.CONTINUE_AUTHENTICATION, METHOD)),
    good("again", FIVE, "f0 * 19 ( 15 'M' )", Auth(R.REAUTHENTICATE, Properties(authentication_method="M"))),
    good("success", FIVE, "f0 00", Auth(), role=CLIENT),
    good("success spelt out", FIVE, "f0 02 00 00", Auth(), role=CLIENT, canonical=False),
    good(
        "continue, before CONNACK",
        FIVE,
        "f0 * 18 ( 15 'M' )",
        Auth(R.CONTINUE_AUTHENTICATION, Properties(authentication_method="M")),
        role=CLIENT,
        first=True,
    ),
    bad("in MQTT 3", THREE, "f0 00", R.MALFORMED_PACKET),
    bad("success from a client", FIVE, "f0 00", R.PROTOCOL_ERROR),
    bad("again from a server", FIVE, "f0 * 19 ( 15 'M' )", R.PROTOCOL_ERROR, role=CLIENT),
    bad("without a method", FIVE, "f0 02 18 00", R.PROTOCOL_ERROR),
    bad("data without a method", FIVE, "f0 * 18 ( 16 0001 64 )", R.PROTOCOL_ERROR),
    bad("unknown reason", FIVE, "f0 * 1a ( 15 'M' )", R.PROTOCOL_ERROR),
    bad("flags [MQTT-3.15.1-1]", FIVE, "f1 * 18 ( 15 'M' )", R.MALFORMED_PACKET),
    bad("property of CONNECT", FIVE, "f0 * 18 ( 15 'M' 21 0001 )", R.MALFORMED_PACKET),
)
FIXED_HEADER = rows(
    bad("type 0", ALL, "00 00", R.MALFORMED_PACKET),
    bad("type 0 first", ALL, "00 00", R.MALFORMED_PACKET, first=True),
    bad("an HTTP request first", [V311], '"GET / HTTP/1.1"', R.MALFORMED_PACKET, first=True),
    bad("a TLS hello first", [V311], "16 0301 0200 01", R.MALFORMED_PACKET, first=True),
    bad("remaining length of five bytes", ALL, "30 8080808001", R.MALFORMED_PACKET),
    bad("remaining length of five bytes, small", ALL, "c0 8080808000", R.MALFORMED_PACKET),
    bad("remaining length longer than it need be [MQTT-1.5.5-1]", FIVE, "c0 8000", R.MALFORMED_PACKET),
    bad("above the limit", ALL, "82 8008", R.PACKET_TOO_LARGE, limit=1024),
    bad("above the limit, the first packet", ALL, "10 8008 'MQTT' 05", R.PACKET_TOO_LARGE, limit=1024, first=True),
)
ORDER = rows(
    *[
        bad(f"{name} first [MQTT-3.1.0-1]", [V311], wire, R.PROTOCOL_ERROR, first=True)
        for name, wire in (
            ("PUBLISH", "30 * 'a'"),
            ("PUBACK", "40 02 0001"),
            ("SUBSCRIBE", "82 * 0001 'a' 00"),
            ("UNSUBSCRIBE", "a2 * 0001 'a'"),
            ("PINGREQ", "c0 00"),
            ("DISCONNECT", "e0 00"),
            ("AUTH", "f0 00"),
        )
    ],
    bad("CONNECT again [MQTT-3.1.0-2]", [V311], "10 * 'MQTT' 04 02 003c 'a'", R.PROTOCOL_ERROR),
    bad("CONNECT again [MQTT-3.1.0-2]", [V5], "10 * 'MQTT' 05 02 003c () 'a'", R.PROTOCOL_ERROR),
    *[
        bad(f"{name} from a client", ALL, wire, R.PROTOCOL_ERROR)
        for name, wire in (
            ("CONNACK", "20 02 00 00"),
            ("SUBACK", "90 03 0001 00"),
            ("UNSUBACK", "b0 02 0001"),
            ("PINGRESP", "d0 00"),
        )
    ],
    *[
        bad(f"{name} from a server", ALL, wire, R.PROTOCOL_ERROR, role=CLIENT)
        for name, wire in (
            ("CONNECT", "10 02 00 00"),
            ("SUBSCRIBE", "82 03 0001 00"),
            ("UNSUBSCRIBE", "a2 02 0001"),
            ("PINGREQ", "c0 00"),
            ("CONNACK again", "20 02 00 00"),
        )
    ],
    bad("PUBLISH before CONNACK", [V311, V5], "30 * 'a' 00", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("DISCONNECT before CONNACK", [V5], "e0 00", R.PROTOCOL_ERROR, role=CLIENT, first=True),
)
CASES = PING + DISCONNECT + AUTH + FIXED_HEADER + ORDER
