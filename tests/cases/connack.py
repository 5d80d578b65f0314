"""CONNACK, as a client reads it."""

from iot_mqtt.codec import Connack, Properties, Role
from iot_mqtt.errors import ReasonCode as R
from tests.cases.table import FIVE, THREE, V311, bad, good, rows

CLIENT = Role.CLIENT

FULL = Properties(
    session_expiry_interval=10,
    assigned_client_identifier="auto-1",
    server_keep_alive=30,
    authentication_method="M",
    authentication_data=b"\xff",
    response_information="resp/",
    server_reference="other:1883",
    reason_string="why",
    receive_maximum=5,
    topic_alias_maximum=7,
    maximum_qos=1,
    retain_available=False,
    user_properties=(("k", "v"),),
    maximum_packet_size=1000,
    wildcard_subscription_available=True,
    subscription_identifier_available=False,
    shared_subscription_available=True,
)

CASES = rows(
    good("accepted", THREE, "20 02 00 00", Connack(), role=CLIENT, first=True),
    good("session present", [V311], "20 02 01 00", Connack(True), role=CLIENT, first=True),
    good("bad version", THREE, "20 02 00 01", Connack(False, R.UNSUPPORTED_PROTOCOL_VERSION), role=CLIENT, first=True),
    good("bad id", THREE, "20 02 00 02", Connack(False, R.CLIENT_IDENTIFIER_NOT_VALID), role=CLIENT, first=True),
    good("unavailable", THREE, "20 02 00 03", Connack(False, R.SERVER_UNAVAILABLE), role=CLIENT, first=True),
    good("bad password", THREE, "20 02 00 04", Connack(False, R.BAD_USER_NAME_OR_PASSWORD), role=CLIENT, first=True),
    good("not authorised", THREE, "20 02 00 05", Connack(False, R.NOT_AUTHORIZED), role=CLIENT, first=True),
    good("accepted", FIVE, "20 03 00 00 00", Connack(), role=CLIENT, first=True),
    good("session present", FIVE, "20 03 01 00 00", Connack(True), role=CLIENT, first=True),
    good("banned", FIVE, "20 03 00 8a 00", Connack(False, R.BANNED), role=CLIENT, first=True),
    good(
        "every property",
        FIVE,
        """20 * 00 00 ( 11 0000000a  12 'auto-1'  13 001e  15 'M'  16 0001 ff  1a 'resp/'  1c 'other:1883'
           1f 'why'  21 0005  22 0007  24 01  25 00  26 'k' 'v'  27 000003e8  28 01  29 00  2a 01 )""",
        Connack(properties=FULL),
        role=CLIENT,
        first=True,
    ),
    bad("reserved flags", [V311], "20 02 02 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("reserved flags", FIVE, "20 03 80 00 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("session present in a refusal", [V311], "20 02 01 05", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("session present in a refusal", FIVE, "20 03 01 87 00", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("return code 6", THREE, "20 02 00 06", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("reason of another packet", FIVE, "20 03 00 92 00", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("no property length", FIVE, "20 02 00 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("too short", THREE, "20 01 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("too long", THREE, "20 03 00 00 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("maximum QoS 2", FIVE, "20 * 00 00 ( 24 02 )", R.PROTOCOL_ERROR, role=CLIENT, first=True),
    bad("topic alias", FIVE, "20 * 00 00 ( 23 0001 )", R.MALFORMED_PACKET, role=CLIENT, first=True),
    bad("flags in the fixed header", FIVE, "21 03 00 00 00", R.MALFORMED_PACKET, role=CLIENT, first=True),
)
