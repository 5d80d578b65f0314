"""The link ``anonymous``: who names no user needs no proof."""

from __future__ import annotations

from iot_mqtt.ports.access import ConnectAttempt, Denied, Principal


class AnonymousLink:
    """Lets in who names no user; with ``any_name`` also who names one, which then counts for nothing."""

    name = "anonymous"
    counts = False

    def __init__(self, *, any_name: bool) -> None:
        self._any_name = any_name

    async def consider(self, attempt: ConnectAttempt) -> Principal | Denied | None:
        if attempt.username is None or self._any_name:
            return Principal(attempt.client_id, attempt.username, anonymous=True)
        return None

    def known(self, attempt: ConnectAttempt) -> str:
        return "takes everybody" if self._any_name else "takes who names no user"
