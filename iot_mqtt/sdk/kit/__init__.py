"""What any codec can be held against: ``iot-mqtt plugin check``, or tests of a plugin made of ``CodecTests``."""

from iot_mqtt.sdk.kit.card import Score, ScoreCard
from iot_mqtt.sdk.kit.checking import CHECKS, Unfit, check, check_one, subject_of
from iot_mqtt.sdk.kit.options import QUICK, Options
from iot_mqtt.sdk.kit.testing import CodecTests

__all__ = [
    "CHECKS",
    "QUICK",
    "CodecTests",
    "Options",
    "Score",
    "ScoreCard",
    "Unfit",
    "check",
    "check_one",
    "subject_of",
]
