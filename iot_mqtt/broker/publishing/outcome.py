"""What became of a publication."""

from __future__ import annotations

from typing import Final

from iot_mqtt.errors import ReasonCode, Refused

NO_ROOM: Final = Refused("", ReasonCode.QUOTA_EXCEEDED)
DISK_FULL: Final = Refused("the disk is full", ReasonCode.QUOTA_EXCEEDED)


class Outcome:
    """What became of a publication: how many receivers it had, and what the publisher's answer waits for."""

    __slots__ = ("receivers", "elsewhere", "ticket", "position", "refused", "refusals")

    def __init__(self, receivers: int = 0) -> None:
        self.receivers = receivers
        #: Somebody on another node wants it.
        self.elsewhere = False
        #: The commit to wait for before acknowledging; 0: none.
        self.ticket = 0
        #: Before acknowledging, everything in the log before it must be safe in the uplink's sink, too; 0: nothing.
        self.position = 0
        #: Position in the run → receivers that had no room for it.
        self.refused: dict[int, int] | None = None
        #: Position in the run → why nobody was to get the message, however many would have had room.
        self.refusals: dict[int, Refused] | None = None

    @property
    def nobody(self) -> bool:
        """Whether it had no receiver anywhere."""
        return not (self.receivers or self.elsewhere)

    def refuse(self, position: int) -> None:
        """Note that one receiver had no room for the message at this position."""
        if self.refused is None:
            self.refused = {}
        self.refused[position] = self.refused.get(position, 0) + 1

    def deny(self, position: int, refusal: Refused) -> None:
        """Note that the message at this position was not taken at all, and why."""
        self.refuse(position)
        if self.refusals is None:
            self.refusals = {}
        self.refusals[position] = refusal

    def wholly_refused(self) -> list[int]:
        """Positions that not one receiver took: the publisher is told so (v5), with ``refusal``."""
        if self.refused is None:
            return []
        denied = self.refusals or ()
        return [
            position
            for position, count in self.refused.items()
            if position in denied or (count >= self.receivers and not self.elsewhere)
        ]

    def refusal(self, position: int) -> Refused:
        """Why a message that was wholly refused was: there was no room for it, if nothing else is known."""
        return (self.refusals or {}).get(position, NO_ROOM)
