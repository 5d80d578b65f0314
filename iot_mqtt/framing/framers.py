"""From a declaration to what cuts frames by it."""

from __future__ import annotations

from iot_mqtt.framing.checking import BadFraming, check
from iot_mqtt.framing.declare import Fixed, Framing, LengthField, Line
from iot_mqtt.framing.delimited import DelimiterFramer, LineFramer
from iot_mqtt.framing.framer import Framer
from iot_mqtt.framing.sized import FixedFramer, LengthFieldFramer


def framer_of(framing: Framing) -> Framer:
    """A framer for one connection. Raises ``BadFraming`` if the declaration makes no sense."""
    if problems := check(framing):
        raise BadFraming(problems)
    if isinstance(framing, LengthField):
        return LengthFieldFramer(framing)
    if isinstance(framing, Fixed):
        return FixedFramer(framing)
    if isinstance(framing, Line):
        return LineFramer(framing)
    return DelimiterFramer(framing)
