"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK, each as its receiver reads it."""

from iot_mqtt.codec import Properties, Request, Role, Suback, Subscribe, Unsuback, Unsubscribe
from iot_mqtt.errors import ReasonCode as R
from tests.cases.table import ALL, FIVE, THREE, V5, V31, V311, bad, good, rows

CLIENT = Role.CLIENT
WHY = Properties(reason_string="why", user_properties=(("k", "v"),))
USER = Properties(user_properties=(("k", "v"),))

SUBSCRIBE = rows(
    good("one filter", THREE, "82 * 0001 'a/b' 00", Subscribe(1, (Request("a/b"),))),
    good("one filter", FIVE, "82 * 0001 () 'a/b' 00", Subscribe(1, (Request("a/b"),))),
    good(
        "three filters",
        THREE,
        "82 * 000a '#' 01 '+/a' 02 'c' 00",
        Subscribe(10, (Request("#", 1), Request("+/a", 2), Request("c"))),
    ),
    good(
        "two filters",
        FIVE,
        "82 * 000a () '#' 01 '$share/g/a' 02",
        Subscribe(10, (Request("#", 1), Request("$share/g/a", 2))),
    ),
    good("every option", FIVE, "82 * 0001 () 'a' 2e", Subscribe(1, (Request("a", 2, True, True, 2),))),
    good("retain handling 1", FIVE, "82 * 0001 () 'a' 10", Subscribe(1, (Request("a", 0, False, False, 1),))),
    good(
        "identifier and user property",
        FIVE,
        "82 * 0001 ( 0b 8001 26 'k' 'v' ) 'a' 00",
        Subscribe(1, (Request("a"),), Properties(subscription_identifiers=(128,), user_properties=(("k", "v"),))),
    ),
    good(
        "a bad filter is for the broker to refuse", ALL[:2], "82 * 0001 'a/#/b' 00", Subscribe(1, (Request("a/#/b"),))
    ),
    good("an empty filter likewise", FIVE, "82 * 0001 () '' 00", Subscribe(1, (Request(""),))),
    good("sent again in MQTT 3.1", [V31], "8a * 0001 'a' 00", Subscribe(1, (Request("a"),)), canonical=False),
    bad("no filter [MQTT-3.8.3-2]", THREE, "82 02 0001", R.PROTOCOL_ERROR),
    bad("no filter [MQTT-3.8.3-2]", FIVE, "82 03 0001 00", R.PROTOCOL_ERROR),
    bad("no packet id", ALL, "82 00", R.MALFORMED_PACKET),
    bad("packet id 0", THREE, "82 * 0000 'a' 00", R.PROTOCOL_ERROR),
    bad("packet id 0", FIVE, "82 * 0000 () 'a' 00", R.PROTOCOL_ERROR),
    bad("flags [MQTT-3.8.1-1]", [V311, V5], "80 * 0001 'a' 00", R.MALFORMED_PACKET),
    bad("QoS 3 [MQTT-3-8.3-4]", THREE, "82 * 0001 'a' 03", R.MALFORMED_PACKET),
    bad("QoS 3", FIVE, "82 * 0001 () 'a' 03", R.PROTOCOL_ERROR),
    bad("options of MQTT 5", THREE, "82 * 0001 'a' 04", R.MALFORMED_PACKET),
    bad("reserved option bits [MQTT-3.8.3-5]", FIVE, "82 * 0001 () 'a' 40", R.MALFORMED_PACKET),
    bad("retain handling 3", FIVE, "82 * 0001 () 'a' 30", R.PROTOCOL_ERROR),
    bad("no local, shared [MQTT-3.8.3-4]", FIVE, "82 * 0001 () '$share/g/a' 04", R.PROTOCOL_ERROR),
    bad("no options", THREE, "82 * 0001 'a'", R.MALFORMED_PACKET),
    bad("filter cut off", THREE, "82 * 0001 0005 61", R.MALFORMED_PACKET),
    bad("bad UTF-8", THREE, "82 * 0001 0001 ff 00", R.MALFORMED_PACKET),
    bad("U+0000", FIVE, "82 * 0001 () 0001 00 00", R.MALFORMED_PACKET),
    bad("identifier 0", FIVE, "82 * 0001 ( 0b 00 ) 'a' 00", R.PROTOCOL_ERROR),
    bad("identifier twice", FIVE, "82 * 0001 ( 0b 01 0b 02 ) 'a' 00", R.PROTOCOL_ERROR),
    bad("reason string", FIVE, "82 * 0001 ( 1f 'x' ) 'a' 00", R.MALFORMED_PACKET),
    bad("no properties where MQTT 5 has them", FIVE, "82 * 0001 'a' 00", R.MALFORMED_PACKET),
)
SUBACK = rows(
    good("granted and refused", THREE, "90 * 0001 00 01 02 80", Suback(1, (0, 1, 2, 0x80)), role=CLIENT),
    good("granted and refused", FIVE, "90 * 0001 () 00 02 87 8f", Suback(1, (0, 2, 0x87, 0x8F)), role=CLIENT),
    good("with properties", FIVE, "90 * 0001 ( 1f 'why' 26 'k' 'v' ) 00", Suback(1, (0,), WHY), role=CLIENT),
    bad("return code 3", THREE, "90 * 0001 03", R.PROTOCOL_ERROR, role=CLIENT),
    bad("reason of MQTT 5", THREE, "90 * 0001 87", R.PROTOCOL_ERROR, role=CLIENT),
    bad("unknown reason", FIVE, "90 * 0001 () 03", R.PROTOCOL_ERROR, role=CLIENT),
    bad("no reason", THREE, "90 02 0001", R.PROTOCOL_ERROR, role=CLIENT),
    bad("no reason", FIVE, "90 03 0001 00", R.PROTOCOL_ERROR, role=CLIENT),
    bad("packet id 0", FIVE, "90 * 0000 () 00", R.PROTOCOL_ERROR, role=CLIENT),
    bad("flags", ALL, "92 * 0001 00 00", R.MALFORMED_PACKET, role=CLIENT),
)
UNSUBSCRIBE = rows(
    good("one filter", THREE, "a2 * 0001 'a/b'", Unsubscribe(1, ("a/b",))),
    good("one filter", FIVE, "a2 * 0001 () 'a/b'", Unsubscribe(1, ("a/b",))),
    good("two filters", THREE, "a2 * ffff '#' '+'", Unsubscribe(65535, ("#", "+"))),
    good("user property", FIVE, "a2 * 0001 ( 26 'k' 'v' ) 'a'", Unsubscribe(1, ("a",), USER)),
    good("sent again in MQTT 3.1", [V31], "aa * 0001 'a'", Unsubscribe(1, ("a",)), canonical=False),
    bad("no filter [MQTT-3.10.3-2]", THREE, "a2 02 0001", R.PROTOCOL_ERROR),
    bad("no filter [MQTT-3.10.3-2]", FIVE, "a2 03 0001 00", R.PROTOCOL_ERROR),
    bad("packet id 0", THREE, "a2 * 0000 'a'", R.PROTOCOL_ERROR),
    bad("packet id 0", FIVE, "a2 * 0000 () 'a'", R.PROTOCOL_ERROR),
    bad("flags [MQTT-3.10.1-1]", [V311, V5], "a0 * 0001 'a'", R.MALFORMED_PACKET),
    bad("bad UTF-8", THREE, "a2 * 0001 0001 80", R.MALFORMED_PACKET),
    bad("filter cut off", FIVE, "a2 * 0001 () 0003 61", R.MALFORMED_PACKET),
    bad("identifier", FIVE, "a2 * 0001 ( 0b 01 ) 'a'", R.MALFORMED_PACKET),
)
UNSUBACK = rows(
    good("plain", THREE, "b0 02 0001", Unsuback(1), role=CLIENT),
    good("reasons", FIVE, "b0 * 0001 () 00 11", Unsuback(1, (0, 0x11)), role=CLIENT),
    good("with properties", FIVE, "b0 * 0001 ( 1f 'why' 26 'k' 'v' ) 87", Unsuback(1, (0x87,), WHY), role=CLIENT),
    bad("with reasons", THREE, "b0 03 0001 00", R.MALFORMED_PACKET, role=CLIENT),
    bad("no reason", FIVE, "b0 03 0001 00", R.PROTOCOL_ERROR, role=CLIENT),
    bad("unknown reason", FIVE, "b0 * 0001 () 01", R.PROTOCOL_ERROR, role=CLIENT),
    bad("packet id 0", ALL, "b0 02 0000", R.PROTOCOL_ERROR, role=CLIENT),
)
CASES = SUBSCRIBE + SUBACK + UNSUBSCRIBE + UNSUBACK
