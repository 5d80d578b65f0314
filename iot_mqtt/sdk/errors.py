"""What a codec raises, and nothing else: any other exception is a fault of the codec and counts against it."""

from __future__ import annotations


class BadFrame(Exception):
    """The gateway's fault: the connection is closed and the reason is counted.

    ``reason`` is one of a handful of lower-case words ("checksum", "no_login"); ``detail`` is for a person.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class CannotEncode(Exception):
    """This device or protocol cannot be told such a thing: the command has failed, for the reason given."""
