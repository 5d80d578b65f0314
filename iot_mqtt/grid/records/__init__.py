"""What the caches hold: one module per kind of record, every format with its version. Values in, bytes out."""

from iot_mqtt.grid.records.base import Unreadable
from iot_mqtt.grid.records.keys import (
    client_prefix,
    packet_id_of,
    packet_key,
    queue_key,
    retained_key,
    sequence_of,
    session_key,
    split_prefix,
    subscription_key,
)
from iot_mqtt.grid.records.message import decode_message, encode_message
from iot_mqtt.grid.records.queue import (
    DupRecord,
    PubrelRecord,
    QueueRecord,
    ReceivedRecord,
    decode_dup,
    decode_pubrel,
    decode_queue,
    decode_received,
    encode_dup,
    encode_pubrel,
    encode_queue,
    encode_received,
)
from iot_mqtt.grid.records.retained import RetainedRecord, decode_retained, encode_retained
from iot_mqtt.grid.records.sessions import (
    SessionRecord,
    SubscriptionRecord,
    decode_session,
    decode_subscription,
    encode_session,
    encode_subscription,
)
from iot_mqtt.grid.records.wills import WillRecord, decode_will, encode_will

__all__ = [
    "DupRecord",
    "PubrelRecord",
    "QueueRecord",
    "ReceivedRecord",
    "RetainedRecord",
    "SessionRecord",
    "SubscriptionRecord",
    "Unreadable",
    "WillRecord",
    "client_prefix",
    "decode_dup",
    "decode_message",
    "decode_pubrel",
    "decode_queue",
    "decode_received",
    "decode_retained",
    "decode_session",
    "decode_subscription",
    "decode_will",
    "encode_dup",
    "encode_message",
    "encode_pubrel",
    "encode_queue",
    "encode_received",
    "encode_retained",
    "encode_session",
    "encode_subscription",
    "encode_will",
    "packet_id_of",
    "packet_key",
    "queue_key",
    "retained_key",
    "sequence_of",
    "session_key",
    "split_prefix",
    "subscription_key",
]
