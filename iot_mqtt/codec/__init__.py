"""The codec of MQTT 3.1, 3.1.1 and 5.0: bytes in, values out, and back. No sockets, clocks, logs or sessions."""

from iot_mqtt.codec.batch import PublishBatch
from iot_mqtt.codec.decoder import UNDECODED, Decoder, Item, Undecoded
from iot_mqtt.codec.encoder import encode, encode_acks, encode_messages, encode_publish, encode_run, encode_wires, size
from iot_mqtt.codec.kinds import PacketType, Role
from iot_mqtt.codec.packets import (
    PINGREQ,
    PINGRESP,
    Ack,
    Auth,
    Connack,
    Connect,
    ConnectWill,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Publish,
    Request,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from iot_mqtt.codec.properties import NO_PROPERTIES, Properties
from iot_mqtt.codec.reasons import return_code
from iot_mqtt.codec.runs import AckRun, PublishRun, RunBatch, run_of, run_of_message
from iot_mqtt.codec.scan import last_messages, named, page_reader, row_reader, runs_of
from iot_mqtt.codec.wire import MAX_PACKET_SIZE, check_topic
from iot_mqtt.codec.wrong_port import WrongPort, at_tls_port

__all__ = [
    "MAX_PACKET_SIZE",
    "NO_PROPERTIES",
    "PINGREQ",
    "PINGRESP",
    "UNDECODED",
    "Ack",
    "AckRun",
    "Auth",
    "Connack",
    "Connect",
    "ConnectWill",
    "Decoder",
    "Disconnect",
    "Item",
    "Packet",
    "PacketType",
    "Pingreq",
    "Pingresp",
    "Properties",
    "Publish",
    "PublishBatch",
    "RunBatch",
    "PublishRun",
    "Request",
    "Role",
    "Suback",
    "Subscribe",
    "Undecoded",
    "Unsuback",
    "Unsubscribe",
    "WrongPort",
    "at_tls_port",
    "check_topic",
    "encode",
    "encode_acks",
    "encode_messages",
    "encode_publish",
    "encode_run",
    "encode_wires",
    "run_of",
    "run_of_message",
    "last_messages",
    "named",
    "page_reader",
    "row_reader",
    "runs_of",
    "return_code",
    "size",
]
