"""The pure-Python twin of ``_scan.pyx``: same names, same results, checked against the same vectors."""

from iot_mqtt.native._pure_aliases import named
from iot_mqtt.native._pure_messages import Messages
from iot_mqtt.native._pure_pages import PageReader
from iot_mqtt.native._pure_pairs import pairs, values
from iot_mqtt.native._pure_runs import acks, locate, patch, payloads, publish, recode, rewrite
from iot_mqtt.native._pure_scan import FIVE, FROM_CLIENT, IN_ORDER, NAMES, Scanner

__all__ = [
    "FIVE",
    "FROM_CLIENT",
    "IN_ORDER",
    "NAMES",
    "Messages",
    "PageReader",
    "Scanner",
    "acks",
    "locate",
    "named",
    "pairs",
    "patch",
    "payloads",
    "publish",
    "recode",
    "rewrite",
    "values",
]
