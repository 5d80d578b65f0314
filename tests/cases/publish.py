"""PUBLISH, in both directions."""

from iot_mqtt.codec import Properties, Publish, Role
from iot_mqtt.errors import ReasonCode as R
from tests.cases.table import ALL, FIVE, THREE, V5, V311, bad, good, rows

CLIENT = Role.CLIENT

FULL = Properties(
    payload_format_indicator=1,
    message_expiry_interval=30,
    content_type="json",
    response_topic="r",
    correlation_data=b"\x00\x01",
    topic_alias=4,
    user_properties=(("b", "2"), ("a", "1"), ("b", "2")),
)

CASES = rows(
    # -- good
    good("QoS 0", THREE, "30 * 'a/b' \"hi\"", Publish(b"a/b", b"hi")),
    good("QoS 0", FIVE, "30 * 'a/b' () \"hi\"", Publish(b"a/b", b"hi")),
    good("QoS 0, retained, no payload", THREE, "31 * 'a/b'", Publish(b"a/b", b"", retain=True)),
    good("QoS 0, retained, no payload", FIVE, "31 * 'a/b' ()", Publish(b"a/b", b"", retain=True)),
    good("QoS 1", THREE, "32 * 'a/b' 000a \"hi\"", Publish(b"a/b", b"hi", 1, packet_id=10)),
    good("QoS 1", FIVE, "32 * 'a/b' 000a () \"hi\"", Publish(b"a/b", b"hi", 1, packet_id=10)),
    good("QoS 2, dup, retain", THREE, "3d * 'a' ffff", Publish(b"a", b"", 2, True, True, 65535)),
    good("QoS 2, dup, retain", FIVE, "3d * 'a' ffff ()", Publish(b"a", b"", 2, True, True, 65535)),
    good("one space as topic", THREE, "30 * ' '", Publish(b" ", b"")),
    good("only a slash as topic", FIVE, "30 * '/' ()", Publish(b"/", b"")),
    good("topic outside ASCII", THREE, "30 * 'Äther/\U0001f600' 00", Publish("Äther/\U0001f600".encode(), b"\0")),
    good("payload that is no UTF-8", ALL[:2], "30 * 'a' ff00fe", Publish(b"a", b"\xff\x00\xfe")),
    good("dollar topic", FIVE, "30 * '$SYS/x' ()", Publish(b"$SYS/x", b"")),
    good(
        "every property a client may send",
        FIVE,
        """32 * 'a' 0001 ( 01 01  02 0000001e  03 'json'  08 'r'  09 0002 0001  23 0004
           26 'b' '2'  26 'a' '1'  26 'b' '2' ) "x" """,
        Publish(b"a", b"x", 1, packet_id=1, properties=FULL),
    ),
    good(
        "alias instead of topic",
        FIVE,
        "30 * '' ( 23 0001 ) \"x\"",
        Publish(b"", b"x", properties=Properties(topic_alias=1)),
    ),
    good(
        "subscription identifiers from a server",
        FIVE,
        "30 * 'a' ( 0b 01  0b ffffff7f ) 00",
        Publish(b"a", b"\0", properties=Properties(subscription_identifiers=(1, 268435455))),
        role=CLIENT,
    ),
    good("QoS 1 from a server", [V311], "32 * 'a' 0001", Publish(b"a", b"", 1, packet_id=1), role=CLIENT),
    good(
        "remaining length longer than it need be",
        [V311],
        "30 868000 'a' \"hi!\"",
        Publish(b"a", b"hi!"),
        canonical=False,
    ),
    good("127 bytes", [V311], "30 * 'a' " + "55" * 124, Publish(b"a", b"\x55" * 124)),
    good("128 bytes", [V311], "30 * 'a' " + "55" * 125, Publish(b"a", b"\x55" * 125)),
    good("16383 bytes", [V5], "30 * 'a' () " + "55" * 16379, Publish(b"a", b"\x55" * 16379)),
    good("16384 bytes", [V5], "30 * 'a' () " + "55" * 16380, Publish(b"a", b"\x55" * 16380)),
    good(
        "property block of 128 bytes",
        FIVE,
        "30 * 'a' ( 03 '" + "c" * 125 + "' ) 00",
        Publish(b"a", b"\0", properties=Properties(content_type="c" * 125)),
    ),
    good(
        "property block too long for the cache",
        FIVE,
        "30 * 'a' ( 03 '" + "c" * 300 + "' ) 00",
        Publish(b"a", b"\0", properties=Properties(content_type="c" * 300)),
    ),
    # -- flags
    bad("QoS 3 [MQTT-3.3.1-4]", THREE, "36 * 'a' 0001", R.MALFORMED_PACKET),
    bad("QoS 3 [MQTT-3.3.1-4]", FIVE, "36 * 'a' 0001 ()", R.MALFORMED_PACKET),
    bad("DUP at QoS 0 [MQTT-3.3.1-2]", THREE, "38 * 'a'", R.MALFORMED_PACKET),
    bad("DUP at QoS 0 [MQTT-3.3.1-2]", FIVE, "38 * 'a' ()", R.MALFORMED_PACKET),
    # -- topic
    bad("empty topic [MQTT-4.7.3-1]", THREE, "30 * '' 00", R.TOPIC_NAME_INVALID),
    bad("empty topic without alias", FIVE, "30 * '' () 00", R.PROTOCOL_ERROR),
    bad("wildcard # [MQTT-3.3.2-2]", THREE, "30 * 'a/#'", R.TOPIC_NAME_INVALID),
    bad("wildcard + [MQTT-3.3.2-2]", FIVE, "30 * 'a/+/b' ()", R.TOPIC_NAME_INVALID),
    bad("U+0000 in topic", THREE, "30 * 0003 610062", R.MALFORMED_PACKET),
    bad("U+0000 in topic", FIVE, "30 * 0003 610062 ()", R.MALFORMED_PACKET),
    bad("surrogate in topic", THREE, "30 * 0003 edbfbf", R.MALFORMED_PACKET),
    bad("overlong in topic", FIVE, "30 * 0002 c080 ()", R.MALFORMED_PACKET),
    bad("truncated UTF-8 in topic", THREE, "30 * 0002 61c3", R.MALFORMED_PACKET),
    bad("topic longer than the packet", THREE, "30 * 0009 6162", R.MALFORMED_PACKET),
    bad("topic longer than the packet, more data behind", FIVE, "30 04 0009 6162 0000000000000000", R.MALFORMED_PACKET),
    bad("no body", THREE, "30 00", R.MALFORMED_PACKET),
    bad("one byte of topic length", THREE, "30 01 00", R.MALFORMED_PACKET),
    # -- packet id
    bad("packet id 0", THREE, "32 * 'a' 0000", R.PROTOCOL_ERROR),
    bad("packet id 0", FIVE, "34 * 'a' 0000 ()", R.PROTOCOL_ERROR),
    bad("no packet id", THREE, "32 * 'a'", R.MALFORMED_PACKET),
    bad("half a packet id", FIVE, "32 * 'a' 00", R.MALFORMED_PACKET),
    # -- properties
    bad("no property length", FIVE, "30 * 'a'", R.MALFORMED_PACKET),
    bad("property length behind the end", FIVE, "30 * 'a' 05 01", R.MALFORMED_PACKET),
    bad("property length of five bytes", FIVE, "30 * 'a' 8080808000", R.MALFORMED_PACKET),
    bad("property length longer than it need be", FIVE, "30 * 'a' 8000 00", R.MALFORMED_PACKET),
    bad("unknown property", FIVE, "30 * 'a' ( 05 01 )", R.MALFORMED_PACKET),
    bad("property of CONNECT", FIVE, "30 * 'a' ( 21 0001 )", R.MALFORMED_PACKET),
    bad("reason string", FIVE, "30 * 'a' ( 1f 'x' )", R.MALFORMED_PACKET),
    bad("alias 0 [MQTT-3.3.2-8]", FIVE, "30 * 'a' ( 23 0000 )", R.TOPIC_ALIAS_INVALID),
    bad("alias twice", FIVE, "30 * 'a' ( 23 0001 23 0001 )", R.PROTOCOL_ERROR),
    bad("payload format 2", FIVE, "30 * 'a' ( 01 02 )", R.PROTOCOL_ERROR),
    bad("payload format twice", FIVE, "30 * 'a' ( 01 01 01 01 )", R.PROTOCOL_ERROR),
    bad("expiry twice", FIVE, "30 * 'a' ( 02 00000001 02 00000001 )", R.PROTOCOL_ERROR),
    bad("content type twice", FIVE, "30 * 'a' ( 03 'a' 03 'a' )", R.PROTOCOL_ERROR),
    bad("response topic with wildcard [MQTT-3.3.2-14]", FIVE, "30 * 'a' ( 08 'r/+' )", R.PROTOCOL_ERROR),
    bad("empty response topic", FIVE, "30 * 'a' ( 08 '' )", R.PROTOCOL_ERROR),
    bad("bad UTF-8 in content type", FIVE, "30 * 'a' ( 03 0001 80 )", R.MALFORMED_PACKET),
    bad("correlation data cut off", FIVE, "30 * 'a' ( 09 0004 00 )", R.MALFORMED_PACKET),
    bad("identifier from a client [MQTT-3.3.4-6]", FIVE, "30 * 'a' ( 0b 01 )", R.PROTOCOL_ERROR),
    bad("identifier 0", FIVE, "30 * 'a' ( 0b 00 )", R.PROTOCOL_ERROR, role=CLIENT),
    bad("identifier of five bytes", FIVE, "30 * 'a' ( 0b 8080808001 )", R.MALFORMED_PACKET, role=CLIENT),
    bad("QoS 3 from a server", [V311], "36 * 'a' 0001", R.MALFORMED_PACKET, role=CLIENT),
    # -- size
    bad("one byte above the limit", THREE, "30 09 'abcd' 000000", R.PACKET_TOO_LARGE, limit=10),
    bad("256 MB announced", THREE, "30 ffffff7f", R.PACKET_TOO_LARGE, limit=1 << 20),
    bad("256 MB announced", FIVE, "30 ffffff7f", R.PACKET_TOO_LARGE, limit=1 << 20),
)
