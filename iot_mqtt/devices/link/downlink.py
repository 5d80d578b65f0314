"""The commands of one gateway's connection, from the broker's PUBLISH to what the device said.

::

    PUBLISH ─▶ a place ─▶ begin: "sent" is committed ─▶ encode ─▶ written ─▶ Answer ─▶ acked or failed
                             └ not to be sent ─▶ PUBACK           └ may not be sent twice: PUBACK now
                                                                    may be: PUBACK with the answer

PUBACK makes the broker forget a command. One that may be sent again is kept by the broker until it was answered, so
that the gateway's next connection gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from iot_mqtt.codec import Publish
from iot_mqtt.devices.asked import command_id_of
from iot_mqtt.devices.link.messages import command_values
from iot_mqtt.devices.link.places import Places
from iot_mqtt.devices.link.services import CommandStates, Verdict
from iot_mqtt.plugins.running import Runner
from iot_mqtt.sdk import Answer, Command

#: Numbers of commands are four bytes for a codec.
_NUMBERS = 0xFFFF_FFFF
_DOWN = b"down/"
_NO_DEVICE = "a gateway has no such device: the target is to be GATEWAY/DEVICE, without a further level"


@dataclass(slots=True)
class _Pending:
    """One command that was handed to the codec."""

    packet_id: int
    #: None: a message to ``down/…`` that nobody keeps a record of.
    command_id: str | None
    #: Its PUBACK is still to come.
    held: bool
    written: bool = False


class Downlink:
    """``acknowledge`` sends a PUBACK."""

    def __init__(
        self,
        gateway: str,
        states: CommandStates,
        now: Callable[[], int],
        runner: Runner,
        acknowledge: Callable[[list[int]], None],
        places: Places,
    ) -> None:
        self._own = f"{gateway}/"
        self._states = states
        self._now = now
        self._runner = runner
        self._acknowledge = acknowledge
        self._pending: dict[int, _Pending] = {}
        self._number = 0
        self._places = places
        self._held = self._over = False

    def hold(self) -> None:
        """Nothing can be encoded any more: what comes from now on stays with the broker, for the next connection."""
        self._held = True
        self._places.close()

    def command(self, packet: Publish) -> bool:
        """A command came; False if it names no device, and therefore has failed."""
        if self._held:
            return True
        target = packet.topic.removeprefix(_DOWN).decode("utf-8", "replace")
        device = target.removeprefix(self._own)
        command_id = _id_of(packet)
        if not device or "/" in device or device == target:
            if command_id is not None:
                self._states.refused(command_id, target, _NO_DEVICE)
            return False
        if command_id is None:
            self._encode(packet, device, None)
        else:
            self._places.take(command_id, partial(self._begin, packet, device, command_id))
        return True

    def _begin(self, packet: Publish, device: str, command_id: str) -> None:
        over = partial(self._places.free, command_id)
        self._states.begin(command_id, device, partial(self._begun, packet, device, command_id), over)

    def _begun(self, packet: Publish, device: str, command_id: str, verdict: Verdict) -> None:
        if self._over:
            # Its state says "sent", and nobody will ever know more than that it was not written here.
            if verdict.send:
                self._states.link_lost([command_id])
            return
        if verdict.send:
            self._encode(packet, device, command_id)
        else:
            self._places.free(command_id)
            if packet.packet_id:
                self._acknowledge([packet.packet_id])

    def _encode(self, packet: Publish, device: str, command_id: str | None) -> None:
        self._number = self._number % _NUMBERS + 1
        deadline = None
        if command_id is not None:
            deadline = self._states.deadline(command_id)
        elif packet.properties.message_expiry_interval is not None:
            deadline = self._now() + 1000 * packet.properties.message_expiry_interval
        held = command_id is not None and self._states.allows_retry(command_id)
        self._pending[self._number] = _Pending(packet.packet_id, command_id, held)
        body = packet.payload
        self._runner.encode(Command(self._number, device, command_values(body), body, deadline))

    def encoded(self, number: int) -> None:
        """The codec's bytes were written."""
        pending = self._pending.get(number)
        if pending is None:
            return
        pending.written = True
        if not pending.held:
            self._forget(pending)
        if pending.command_id is None:
            del self._pending[number]
        elif not self._places.until_answered:
            self._places.free(pending.command_id)

    def not_encoded(self, number: int, reason: str) -> None:
        """The codec cannot say that to this device."""
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        if pending.command_id is not None:
            self._states.failed(pending.command_id, reason)
        self._forget(pending)

    def answered(self, answer: Answer) -> None:
        """What the device said; an answer to nothing is ignored."""
        pending = self._pending.pop(answer.number, None)
        if pending is None:
            return
        if pending.command_id is not None:
            self._states.answered(pending.command_id, answer.ok, answer.detail, answer.values)
        if pending.held or not pending.written:
            self._forget(pending)

    def _forget(self, pending: _Pending) -> None:
        if pending.packet_id:
            self._acknowledge([pending.packet_id])

    def lost(self) -> None:
        """The connection is gone: what was not answered may have been done or not."""
        self._over = True
        self._places.close()
        # It is of who has this: no cycle stays.
        self._acknowledge = _to_nobody
        pending, self._pending = self._pending, {}
        self._states.link_lost([one.command_id for one in pending.values() if one.command_id is not None])


def _id_of(packet: Publish) -> str | None:
    """None: it is a message like others; with an id, if it has one, that says nothing."""
    if not packet.qos or packet.retain:
        return None
    return command_id_of(packet.properties)


def _to_nobody(_ids: list[int]) -> None:
    """The broker's end of the connection is gone, too."""
