"""What became of a publication."""

from __future__ import annotations


class Outcome:
    """What became of a publication: how many receivers it had, and what the publisher's answer waits for."""

    __slots__ = ("receivers", "elsewhere", "ticket", "position", "refused")

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

    @property
    def nobody(self) -> bool:
        """Whether it had no receiver anywhere."""
        return not (self.receivers or self.elsewhere)

    def refuse(self, position: int) -> None:
        """Note that one receiver had no room for the message at this position."""
        if self.refused is None:
            self.refused = {}
        self.refused[position] = self.refused.get(position, 0) + 1

    def wholly_refused(self) -> list[int]:
        """Positions that not one receiver took: the publisher is told so (v5: 0x97)."""
        if self.refused is None or self.elsewhere:
            return []
        return [position for position, count in self.refused.items() if count >= self.receivers]
