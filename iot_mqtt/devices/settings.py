"""``devices.*``: what is kept of commands, devices and shadows, and for how long."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevicesSettings:
    """Seconds, numbers and bytes."""

    #: Accompany what is published to ``down/…`` with QoS 1 or 2; false: these are messages like others.
    commands: bool = True
    #: Commands that are not over; more are refused.
    max_commands: int = 100_000
    #: Commands that are over, and how long they can still be asked for.
    max_finished_commands: int = 50_000
    keep_commands: float = 24 * 3600.0
    #: What a device replies, as JSON; of more there is the beginning.
    max_reply_bytes: int = 16_384
    #: A command without a deadline is given up after this time.
    longest_command: float = 7 * 24 * 3600.0
    #: A command without a deadline that was sent, and whose connection is gone, is uncertain after this time.
    grace: float = 10.0
    #: Gateways and devices that are remembered; those away that were seen longest ago make room.
    max_devices: int = 200_000
    #: Of these, devices behind one gateway; its own ones seen longest ago make room.
    max_devices_behind: int = 10_000
    #: A device behind a gateway that is connected counts as online for so long after it was heard of.
    silent_after: float = 600.0
    #: What was last seen of a device is written at most this often.
    seen_interval: float = 30.0
    #: Keep what devices behind gateways report as their shadow.
    shadows: bool = True
    #: It is written at most this often.
    shadow_interval: float = 1.0
    #: Targets of which something was reported, and targets of which something is desired.
    max_shadows: int = 200_000
    #: Of these, targets behind one client.
    max_shadows_behind: int = 10_000
    #: Each half of a shadow, as JSON.
    max_shadow_bytes: int = 65_536
